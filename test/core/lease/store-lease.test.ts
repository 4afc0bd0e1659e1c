/** What a lease says of itself: to whom it may be handed on, until when the store has it, and how it ends. */
import { describe, expect, it } from '@jest/globals';
import { askTheSame, type StoreLease } from '../../../lib/core/lease/store-lease.js';
import { leaseWith, seen } from '../../support/leases.js';

const nobody = { leaseLost: () => undefined, leaseReleased: () => undefined };

function serve(lease: StoreLease): StoreLease {
  lease.admit(lease.options, 1_000);
  lease.leave(nobody, 1_000);
  return lease;
}

/** A lease of which the first caller has just been served. */
const used = (...given: Parameters<typeof leaseWith>): StoreLease => serve(leaseWith(...given));

describe('A lease', () => {
  it('admits a caller until its trust is short, its news are old, or others elsewhere have waited for 50 ms or two turns', () => {
    const admitted = (lease: StoreLease, ...times: number[]) => times.map((now) => lease.admits(lease.options, now, 2));
    expect(admitted(leaseWith(), 8_999, 9_000)).toEqual([true, false]);
    expect(admitted(used({ maxHoldMs: 8_000 }), 1_000, 1_999, 2_000)).toEqual([true, true, false]);
    expect(admitted(used({}, { trustedUntil: 2_400 }), 1_900, 1_901)).toEqual([true, false]);
    expect(admitted(used({ leaseMs: 400 }, { trustedUntil: 1_400 }), 1_300, 1_301)).toEqual([true, false]);
    const contended = used({}, { contended: true });
    expect(admitted(contended, 1_049, 1_050)).toEqual([true, false]);
    expect([...admitted(serve(contended), 1_000), contended.fence]).toEqual([false, 2]);
  });

  it('admits no caller for whom the store would have to be asked otherwise, or who may hold the lock for less than is left', () => {
    const [plain, owing, long] = [used(), used({ minHoldMs: 1 }), used({}, { trustedUntil: 11_000 })];
    const terms = [{ leaseMs: 7_000 }, { renew: false }, { mode: 'read' }, { graceMs: 1 }, { minReplicas: 1 }, { owner: 'o' }, { permits: 2 }] as const;
    for (const other of [...terms, { minHoldMs: 1 }, { maxHoldMs: 7_999 }]) expect(plain.admits({ ...plain.options, ...other }, 1_000, 2)).toBe(false);
    expect([plain, owing].map(({ options }) => askTheSame({ ...plain.options }, options))).toEqual([true, false]);
    expect([9_999, 10_000].map((maxHoldMs) => long.admits({ ...long.options, maxHoldMs }, 1_000, 2))).toEqual([false, true]);
    expect([plain.admits(plain.options, 1_000, 1), owing.admits(plain.options, 1_000, 2)]).toEqual([false, false]);
  });

  it('ends in the store after its length, or after minHoldMs if that is longer, and after its grace', () => {
    const [plain, owing] = [leaseWith({ graceMs: 100, maxHoldMs: 30_000 }), leaseWith({ minHoldMs: 10_000, graceMs: 100 })];
    expect([plain.storeLengthMs, owing.storeLengthMs, owing.abandoned]).toEqual([8_100, 10_100, true]);
    expect([plain.minHoldUntil, owing.minHoldUntil, leaseWith({ minHoldMs: 1 }).minHoldUntil]).toEqual([-Infinity, 11_000, 1_001]);
    plain.admit(plain.options, 1_000);
    plain.admit({ ...plain.options, maxHoldMs: 10_000 }, 1_000);
    expect([20_000, 15_000, 31_000].map((now) => plain.renewal(now, 9_000).leaseMs)).toEqual([9_000, 9_000, 1]);
    expect(plain.storeLengthMs).toBe(9_100);
  });

  it('knows what it was told last, of others that wait too when the message of them came before an answer that is older', () => {
    const lease = leaseWith({}, { memory: 'M1' });
    const answer = { kind: 'renewed', trustedUntil: 10_000, contended: false } as const;
    lease.renewal(2_000);
    lease.heardOfWaiter();
    lease.renewed(answer, 2_010, 8_000);
    expect([lease.contended, lease.memory]).toEqual([true, 'M1']);
    for (const contended of [false, true]) {
      lease.renewal(2_000);
      lease.renewed({ ...answer, contended }, 2_010, 8_000);
      expect(lease.contended).toBe(contended);
    }
  });

  it('is lost once, and as taken by force where a message says so, and not when it was given back', () => {
    const heard = seen();
    const [lost, released] = [leaseWith({}, {}, heard), leaseWith()];
    const told: unknown[] = [];
    for (const lease of [lost, released]) lease.onLoss({ leaseLost: ({ reason }) => told.push(reason) });
    released.letGo();
    lost.heardOfForce();
    for (const lease of [lost, lost, released]) lease.lose('forgotten', 'it is not known');
    expect([told, heard.told, released.state, lost.isTrusted(1_000)]).toEqual([['released-by-force'], ['forgotten', 'changed'], 'released', false]);
    lost.onLoss({ leaseLost: () => told.push('at once') });
    expect(told.at(-1)).toBe('at once');
  });

  it('that ends by itself says why, also behind a message that an operator took it away', () => {
    const told = [{ maxHoldMs: 8_095 }, { maxHoldMs: 8_096 }, { renew: false, maxHoldMs: 60_000 }].map((options) => {
      const lease = used(options);
      let message: string | undefined;
      lease.heardOfForce();
      lease.onLoss({ leaseLost: (error) => (message = error.message) });
      lease.leave(nobody, 9_000);
      return message;
    });
    expect(told).toEqual(['longer than maxHoldMs', 'could not be renewed in time', 'its fixed lease ended'].map((why) => expect.stringContaining(why)));
  });

  it('tells its loss to those who are on it, as when all who stay have overrun, and to nobody who has left', () => {
    const told: string[] = [];
    const [stays, left, handedOff] = ['stays', 'left', 'handed off'].map((name) => ({ ...nobody, leaseLost: () => void told.push(name) }));
    const lease = leaseWith({ mode: 'read' });
    for (let n = 0; n < 4; n++) lease.admit(lease.options, 1_000);
    lease.onLoss({ ...stays!, isOverdueOn: () => true });
    lease.leave(nobody, 1_000);
    for (const other of [left!, handedOff!]) lease.onLoss(other);
    lease.leave(left!, 1_000);
    expect([lease.handOff(handedOff!), told]).toEqual([true, ['stays']]);
  });
});
