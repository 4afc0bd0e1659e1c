/**
 * Callers that add elements to one set which a lock guards: each reads the set, works for a moment and writes it back with one
 * element more. What it adds while another is inside as well, or after another, overwrites what the other added.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { writeFenced } from '../../lib/fenced-write.js';
import type { Guard, LockUnderTest } from '../contenders/contender.js';
import { orStuck, STUCK_MS } from './loop.js';
import { monotonicMs } from './turns.js';

export interface ElementsRun {
  readonly callers: number;
  readonly key: string;
  readonly leaseMs: number;
  readonly durationMs: number;
  /** Where the set is: a server that no fault touches. */
  readonly dataPort: number;
  /** Its first element; each further one is greater by one. */
  readonly first: number;
}

/** One try to add an element, with instants of the machine's monotonic clock, in ms. */
export interface Addition {
  readonly process: string;
  readonly element: number;
  readonly askedAt: number;
  /** When it was inside the lock; undefined when it never was. */
  began?: number;
  ended?: number;
  answeredAt: number;
  /** `added`: its caller was told that all went well. `refused`: nothing was written. `unknown`: it was written, and then the lock said that something was wrong. */
  outcome: 'added' | 'refused' | 'unknown';
}

const WORK_MS = 5;
const PAUSE_AFTER_ERROR_MS = 20;

export async function runElements(lock: LockUnderTest, run: ElementsRun): Promise<readonly Addition[]> {
  const data = new Redis({ port: run.dataPort, host: '127.0.0.1' });
  const additions: Addition[] = [];
  const until = monotonicMs() + run.durationMs;
  let next = run.first;
  const calling = Array.from({ length: run.callers }, async (_, caller) => {
    while (monotonicMs() < until) {
      const addition: Addition = { process: `${process.pid}.${caller}`, element: next++, askedAt: monotonicMs(), answeredAt: Infinity, outcome: 'refused' };
      additions.push(addition);
      await add(lock, data, run, addition);
    }
  });
  await orStuck(Promise.all(calling), run.durationMs + STUCK_MS);
  data.disconnect();
  return additions;
}

async function add(lock: LockUnderTest, data: Redis, { key, leaseMs }: ElementsRun, addition: Addition): Promise<void> {
  try {
    await lock.guard!(key, leaseMs, async (guard) => {
      addition.began = monotonicMs();
      if (await write(data, key, addition.element, guard)) addition.outcome = 'added';
      addition.ended = monotonicMs();
    });
  } catch {
    if (addition.outcome === 'added') addition.outcome = 'unknown';
    await sleep(PAUSE_AFTER_ERROR_MS);
  }
  addition.answeredAt = monotonicMs();
}

/** Whether the element was written. */
async function write(data: Redis, key: string, element: number, { fence, isLost }: Guard): Promise<boolean> {
  // The fence is stored before the set is read, so that holders before this one can write no more.
  if (fence !== undefined && (await writeFenced(data, key, fence, {})) === 'stale') return false;
  const before = await data.hget(key, 'elements');
  await sleep(WORK_MS);
  if (isLost()) return false;
  const elements = before === null ? String(element) : `${before},${element}`;
  if (fence !== undefined) return (await writeFenced(data, key, fence, { elements })) === 'written';
  await data.hset(key, 'elements', elements);
  return true;
}
