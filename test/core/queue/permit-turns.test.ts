/** When the permits of a process go to others, and which of its places in the queue of the store it takes anew then. */
import { describe, expect, it } from '@jest/globals';
import { PermitLane, type LaneKeeper } from '../../../lib/core/queue/permit-lane.js';
import { HandOnWindow, PermitTurns } from '../../../lib/core/queue/permit-turns.js';
import type { StoreRequest } from '../../../lib/core/queue/store-request.js';
import type { Lease } from '../../../lib/core/port/lease.js';
import { Fleet, gate } from '../../support/locks.js';

const many = <T>(count: number, make: (index: number) => T): T[] => Array.from({ length: count }, (_, index) => make(index));
const lane = (): PermitLane => new PermitLane({} as LaneKeeper);
const asks = (wasRefused: boolean): PermitLane => Object.assign(lane(), { request: { wasRefused } as StoreRequest });

describe('The time in which a permit goes on among the callers of a process', () => {
  it('is 50 ms from when it came, unless it was ended before', () => {
    const window = new HandOnWindow(1_000);
    expect([1_000, 1_049, 1_050].map((now) => window.isOpen(now))).toEqual([true, true, false]);
    expect([window.at(1_049) === window, window.at(1_050) === window]).toEqual([true, false]);
    window.end();
    expect(window.isOpen(1_001)).toBe(false);
  });

  it('ends for all permits when one has had its turns, once, and never where no turn follows another', () => {
    for (const { handOn, ends } of [{ handOn: 1, ends: false }, { handOn: 2, ends: true }]) {
      const turns = new PermitTurns(handOn);
      const [one, two] = [lane(), lane()];
      for (const each of [one, two]) turns.began(each, 1_000);
      for (let n = 1; n < handOn; n++) {
        one.served();
        expect([one.mayHandOn(1_010, handOn), turns.end(one, 1_010, [])]).toEqual([true, false]);
      }
      one.served();
      expect([turns.end(one, 1_010, []), two.mayHandOn(1_010, handOn), turns.end(one, 1_010, [])]).toEqual([ends, !ends, false]);
    }
  });

  it('leaves the places that had waited for the store by then to be taken anew, once', () => {
    const turns = new PermitTurns(1_000);
    const one = lane();
    turns.began(one, 1_000);
    for (let n = 0; n < 1_000; n++) one.served();
    const [waits, isNew] = [asks(true), asks(false)];
    expect(turns.end(one, 1_010, [waits, isNew])).toBe(true);
    expect([turns.takeOldPlaces(), turns.takeOldPlaces()]).toEqual([[waits], []]);
  });
});

describe('The places of a process that gives a permit to others', () => {
  /** `elsewhere` permits are held by others; the callers here take two turns on one permit of theirs, and hold `here` others meanwhile. */
  async function givesOne({ permits, elsewhere, here = 0 }: { permits: number; elsewhere: number; here?: number }, inBetween: (held: Lease[]) => void = () => undefined) {
    const fleet = new Fleet();
    const { locks, wire } = fleet.process({ handOn: 2 });
    const others = fleet.process().locks;
    const held = await Promise.all(many(elsewhere, () => others.acquire('k', { permits })));
    const first = await locks.acquire('k', { permits });
    const kept = await Promise.all(many(here, () => locks.acquire('k', { permits })));
    const next = locks.acquire('k', { permits });
    const work = gate();
    const waiting = many(6, () => locks.withLock('k', { permits }, () => work.promise));
    await fleet.clock.settle();
    const later = others.withLock('k', { permits }, () => work.promise);
    await fleet.clock.settle();
    await first.release();
    const second = await fleet.clock.runUntil(next);
    const before = { ...wire.sent };
    const ended = second.release();
    inBetween(held);
    await fleet.clock.settle();
    const sent = { acquire: wire.sent.acquire - before.acquire, release: wire.sent.release - before.release };
    work.open();
    await fleet.clock.runUntil(Promise.all([ended, ...[...held, ...kept].map((lease) => lease.release())]));
    await fleet.clock.runUntil(Promise.all([...waiting, later]));
    expect(fleet.store.size).toBe(0);
    return sent;
  }

  it('are taken anew beside the one that it takes then, at two commands for each', async () => {
    expect(await givesOne({ permits: 2, elsewhere: 1 })).toEqual({ acquire: 2, release: 1 });
    expect(await givesOne({ permits: 3, elsewhere: 1, here: 1 })).toEqual({ acquire: 2, release: 1 });
  });

  it('stay where they are when that would cost more commands than turns were had', async () => {
    expect(await givesOne({ permits: 3, elsewhere: 2 })).toEqual({ acquire: 1, release: 0 });
  });

  it('are not given up when they were granted meanwhile', async () => {
    const { acquire } = await givesOne({ permits: 3, elsewhere: 2 }, (held) => void held.splice(0, 1)[0]!.release());
    expect(acquire).toBeGreaterThan(0);
  });
});
