import { describe, expect, it } from '@jest/globals';
import { leaseWith, seen } from '../../support/leases.js';

const renewed = (trustedUntil: number) => ({ kind: 'renewed' as const, trustedUntil, contended: true });

describe('A lease as the watchdog sees it', () => {
  it('is trusted until its end, and not at its end', () => {
    expect([8_999, 9_000].map((now) => leaseWith().isTrusted(now))).toEqual([true, false]);
  });

  it('is looked at when it is to be renewed, and at the end of its trust at the latest; one of fixed length then', () => {
    expect([8_999, 9_000, 9_001].map((at) => leaseWith().nextLook(at))).toEqual([8_999, 9_000, 9_000]);
    expect(leaseWith({ renew: false }).nextLook(3_000)).toBe(9_000);
  });

  it('has one renewal under way at a time, and one of fixed length none', () => {
    const lease = leaseWith();
    expect([lease.startRenewal(), lease.startRenewal(), lease.startReview()]).toEqual([true, false, false]);
    lease.endRenewal();
    expect(lease.startRenewal()).toBe(true);
    expect(leaseWith({ renew: false }).startRenewal()).toBe(false);
    expect(leaseWith({ renew: false }).startReview()).toBe(true);
  });

  it('believes the answer to a renewal unless the store came in doubt since it was sent', () => {
    const lease = leaseWith();
    lease.startRenewal();
    lease.startRenewal();
    expect(lease.endRenewal()).toBe(false);
    lease.startReview();
    lease.startReview();
    expect(lease.endRenewal()).toBe(true);
    lease.startReview();
    lease.startReview();
    lease.renewalSent();
    expect(lease.endRenewal()).toBe(false);
  });

  it('remembers no memory of a store that was replaced', () => {
    const [kept, replaced] = [leaseWith({}, { memory: 'm' }), leaseWith({}, { memory: 'm' })];
    kept.startReview();
    replaced.startReview(true);
    expect([kept.memory, replaced.memory]).toEqual(['m', '-']);
  });

  it('is not renewed again when its trust reaches to the end of its hold, but looked at again after a third of the rest', () => {
    const lease = leaseWith({ maxHoldMs: 5_000 });
    lease.admit(lease.options, 1_000);
    expect(lease.looksAgain(1_500)).toBeUndefined();
    lease.renewed(renewed(5_985), 2_000, 4_000);
    expect(lease.looksAgain(2_985)).toBe(3_985);
    expect(lease.looksAgain(5_970)).toBe(5_985);
    lease.renewed(renewed(5_984), 2_000, 3_900);
    expect(lease.looksAgain(2_984)).toBe(undefined);
  });

  it('that is trusted for less than the end of its hold is renewed, and one that is being renewed is left to that', () => {
    const lease = leaseWith({ maxHoldMs: 60_000 });
    lease.admit(lease.options, 1_000);
    lease.renewed(renewed(10_000), 2_000, 8_000);
    expect(lease.looksAgain(3_000)).toBeUndefined();
    const ending = leaseWith({ maxHoldMs: 5_000 });
    ending.admit(ending.options, 1_000);
    ending.renewed(renewed(6_000), 2_000, 4_000);
    expect(ending.looksAgain(3_000)).toBe(4_000);
    ending.startRenewal();
    expect(ending.looksAgain(3_000)).toBeUndefined();
  });

  it('of fixed length is asked for again when the store gave no answer, also when it reaches to the end of its hold', () => {
    const lease = leaseWith({ renew: false, maxHoldMs: 8_000 });
    lease.admit(lease.options, 1_000);
    lease.renewed(renewed(9_000), 2_000, 7_000);
    lease.unanswered();
    expect([lease.looksAgain(3_000), lease.startRenewal()]).toEqual([undefined, true]);
  });

  it('has the mode that the store granted, which may be stronger than what was asked for', () => {
    expect(leaseWith({ mode: 'read' }, { mode: 'write' }).mode).toBe('write');
  });

  it('is renewed for its length, never beyond the end of its hold, and for a millisecond at least', () => {
    const lease = leaseWith({ maxHoldMs: 10_000 });
    lease.admit(lease.options, 1_000);
    expect([1_000, 3_000, 3_001.5, 10_999.5, 12_000].map((now) => lease.renewal(now).leaseMs)).toEqual([8_000, 8_000, 7_998, 1, 1]);
  });

  it('of fixed length is renewed for the rest of its time', () => {
    expect(leaseWith({ renew: false }).renewal(2_000.5).leaseMs).toBe(6_999);
  });

  it('believes a renewal as far as it was asked for, or what was trusted before', () => {
    const trusted = [12_000, 12_001, 60_000].map((until) => {
      const lease = leaseWith();
      lease.renewed(renewed(until), 4_000, 8_000);
      return lease.trustedUntil;
    });
    expect(trusted).toEqual([12_000, 12_000, 12_000]);
    const before = leaseWith();
    before.renewed(renewed(60_000), 4_000, 2_000);
    expect([before.trustedUntil, before.contended, before.heardAt]).toEqual([9_000, true, 4_000]);
  });

  it('keeps the memory of the store until a renewal names another one', () => {
    const lease = leaseWith({}, { memory: 'm' });
    lease.renewed(renewed(9_000), 2_000, 8_000);
    expect(lease.memory).toBe('m');
    lease.renewed({ ...renewed(9_000), memory: 'n' }, 2_000, 8_000);
    expect(lease.memory).toBe('n');
  });

  it('is contended from when this process hears of a waiter, until the store says otherwise', () => {
    const lease = leaseWith();
    lease.heardOfWaiter();
    expect(lease.contended).toBe(true);
    lease.renewed({ ...renewed(9_000), contended: false }, 2_000, 8_000);
    expect(lease.contended).toBe(false);
  });

  it('may return for as long as the last of its requests without an answer', () => {
    const lease = leaseWith();
    lease.unanswered(5_000);
    lease.unanswered(4_000);
    expect(lease.lateUntil).toBe(5_000);
  });

  it.each([
    { ended: 'it could not be renewed in time', options: {} },
    { ended: 'its fixed lease ended', options: { renew: false } },
    { ended: 'it was held longer than maxHoldMs', options: { maxHoldMs: 8_095 } },
    { ended: 'it could not be renewed in time', options: { maxHoldMs: 8_096 } },
  ])('that ends says why: $ended ($options)', ({ ended, options }) => {
    const what = seen();
    const lease = leaseWith(options, {}, what);
    lease.admit(lease.options, 1_000);
    lease.endTrust();
    expect(what.told).toEqual(['forgotten', expect.stringContaining(ended)]);
  });

  it('is lost once, and not after it was given back', () => {
    const what = seen();
    const lease = leaseWith({}, {}, what);
    lease.lose('gone', 'one');
    lease.lose('gone', 'two');
    expect(lease.goneFromStore).toBe(false);
    expect(what.told).toEqual(['forgotten', expect.stringContaining('one')]);
    const unknown = leaseWith();
    unknown.loseFromStore('gone', 'it is not there');
    expect([unknown.isLost, unknown.goneFromStore]).toEqual([true, true]);
    const released = leaseWith();
    released.onLoss({ leaseLost: () => undefined });
    released.letGo();
    expect(released.followers).toEqual([]);
    released.loseFromStore('gone', 'late');
    expect([released.isLost, released.isReleased, released.goneFromStore]).toEqual([false, true, true]);
  });

  it('tells a loss to those on it and to who comes later, and not to who has left', () => {
    const told: string[] = [];
    const [a, b, c, late] = ['a', 'b', 'c', 'late'].map((name) => ({ leaseLost: () => void told.push(name) }));
    const lease = leaseWith();
    for (const listener of [a!, b!, c!]) lease.onLoss(listener);
    lease.offLoss(b!);
    lease.lose('gone', 'it is over');
    lease.onLoss(late!);
    expect(told).toEqual(['a', 'c', 'late']);
    expect(lease.followers).toEqual([]);
    const several = leaseWith();
    for (const listener of [a!, b!]) several.onLoss(listener);
    several.offLoss(a!);
    expect(several.followers).toEqual([b]);
    const alone = leaseWith();
    alone.onLoss(a!);
    alone.offLoss(b!);
    expect(alone.followers).toEqual([a]);
    alone.offLoss(a!);
    expect(alone.followers).toEqual([]);
  });

  it('keeps the lock taken for minHoldMs from its grant', () => {
    expect([leaseWith({ minHoldMs: 1 }).minHoldUntil, leaseWith().minHoldUntil]).toEqual([1_001, -Infinity]);
  });
});
