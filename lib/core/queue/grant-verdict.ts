/** Judges whether enough trust is left of a grant for work to begin under it, and renews a grant of which too little is left. */
import type { Grant, RenewRequest } from '../port/lock-store.js';
import type { RequestParts } from './request-parts.js';

/** With less trust left than this, in ms, a grant would be lost if its first renewal were slow. */
const NEARLY_OVER_MS = 500;

/** `over`: the trust in the grant has ended. `short`: it has to be renewed before work may begin under it. */
type GrantVerdict = 'good' | 'short' | 'over';

/** `isFixed`: the grant was made to a waiter, so it is short at first, and its lease of fixed length is not renewed by the watchdog. */
export function verdictOn({ trustedUntil }: Grant, now: number, leaseMs: number, isFixed: boolean): GrantVerdict {
  const leftMs = trustedUntil - now;
  if (leftMs <= 0) return 'over';
  return isFixed || leftMs < Math.min(NEARLY_OVER_MS, leaseMs / 2) ? 'short' : 'good';
}

/** Renews the grant to its whole length. `at` is when the answer came; undefined when the request has to ask the store again. */
export async function lengthened(grant: Grant, request: RenewRequest, parts: RequestParts): Promise<{ grant: Grant; at: number } | undefined> {
  const { store, clock, watchdog } = parts;
  const { key, id, leaseMs, graceMs, minReplicas } = request;
  const { replacements } = watchdog;
  const sentAt = clock.now();
  const [renewed] = await store.renew([{ key, id, leaseMs, graceMs, minReplicas }]);
  const at = clock.now();
  if (renewed?.kind !== 'renewed' || watchdog.isOutdated(sentAt, replacements, at)) return undefined;
  return { grant: { ...grant, trustedUntil: renewed.trustedUntil, memory: renewed.memory ?? grant.memory }, at };
}
