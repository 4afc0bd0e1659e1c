/** The lock machine's time: what each command is given, how long a silent waiter has its place, and what comes too late. */

/** `ms` for leases, by the clock of their holders; and `us` of the wall clock for fences, so that they go on rising after a restart. */
export interface Instant {
  readonly ms: number;
  readonly us: number;
}

/** A waiter that sends no heartbeat for longer than this, in ms, loses its place. */
export const WAITER_LEASE_MS = 2_500;

/** The answer to a request that came after its `notAfter`: nothing was done. */
export type Late = { readonly kind: 'late' };
