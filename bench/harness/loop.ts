/**
 * The work that is measured, described so that it can be sent to the process of each contender, and done there.
 */
import { nothing, oneTurn, type LockUnderTest } from '../contenders/contender.js';

/** Callers that take, work and give back until the time is over. */
export interface Loop {
  readonly callers: number;
  readonly durationMs: number;
  /** Ends the loop sooner, after so many cycles of all callers together. */
  readonly cycles?: number;
  /** Each caller has a key of its own, or all share one. */
  readonly keys: 'own' | 'shared';
  /** What is done under the lock: nothing, or one turn of the event loop. */
  readonly work: 'nothing' | 'turn';
  /** Read-write work: the share of reads. */
  readonly reads?: number;
}

/** What the contender's process knows of it. */
export interface LoopResult {
  readonly cycles: number;
  readonly seconds: number;
  readonly cpuUs: number;
  /** Cycles of the busiest caller over those of the one that got fewest. */
  readonly unfairness: number;
  /** How long a cycle took, in the middle and at the slowest hundredth, in ms; NaN with several callers, of whom each delays the others. */
  readonly medianMs: number;
  readonly p99Ms: number;
}

/** Some peers lose a wake-up now and then and sleep until a lease ends; a run does not wait for those callers. */
export const STUCK_MS = 3_000;

export async function runLoop(lock: LockUnderTest, { callers, durationMs, cycles: most = Infinity, keys, work, reads }: Loop): Promise<LoopResult> {
  const doWork = work === 'turn' ? oneTurn : nothing;
  const cycle = (caller: number, turn: number): Promise<void> => {
    const key = keys === 'own' ? `order:${caller}` : 'order:hot';
    if (reads === undefined) return lock.withLock(key, doWork);
    // Evenly mixed, and the same for everybody.
    return lock.withMode!((caller * 7 + turn * 3) % 10 < reads * 10 ? 'read' : 'write', key, doWork);
  };
  const cycles = new Array<number>(callers).fill(0);
  const cpu = process.cpuUsage();
  const began = performance.now();
  const until = began + durationMs;
  let last = began;
  const took: number[] = [];
  const calling = Array.from({ length: callers }, async (_, caller) => {
    for (let turn = 0, start = began; start < until && turn * callers < most; turn++, start = last) {
      await cycle(caller, turn);
      cycles[caller]!++;
      last = performance.now();
      if (callers === 1) took.push(last - start);
    }
  });
  await orStuck(Promise.all(calling), durationMs + STUCK_MS);
  const spent = process.cpuUsage(cpu);
  return {
    cycles: cycles.reduce((sum, of) => sum + of, 0),
    seconds: (last - began) / 1000,
    cpuUs: spent.user + spent.system,
    unfairness: Math.max(...cycles) / Math.min(...cycles),
    medianMs: quantile(took, 0.5),
    p99Ms: quantile(took, 0.99),
  };
}

export function quantile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

export async function orStuck(work: Promise<unknown>, boundMs: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const bound = new Promise<void>((resolve) => (timer = setTimeout(resolve, boundMs)));
  work.catch(() => {}); // whoever is left behind fails when its connection closes
  await Promise.race([work, bound]);
  clearTimeout(timer);
}
