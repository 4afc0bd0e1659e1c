/**
 * A lock that nobody else can name, taken and given back: a server may answer questions and refuse every write, because its
 * memory is full or it has become a replica.
 */
import { addAcquire } from './acquire-request.js';
import { listOf, RECOVERING, RECOVERING_REASON, releaseOutcome } from './lock-reply.js';
import { acquire, release } from './lua.generated.js';
import type { RedisKeys } from './redis-keys.js';
import type { ScriptArgument, ScriptReply, ScriptRunner } from './script-runner.js';

/** Should the release not arrive, it ends by itself so soon. */
export const TRIAL_LEASE_MS = 1_000;

export interface Trial {
  readonly id: string;
  readonly keys: [lock: string, queue: string, fence: string];
}

/** Trials of one process at the same time are one. */
export function trialOf(process: string, keys: RedisKeys): Trial {
  const name = `trial:${process}`;
  return { id: `${process}.trial`, keys: keys.probe(keys.groupOf(name), name) };
}

/** Rejects with LockStoreError. */
export async function takeTrialLock({ id, keys }: Trial, runner: ScriptRunner, maxLeaseMs: number, recoveryMs: number): Promise<void> {
  const args: ScriptArgument[] = [];
  addAcquire(args, { id, mode: 'write', leaseMs: TRIAL_LEASE_MS, queue: false, notAfter: 0, floor: 0, fences: 1, minHoldMs: 0, longestMs: maxLeaseMs, recoveryMs });
  await runner.run({ script: acquire, keys, args }, granted);
  await runner.run({ script: release, keys, args: [id, `0 1 ${recoveryMs} -`] }, releaseOutcome);
}

/** @throws Error with what the server refused, or that it recovers */
function granted(reply: ScriptReply): void {
  if (typeof reply !== 'string' && listOf(reply)[0] === RECOVERING) throw new Error(RECOVERING_REASON);
}
