import { describe, expect, it } from '@jest/globals';
import { askTheSame } from '../../../lib/core/lease/store-lease.js';
import type { LockOptions } from '../../../lib/core/port/lock-options.js';
import { resolveDefaults, resolveOptions } from '../../../lib/core/port/resolve-options.js';
import { leaseWith, seen } from '../../support/leases.js';

const nobody = { leaseLost: () => undefined };
const nothing = (): void => undefined;
const wanting = (options: LockOptions = {}) => resolveOptions({ leaseMs: 8_000, ...options }, resolveDefaults());

/** A lease that one caller has had and left. */
function used(options: LockOptions = {}, grant = {}, phase = 0): ReturnType<typeof leaseWith> {
  const lease = leaseWith(options, grant, seen(), phase);
  lease.admit(lease.options, 1_000);
  lease.leave(nobody, 1_010, nothing);
  return lease;
}

describe('A lease', () => {
  it('admits the first caller as long as it is trusted, however little is left of it', () => {
    const lease = leaseWith();
    expect(lease.admits(wanting(), 8_999, 1)).toBe(true);
    expect(lease.admits(wanting(), 9_000, 1)).toBe(false);
  });

  it('is handed on while a quarter of it is left, and 500 ms of a long one', () => {
    const long = used();
    expect([8_500, 8_501].map((now) => ((long.heardAt = now), long.admits(wanting(), now, 16)))).toEqual([true, false]);
    const short = used({ leaseMs: 400 }, { trustedUntil: 1_400 });
    expect([1_300, 1_301].map((now) => short.admits(wanting({ leaseMs: 400 }), now, 16))).toEqual([true, false]);
  });

  it('is handed on to who may hold the lock for as long as is left of it, and to nobody who may hold it for less', () => {
    expect([6_000, 5_999].map((maxHoldMs) => used({}, { trustedUntil: 7_010 }).admits(wanting({ maxHoldMs }), 1_010, 16))).toEqual([true, false]);
  });

  it('is not handed on when the store has said nothing for a second', () => {
    expect([1_999, 2_000].map((now) => used().admits(wanting(), now, 16))).toEqual([true, false]);
  });

  it('is handed on for as many turns as handOn says and within 50 ms while others wait, and without bounds while nobody does', () => {
    const contended = used({}, { contended: true });
    expect([1, 2].map((handOn) => contended.admits(wanting(), 1_049, handOn))).toEqual([false, true]);
    expect(contended.admits(wanting(), 1_050, 16)).toBe(false);
    expect([1, 2].map((handOn) => used().admits(wanting(), 1_500, handOn))).toEqual([false, true]);
    contended.admit(contended.options, 1_010);
    contended.leave(nobody, 1_010, nothing);
    expect([contended.turns, ...[2, 3].map((handOn) => contended.admits(wanting(), 1_020, handOn))]).toEqual([2, false, true]);
  });

  it('is handed on to nobody when its fences are used up', () => {
    expect([1, 2].map((fences) => used({}, { fences }).admits(wanting(), 1_010, 16))).toEqual([false, true]);
    expect([1, 2].map((fences) => used({}, { fences }).usedUpFences)).toEqual([1, 0]);
  });

  it('is handed on to nobody beside whom it is, who wants other terms of it, or who wants minHoldMs', () => {
    const lease = leaseWith();
    lease.admit(lease.options, 1_000);
    expect(lease.admits(wanting(), 1_010, 16)).toBe(false);
    const others: LockOptions[] = [{ minHoldMs: 1 }, { leaseMs: 8_001 }, { renew: false }, { graceMs: 1 }, { minReplicas: 1 }, { owner: 'o' }, { permits: 2 }, { mode: 'read' }];
    expect(others.filter((options) => used().admits(wanting(options), 1_010, 16))).toEqual([]);
  });

  it('of fixed length, or with minHoldMs, has one caller', () => {
    expect(used({ renew: false }).admits(wanting({ renew: false }), 1_010, 16)).toBe(false);
    expect(used({ minHoldMs: 1 }).admits(wanting(), 1_010, 16)).toBe(false);
  });

  it('of readers admits readers at any time, and while a writer waits those that had waited when the phase began', () => {
    const reading = wanting({ mode: 'read' });
    expect(used({ mode: 'read' }, { fences: 1 }, 3).admits(reading, 1_900, 1)).toBe(true);
    const contended = used({ mode: 'read' }, { contended: true, fences: 1 }, 3);
    expect([3, 4].map((arrival) => contended.admits(reading, 1_900, 1, arrival))).toEqual([true, false]);
    expect(contended.admits(reading, 1_010, 16)).toBe(false);
  });

  it('gives each caller the next fence, and all readers the same one', () => {
    const [writing, reading] = [leaseWith(), leaseWith({ mode: 'read' })];
    const fences = [writing, reading].map((lease) => [1, 2, 3].map(() => (lease.admit(lease.options, 1_000), lease.fence)));
    expect(fences).toEqual([[1, 2, 3], [1, 1, 1]]);
  });

  it('is renewed for as long as the caller on it may hold it, and of several the one who may the longest', () => {
    const lease = leaseWith({ mode: 'read' });
    const renewedMs = (): number => lease.renewal(1_000).leaseMs;
    lease.admit(wanting({ maxHoldMs: 2_000 }), 1_000);
    expect(renewedMs()).toBe(2_000);
    lease.admit(wanting({ maxHoldMs: 1_000 }), 1_000);
    expect(renewedMs()).toBe(2_000);
    lease.admit(wanting({ maxHoldMs: 3_000 }), 1_000);
    expect(renewedMs()).toBe(3_000);
    for (let n = 0; n < 3; n++) lease.leave(nobody, 1_000, nothing);
    lease.admit(wanting({ maxHoldMs: 1_000 }), 1_000);
    expect(renewedMs()).toBe(1_000);
  });

  it('is lost when all callers on it are overdue, and not while one of them is not', () => {
    const lease = leaseWith({ mode: 'read' });
    for (let n = 0; n < 3; n++) lease.admit(lease.options, 1_000);
    lease.addOverdue();
    lease.addOverdue();
    expect(lease.isLost).toBe(false);
    lease.removeOverdue();
    lease.leave(nobody, 2_000, nothing);
    expect(lease.isLost).toBe(false);
    lease.addOverdue();
    expect(lease.isLost).toBe(true);
    const nobodyOverdue = leaseWith({ mode: 'read' });
    nobodyOverdue.loseIfOverdue();
    expect(nobodyOverdue.isLost).toBe(false);
  });

  it('whose trust is over is lost when its caller leaves it', () => {
    const outcomes = [8_999, 9_000].map((now) => {
      const what = seen();
      const lease = leaseWith({}, {}, what);
      lease.admit(lease.options, 1_000);
      lease.leave(nobody, now, nothing);
      return [lease.isLost, what.told.at(-1)];
    });
    expect(outcomes).toEqual([[false, 'caller left'], [true, 'caller left']]);
  });

  it('that is handed off leaves the process with its last caller, and is lost when only overdue ones stay', () => {
    const what = seen();
    const lease = leaseWith({ mode: 'read' }, {}, what);
    for (let n = 0; n < 2; n++) lease.admit(lease.options, 1_000);
    expect([lease.handOff(nobody), lease.isHeld, lease.handOff(nobody), lease.isReleased]).toEqual([true, true, false, true]);
    expect(what.told).toEqual(['forgotten', 'handed off']);
    const told: string[] = [];
    const [gone, here] = ['gone', 'here'].map((name) => ({ leaseLost: () => void told.push(name) }));
    const shared = leaseWith({ mode: 'read' });
    for (const caller of [gone!, here!]) {
      shared.admit(shared.options, 1_000);
      shared.onLoss(caller);
    }
    shared.handOff(gone!);
    shared.lose('gone', 'it is over');
    expect(told).toEqual(['here']);
    const overdue = leaseWith({ mode: 'read' });
    for (let n = 0; n < 2; n++) overdue.admit(overdue.options, 1_000);
    overdue.addOverdue();
    expect([overdue.handOff(nobody), overdue.isLost]).toEqual([true, true]);
  });

  it('for one of several locks is renewed until its caller has all of them, and then bound by its options again', () => {
    const what = seen();
    const lease = leaseWith({ renew: false, maxHoldMs: 3_000 }, {}, what);
    lease.admit(lease.options, 1_000);
    lease.gather(1_100);
    expect([lease.renews, lease.lengthMs, lease.renewal(1_100).leaseMs, what.told]).toEqual([true, 3_000, 3_000, ['watched at 1100']]);
    lease.begin(lease.options, 2_000);
    expect([lease.renews, lease.admittedAt, lease.renewal(2_000).leaseMs]).toEqual([false, 2_000, 3_000]);
  });

  it('for one of several locks needs nothing when it is renewed anyhow, or over', () => {
    const what = seen();
    leaseWith({}, {}, what).gather(1_100);
    const over = leaseWith({ renew: false }, {}, what);
    over.letGo();
    over.gather(1_100);
    expect([what.told, over.renews]).toEqual([['forgotten'], false]);
  });

  it('that was gathered by one caller and given up is bound by the options of the next', () => {
    const lease = leaseWith({ maxHoldMs: 3_000 });
    lease.admit(lease.options, 1_000);
    lease.gather(1_100);
    lease.leave(nobody, 1_200, nothing);
    lease.admit(wanting(), 1_300);
    expect([lease.lengthMs, lease.renewal(1_300).leaseMs]).toEqual([8_000, 8_000]);
  });

  it('that readers share keeps its terms when one of them wants several locks', () => {
    const lease = leaseWith({ mode: 'read', maxHoldMs: 3_000 });
    for (let n = 0; n < 2; n++) lease.admit(lease.options, 1_000);
    lease.gather(1_100);
    expect([lease.lengthMs, lease.renewal(1_100).leaseMs]).toEqual([8_000, 8_000]);
    lease.begin(lease.options, 2_000);
    expect(lease.renewal(2_000).leaseMs).toBe(7_000 + 1_000);
  });

  it('tells no loss to who has left it', () => {
    const told: string[] = [];
    const [gone, here] = ['gone', 'here'].map((name) => ({ leaseLost: () => void told.push(name) }));
    const lease = leaseWith({ mode: 'read' });
    for (const caller of [gone!, here!]) {
      lease.admit(lease.options, 1_000);
      lease.onLoss(caller);
    }
    lease.leave(gone!, 1_010, nothing);
    lease.lose('gone', 'it is over');
    expect(told).toEqual(['here']);
  });

  it('is that of a reader once the store has made it one, and admits nobody while that is asked for', () => {
    const what = seen();
    const lease = leaseWith({}, {}, what);
    lease.downgraded();
    expect([lease.mode, what.told]).toEqual(['read', ['changed']]);
    const spent = used();
    spent.spend();
    expect(spent.admits(wanting(), 1_010, 16)).toBe(false);
  });

  it('lasts in the store for its length and its grace', () => {
    expect(leaseWith({ graceMs: 500 }).storeLengthMs).toBe(8_500);
  });

  it('lasts in the store for as long as was asked of it at most: for its minHoldMs, or a longer renewal', () => {
    expect(leaseWith({ minHoldMs: 20_000, graceMs: 2_000 }).storeLengthMs).toBe(22_000);
    const renewed = leaseWith({ graceMs: 500 });
    renewed.renewal(1_000, 30_000);
    renewed.renewal(2_000);
    expect(renewed.storeLengthMs).toBe(30_500);
  });

  it('is asked for alike by callers that would send the same request', () => {
    const one = wanting({ maxHoldMs: 5_000 });
    expect([askTheSame(one, one), askTheSame(one, wanting({ maxHoldMs: 5_000 })), askTheSame(wanting(), wanting({ maxHoldMs: 9_000 }))]).toEqual([true, true, true]);
    const others: LockOptions[] = [{}, { maxHoldMs: 4_000 }, { maxHoldMs: 5_000, minHoldMs: 1 }, { maxHoldMs: 5_000, renew: false }];
    expect(others.filter((options) => askTheSame(one, wanting(options)))).toEqual([]);
  });

  it('owes no minHoldMs when the work for which it was taken never began', () => {
    const owes = [{ minHoldMs: 5 }, {}].flatMap((options) => [true, false].map((abandoned) => {
      const lease = leaseWith(options);
      lease.admit(lease.options, 1_000);
      lease.leave(nobody, 1_001, nothing, abandoned);
      return lease.owesNothing;
    }));
    expect(owes).toEqual([true, false, false, false]);
  });

  it('is released as abandoned when nobody was ever admitted to it', () => {
    const lease = leaseWith({ minHoldMs: 5 });
    expect(lease.abandoned).toBe(true);
    lease.admit(lease.options, 1_000);
    lease.leave(nobody, 1_001, nothing);
    expect(lease.abandoned).toBe(false);
  });
});
