/** Lets a test speak for the store of one process. */
import type { AcquireOutcome, AcquireRequest } from '../../lib/core/port/lock-store.js';
import type { Wire } from './locks.js';

/** Lets a test answer for the store; `n` is the number of the request, from 0. Gives what was asked, as it was at that moment. */
export function answering(wire: Wire, answer: (n: number, ask: () => Promise<AcquireOutcome>) => Promise<AcquireOutcome> = (_, ask) => ask()): AcquireRequest[] {
  const asked: AcquireRequest[] = [];
  const { acquire } = wire;
  wire.acquire = (request) => answer(asked.push({ ...request }) - 1, () => acquire.call(wire, request));
  return asked;
}
