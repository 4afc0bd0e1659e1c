/**
 * Takes and releases a lock that nobody else can name, for the health check: a server may answer questions and yet refuse every
 * write, because its memory is full or it has become a replica.
 */
import { addAcquire } from './acquire-request.js';
import { listOf, releaseOutcome } from './lock-reply.js';
import { acquire, release } from './lua.generated.js';
import type { RedisKeys } from './redis-keys.js';
import type { ScriptArgument, ScriptReply, ScriptRunner } from './script-runner.js';

/** The length of the trial's lease in ms. If the release does not arrive, the lock is free after it. */
export const TRIAL_LEASE_MS = 1_000;

export interface Trial {
  readonly id: string;
  readonly keys: [lock: string, queue: string, fence: string];
}

/** The trial of a process. Trials of one process at the same time have the same id, so they do not get in each other's way. */
export function trialOf(process: string, keys: RedisKeys): Trial {
  const name = `trial:${process}`;
  return { id: `${process}.trial`, keys: keys.probe(keys.groupOf(name), name) };
}

/** Takes and releases the trial lock. Rejects with LockStoreError. */
export async function takeTrialLock({ id, keys }: Trial, runner: ScriptRunner, maxLeaseMs: number): Promise<void> {
  const args: ScriptArgument[] = [];
  addAcquire(args, { id, mode: 'write', leaseMs: TRIAL_LEASE_MS, queue: false, notAfter: 0, floor: 0, fences: 1, minHoldMs: 0, longestMs: maxLeaseMs });
  await runner.run({ script: acquire, keys, args }, granted);
  await runner.run({ script: release, keys, args: [id, '0 1'] }, releaseOutcome);
}

/** Accepts every reply of acquire.lua but a refusal of the server. @throws Error with the server's words */
function granted(reply: ScriptReply): void {
  if (typeof reply !== 'string') listOf(reply);
}
