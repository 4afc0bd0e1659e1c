/** When the permits of a process go to others, and which of its places in the queue of the store it takes anew then. */
import { describe, expect, it } from '@jest/globals';
import { PermitLane, type LaneKeeper } from '../../../lib/core/queue/permit-lane.js';
import { HandOnWindow, PermitTurns } from '../../../lib/core/queue/permit-turns.js';
import type { StoreRequest } from '../../../lib/core/queue/store-request.js';
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
  interface Situation {
    readonly permits: number;
    /** So many permits are held by others. */
    readonly elsewhere: number;
    /** So many are held by this process, beside the one whose turns end. */
    readonly here?: number;
    readonly handOn?: number;
  }

  /** Callers of a process have all their turns on one permit; what `inBetween` does happens before it goes to others. Gives the commands for that. */
  async function givesOne({ permits, elsewhere, here = 0, handOn = 2 }: Situation, inBetween: (held: (() => Promise<unknown>)[], stop: AbortController, come: () => void) => void = () => undefined) {
    const fleet = new Fleet();
    const { locks, wire } = fleet.process({ handOn });
    const others = fleet.process().locks;
    const held = (await Promise.all(many(elsewhere, () => others.acquire('k', { permits })))).map((lease) => () => lease.release());
    let turn = await locks.acquire('k', { permits });
    held.push(...(await Promise.all(many(here, () => locks.acquire('k', { permits })))).map((lease) => () => lease.release()));
    const next = many(handOn - 1, () => locks.acquire('k', { permits }));
    const [work, stop] = [gate(), new AbortController()];
    const wait = (signal?: AbortSignal): Promise<unknown> => locks.withLock('k', { permits, signal }, () => work.promise).catch(() => undefined);
    const waiting = [wait(), ...many(5, () => wait(stop.signal))];
    await fleet.clock.settle();
    waiting.push(others.withLock('k', { permits }, () => work.promise));
    await fleet.clock.settle();
    for (const one of next) {
      await turn.release();
      turn = await fleet.clock.runUntil(one);
    }
    const before = { ...wire.sent };
    const ended = turn.release();
    inBetween(held, stop, () => void waiting.push(wait()));
    await fleet.clock.settle();
    const sent = { acquire: wire.sent.acquire - before.acquire, release: wire.sent.release - before.release };
    work.open();
    await fleet.clock.runUntil(Promise.all([ended, ...held.map((release) => release())]));
    await fleet.clock.runUntil(Promise.all(waiting));
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
    const granted = await givesOne({ permits: 3, elsewhere: 2, handOn: 4 }, (held) => void held.shift()!());
    // One for the permit, and one for the place that was not granted.
    expect(granted).toEqual({ acquire: 2, release: 1 });
  });

  it('are not counted when they were given up meanwhile', async () => {
    const sent = await givesOne({ permits: 3, elsewhere: 2 }, (_held, stop, come) => {
      stop.abort('enough');
      for (let n = 0; n < 3; n++) come();
    });
    // One place is given up with its callers, and a new one is taken for those who came; then the other is taken anew beside that of the permit.
    expect(sent).toEqual({ acquire: 3, release: 2 });
  });
});

describe('A permit that the store was to hand on and gave to others', () => {
  it('has all of its turns when it comes back', async () => {
    const fleet = new Fleet();
    const { locks, wire } = fleet.process({ handOn: 2 });
    const others = fleet.process({ handOn: 1 }).locks;
    const order: string[] = [];
    const first = await locks.acquire('k', { permits: 1 });
    const call = (who: typeof locks, name: string): Promise<void> => who.withLock('k', { permits: 1 }, async () => void order.push(name));
    const calls = [call(others, 'other 1')];
    await fleet.clock.settle();
    calls.push(...['here 1', 'here 2', 'here 3'].map((name) => call(locks, name)));
    await fleet.clock.settle();
    wire.lostWakes.add('lost');
    const work = gate();
    calls.push(others.withLock('k', { permits: 1 }, () => (order.push('other 2'), work.promise)));
    await fleet.store.forceRelease('k', first.fence);
    expect(await first.release()).toBe('lost');
    work.open();
    await fleet.clock.runUntil(Promise.all(calls));
    expect(order).toEqual(['other 1', 'here 1', 'here 2', 'other 2', 'here 3']);
  });
});
