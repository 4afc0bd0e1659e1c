/** Requests as tests make them at the port of a store, and the grant in an answer that must be one. */
import type { AcquireOutcome, AcquireRequest, Grant } from '../../lib/core/port/lock-store.js';

let made = 0;

/** An id that no other request of this test file has, as the store of that process makes them. */
export function newId(process = 'p'): string {
  return `${process}.${++made}`;
}

/** Asks for a lock of its own, for writing and for 5 s, would wait in the queue, and may act for a minute, unless told otherwise. */
export function acquireRequest(how: Partial<AcquireRequest> = {}): AcquireRequest {
  const id = newId();
  return { key: `k${made}`, id, mode: 'write', leaseMs: 5_000, queue: true, fences: 1, minHoldMs: 0, minReplicas: 0, notAfter: performance.now() + 60_000, ...how };
}

export function granted(outcome: AcquireOutcome): Grant {
  if (outcome.kind !== 'granted') throw new Error(`expected a grant, got ${outcome.kind}`);
  return outcome.grant;
}
