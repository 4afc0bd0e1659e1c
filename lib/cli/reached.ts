/** How long the command line tries to reach a server. The first question only makes the connection, and is refused itself. */
import { delay, systemClock } from '../core/port/clock.js';
import { LockStoreError } from '../core/port/errors.js';

export const COMMAND_TIMEOUT_MS = 2_000;
export const REACHED_WITHIN_MS = 3_000;
export const PAUSE_MS = 20;

/** Asks until there is an answer. Rejects with the last LockStoreError when there is none in time, or when asking again cannot help. */
export async function reached<Answer>(ask: () => Promise<Answer>): Promise<Answer> {
  const deadline = systemClock.now() + REACHED_WITHIN_MS;
  for (;;) {
    try {
      return await ask();
    } catch (error) {
      if (!(error instanceof LockStoreError) || !error.retryable || systemClock.now() > deadline) throw error;
      await delay(systemClock, PAUSE_MS);
    }
  }
}
