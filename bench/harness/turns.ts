/**
 * Turns on one key, each written down with its beginning and end on the machine's monotonic clock, which all processes
 * share: so hand-overs between processes can be timed, shares counted and overlaps seen.
 */
import { oneTurn, type LockUnderTest } from '../contenders/contender.js';
import { orStuck, STUCK_MS } from './loop.js';

export interface TurnsRun {
  readonly callers: number;
  readonly key: string;
  /** When to start, on the monotonic clock in ms: all processes together. */
  readonly startAt: number;
  readonly durationMs: number;
}

/** Of each turn, one after another: since when it was wanted, its beginning and its end, in ms. */
export type Turns = readonly number[];

export async function runTurns(lock: LockUnderTest, { callers, key, startAt, durationMs }: TurnsRun): Promise<Turns> {
  const turns: number[] = [];
  await new Promise((resolve) => setTimeout(resolve, Math.max(0, startAt - monotonicMs())));
  const until = startAt + durationMs;
  const calling = Array.from({ length: callers }, async () => {
    while (monotonicMs() < until) {
      const wanted = monotonicMs();
      await lock.withLock(key, async () => {
        const began = monotonicMs();
        await oneTurn();
        turns.push(wanted, began, monotonicMs());
      });
    }
  });
  await orStuck(Promise.all(calling), durationMs + STUCK_MS);
  return turns;
}

export function monotonicMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}
