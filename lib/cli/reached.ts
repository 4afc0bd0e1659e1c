/** How long the command line tries to reach a server. The first question only makes the connection, and is refused itself. */
import { pause, systemClock } from '../core/port/clock.js';
import { LockStoreError } from '../core/port/errors.js';

export const COMMAND_TIMEOUT_MS = 2_000;
export const REACHED_WITHIN_MS = 3_000;
export const PAUSE_MS = 20;

/** Asks until there is an answer. Rejects with LockStoreError when there is none in time, or when asking again cannot help. */
export async function reached<Answer>(ask: () => Promise<Answer>): Promise<Answer> {
  const deadline = systemClock.now() + REACHED_WITHIN_MS;
  for (;;) {
    try {
      return await ask();
    } catch (error) {
      if (!(error instanceof LockStoreError) || !error.retryable) throw error;
      if (systemClock.now() > deadline) throw unreachable(error);
      await pause(systemClock, PAUSE_MS);
    }
  }
}

/** The error for a store that cannot be reached. It says nothing of an unknown outcome, because no command has been run yet. */
function unreachable(error: LockStoreError): LockStoreError {
  const [failure] = error.nodes;
  if (failure === undefined) return error;
  const message = `Locks: ${failure.node} cannot be reached: ${failure.reason}. Check the address and that the server runs.`;
  return new LockStoreError(message, { cause: error, nodes: error.nodes });
}
