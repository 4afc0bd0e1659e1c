/**
 * Takes and releases a lock that nobody else can name, for the health check: a server may answer questions and yet refuse every
 * write, because its memory is full or it has become a replica.
 */
import { listOf, RECOVERING_REASON, releaseOutcome } from './lock-reply.js';
import { acquireCall, readAcquire, releaseCall, type AcquireArgs } from './lua.generated.js';
import { UNKNOWN_MEMORY, type LockKeys, type RedisKeys } from './redis-keys.js';
import type { ScriptReply, ScriptRunner } from './script-runner.js';

/** The length of the trial's lease in ms. If the release does not arrive, the lock is free after it. */
export const TRIAL_LEASE_MS = 1_000;
/** The last instant of thirteen digits: what is asked for here may act whenever it arrives. */
export const NEVER = 9_999_999_999_999;

interface Trial {
  readonly id: string;
  readonly keys: LockKeys;
}

/** The trial of a process. Trials of one process at the same time have the same id, so they do not get in each other's way. */
export function trialOf(process: string, keys: RedisKeys): Trial {
  const name = `trial:${process}`;
  return { id: `${process}.trial`, keys: keys.probe(keys.groupOf(name), name) };
}

/** Takes and releases the trial lock. Rejects with LockStoreError. */
export async function takeTrialLock({ id, keys }: Trial, runner: ScriptRunner, recoveryMs: number): Promise<void> {
  await runner.run(acquireCall(keys, trialRequest({ id, mode: 'write', queue: false, recoveryMs })), granted);
  await runner.run(releaseCall(keys, { id, mayBeOver: true, floor: 0, abandoned: true, recoveryMs, known: UNKNOWN_MEMORY }), releaseOutcome);
}

/** What is asked for a lock that nobody else can name. */
export function trialRequest(how: Pick<AcquireArgs, 'id' | 'mode' | 'queue' | 'recoveryMs'>): AcquireArgs {
  return { ...how, leaseMs: TRIAL_LEASE_MS, needsListener: false, plain: true, takes: 'nothing', notAfter: NEVER, floor: 0, known: UNKNOWN_MEMORY, fences: 1, minHoldMs: 0, graceMs: 0 };
}

/** Accepts every reply of acquire.lua but a refusal of the server, or that it recovers. @throws Error with the server's words */
function granted(reply: ScriptReply): void {
  if (typeof reply !== 'string' && readAcquire(listOf(reply)).kind === 'recovering') throw new Error(RECOVERING_REASON);
}
