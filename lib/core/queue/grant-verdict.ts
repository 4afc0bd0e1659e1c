/** Whether a grant is good enough to begin with, and how one becomes so that is not. */
import type { Grant, RenewRequest } from '../port/lock-store.js';
import type { RequestParts } from './request-parts.js';

/** A grant that this process heard of so late would be lost if its first renewal took its time. */
const NEARLY_OVER_MS = 500;

/** `over`: its trust has ended. `short`: it has to be renewed before anybody works under it. */
export type GrantVerdict = 'good' | 'short' | 'over';

/** `isFixed`: nobody would lengthen a grant that is short at first, as those made to a waiter are. */
export function verdictOn({ trustedUntil }: Grant, now: number, leaseMs: number, isFixed: boolean): GrantVerdict {
  const leftMs = trustedUntil - now;
  if (leftMs <= 0) return 'over';
  return isFixed || leftMs < Math.min(NEARLY_OVER_MS, leaseMs / 2) ? 'short' : 'good';
}

/** The grant with its whole lease, and when this process learned of it; undefined when the store has to be asked what is left. */
export async function lengthened(grant: Grant, request: RenewRequest, parts: RequestParts): Promise<{ grant: Grant; at: number } | undefined> {
  const { store, clock, watchdog } = parts;
  const { key, id, leaseMs, minReplicas } = request;
  const sentAt = clock.now();
  const [renewed] = await store.renew([{ key, id, leaseMs, minReplicas }]);
  const at = clock.now();
  if (renewed?.kind !== 'renewed' || watchdog.sleep.happenedSince(sentAt, at)) return undefined;
  return { grant: { ...grant, trustedUntil: renewed.trustedUntil }, at };
}
