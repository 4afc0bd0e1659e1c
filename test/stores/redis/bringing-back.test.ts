import { describe, expect, it, jest } from '@jest/globals';
import { LockStoreError } from '../../../lib/core/port/errors.js';
import type { HeldLease, RenewRequest } from '../../../lib/core/port/lock-store.js';
import { BringingBack, type BringingBackParts } from '../../../lib/stores/redis/bringing-back.js';
import { FakeClock } from '../../support/fake-clock.js';

/** Renews one lease while the memory of the server is known or not, and tells what was sent, in order. */
async function sentFor(minReplicas: number, known: string | undefined): Promise<string[]> {
  const sent: string[] = [];
  const parts = {
    clock: new FakeClock(),
    node: 'a:6379',
    maxLeaseMs: 60_000,
    recoveryMs: 1_000,
    timeoutMs: 2_000,
    keys: { groupOf: () => 0, spotOf: () => ({ group: 0 }) },
    trust: { sourceOf: () => 0, clock: { before: () => 1 } },
    memories: { knownOf: () => known, isOutdated: () => false },
    renewals: { renew: async (requests: readonly RenewRequest[]) => (sent.push('renewed'), requests.map(() => ({ kind: 'renewed', trustedUntil: 9_000, contended: false }))) },
    runner: { run: jest.fn(async () => { sent.push('brought back'); throw new LockStoreError('no answer'); }) },
  } as unknown as BringingBackParts;
  const held = { isHeld: true, memory: 'm1', mode: 'write', trustedUntil: 9_000, firstFence: 7, fences: 1, minHoldUntil: 0, label: '' } as unknown as HeldLease;
  await new BringingBack(parts).renew([{ key: 'k', id: 'p.1', leaseMs: 8_000, graceMs: 0, minReplicas, held }]);
  return sent;
}

describe('A renewal while the memory of its server is not known', () => {
  it('that waits for replicas is sent as a lease to bring back: a new master without replicas could have granted the lock before it answers', async () => {
    expect(await sentFor(1, undefined)).toEqual(['brought back']);
  });

  it('that waits for none, or comes when the memory is known, is sent as a renewal', async () => {
    expect(await sentFor(0, undefined)).toEqual(['renewed']);
    expect(await sentFor(1, 'm1')).toEqual(['renewed']);
  });
});
