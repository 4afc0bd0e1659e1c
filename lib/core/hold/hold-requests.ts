/** What a caller asks of the store for its hold, beside the end of its work: a renewal, a look, a release. */
import { renewalError } from '../port/hold-errors.js';
import type { ReleaseEnded, ReleaseOutcome } from '../port/lease.js';
import { checkRenewal } from '../port/resolve-options.js';
import type { Hold } from './hold.js';

/** Asks the store whether it still knows all leases of the hold. @throws LockStoreError */
export async function verifyHold(hold: Hold): Promise<boolean> {
  if (hold.lossNow() || hold.isOver) return false;
  const states = await Promise.all(hold.keys.map((key) => hold.host.store.inspect(key)));
  return hold.parts.every(({ lease }, index) => states[index]!.holders.some(({ id }) => id === lease.id));
}

/** Renews all leases of the hold now. @throws LockLostError, LockStoreError, LockUsageError for a length that cannot be */
export async function renewHold(hold: Hold, leaseMs?: number): Promise<void> {
  const { host, options, parts, key: first } = hold;
  if (leaseMs !== undefined) checkRenewal(leaseMs, options.graceMs, host.defaults, first);
  hold.assertHeld();
  for (const { key, lease } of parts) {
    const outcome = await host.watchdog.renewNow(lease, leaseMs ?? lease.lengthMs);
    if (outcome.kind === 'unknown') throw renewalError(key, outcome.cause);
  }
  hold.assertHeld();
}

/** Ends the hold. It waits for nested calls that are still inside, but no longer than commandTimeoutMs. */
export function releaseHold(hold: Hold): Promise<ReleaseOutcome> {
  const { clock, watchdog, defaults } = hold.host;
  const now = clock.now();
  // The lease may be handed on now. If it was lost without notice, while the machine slept, it must not be.
  hold.lossNow(now);
  const end = (done: ReleaseEnded): void => hold.end(now, done);
  return hold.hasNestedCalls || hold.isHandedOff ? watchdog.schedule.within(defaults.commandTimeoutMs, 'unknown', end) : new Promise(end);
}
