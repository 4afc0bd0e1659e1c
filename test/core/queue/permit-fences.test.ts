/** The turns on the permits of one process: in which bursts, with how many fences and commands, and for how long a lane waits for others. */
import { describe, expect, it } from '@jest/globals';
import type { AcquireRequest } from '../../../lib/core/port/lock-store.js';
import type { LockDefaults } from '../../../lib/core/port/lock-options.js';
import { Fleet, gate, type Wire } from '../../support/locks.js';

const many = <T>(count: number, make: (index: number) => T): T[] => Array.from({ length: count }, (_, index) => make(index));

/** What the store is asked from now on. */
function askedOf(wire: Wire, before: () => Promise<unknown> = () => Promise.resolve()): AcquireRequest[] {
  const asked: AcquireRequest[] = [];
  const { acquire } = wire;
  wire.acquire = (request) => (asked.push(request), before().then(() => acquire.call(wire, request)));
  return asked;
}

/** A process with a permit for one caller, and more callers in line. */
async function withLine(permits: number, callers: number, defaults: LockDefaults = {}) {
  const fleet = new Fleet();
  const { locks, wire } = fleet.process(defaults);
  const asked = askedOf(wire);
  const held = await Promise.all(many(permits, () => locks.acquire('k', { permits })));
  let served = 0;
  const calls = many(callers, () => locks.withLock('k', { permits, waitMs: Infinity }, async () => void (served += 1)));
  await fleet.clock.settle();
  return { fleet, locks, wire, asked, held, calls, served: () => served };
}

describe('The callers of a process that follow each other on permits', () => {
  it('let timers and sockets in after 64 of them, as long as any wait', async () => {
    const { fleet, held, calls, served } = await withLine(1, 200);
    const bursts: number[] = [];
    let seen = 0;
    const look = (): void => {
      bursts.push(served() - seen);
      seen = served();
      if (seen < 200) fleet.clock.nextTurn(look);
    };
    fleet.clock.nextTurn(look);
    await held[0]!.release();
    await fleet.clock.runUntil(Promise.all(calls));
    // The one that held the permit before them was the first of its 64.
    expect(bursts.filter((burst) => burst > 0)).toEqual([63, 64, 64, 9]);
  });

  it('do not pause for them when nobody was left in the line after 64', async () => {
    const { fleet, locks, held, calls, served } = await withLine(1, 62);
    const last = locks.acquire('k', { permits: 1 });
    let hasTurned = false;
    const late = last.then((lease) => {
      fleet.clock.nextTurn(() => (hasTurned = true));
      const seen = locks.withLock('k', { permits: 1 }, async () => hasTurned);
      return lease.release().then(() => seen);
    });
    await held[0]!.release();
    await fleet.clock.runUntil(Promise.all(calls));
    expect([served(), await fleet.clock.runUntil(late)]).toEqual([62, false]);
  });

  it('let them in also when never more than one waits behind the one that is served', async () => {
    const fleet = new Fleet();
    const { locks } = fleet.process();
    let [turns, loops] = [0, 0];
    const look = (): void => {
      loops += 1;
      if (turns < 1_000) fleet.clock.nextTurn(look);
    };
    fleet.clock.nextTurn(look);
    const calls = many(3, async () => {
      while (turns < 1_000) await locks.withLock('k', { permits: 1 }, async () => void (turns += 1));
    });
    await fleet.clock.runUntil(Promise.all(calls));
    expect(loops).toBeGreaterThanOrEqual(15);
  });

  it('need two commands for a hundred turns on the only permit while no other process waits, and no fence is asked for more than is needed at first', async () => {
    const { fleet, wire, asked, held, calls } = await withLine(1, 100);
    await held[0]!.release();
    await fleet.clock.runUntil(Promise.all(calls));
    expect(asked.map(({ fences }) => fences)).toEqual([1, 256]);
    expect(wire.sent).toMatchObject({ acquire: 2, release: 1 });
  });

  it('need one command for a turn on the only permit that is not handed on here, also when a single one waits', async () => {
    const { fleet, wire, held, calls } = await withLine(1, 1, { handOn: 1 });
    await held[0]!.release();
    await fleet.clock.runUntil(Promise.all(calls));
    expect(wire.sent).toMatchObject({ acquire: 2, release: 1 });
  });

  it.each([
    { handOn: 1, fences: [1, 1, 1, 1] },
    { handOn: 2, fences: [1, 1, 256] },
  ])('reserve fences for those that may follow, and one each when nobody may (handOn $handOn)', async ({ handOn, fences }) => {
    const { fleet, asked, held, calls } = await withLine(2, 30, { handOn });
    await held[0]!.release();
    await fleet.clock.runUntil(Promise.all(calls));
    await held[1]!.release();
    expect(asked.map((each) => each.fences).slice(0, fences.length)).toEqual(fences);
  });

  it('reserve one fence each for leases of fixed length, which nobody follows on, and without all permits', async () => {
    for (const { options, elsewhere } of [{ options: { renew: false }, elsewhere: false }, { options: {}, elsewhere: true }]) {
      const fleet = new Fleet();
      const { locks, wire } = fleet.process();
      const asked = askedOf(wire);
      const other = await (elsewhere ? fleet.process() : { locks }).locks.acquire('k', { permits: 2, ...options });
      const calls = many(10, () => locks.withLock('k', { permits: 2, ...options }, async () => {}));
      await fleet.clock.runUntil(Promise.all(calls));
      expect(new Set(asked.map(({ fences }) => fences))).toEqual(new Set([1]));
      await other.release();
    }
  });

  it('have fences above that of a process which was granted one of the permits meanwhile, also those that follow the first turn of a lease', async () => {
    const fleet = new Fleet();
    const { locks } = fleet.process();
    const [one, two] = await Promise.all(many(2, () => locks.acquire('k', { permits: 2 })));
    const fences: number[] = [];
    const third = locks.acquire('k', { permits: 2 });
    const calls = many(8, () => locks.withLock('k', { permits: 2 }, async ({ fence }) => void fences.push(fence)));
    await fleet.clock.advance(20);
    await one!.release();
    const lease = await fleet.clock.runUntil(third);
    await fleet.clock.advance(35);
    const other = fleet.process().locks.acquire('k', { permits: 2 });
    await fleet.clock.settle();
    await two!.release();
    const elsewhere = await fleet.clock.runUntil(other);
    expect(elsewhere.fence).toBeGreaterThan(lease.fence);
    await lease.release();
    await fleet.clock.runUntil(Promise.all(calls));
    expect(Math.min(...fences)).toBeGreaterThan(elsewhere.fence);
    await elsewhere.release();
  });
});

describe('A process whose permits others wait for', () => {
  it.each([
    { what: 'the store hands its permit on to its next caller', afterMs: 10, hears: true, fences: 32 },
    { what: 'its permit goes to others', afterMs: 60, hears: true, fences: 1 },
    { what: 'it has not heard of them', afterMs: 60, hears: false, fences: 256 },
  ])('reserves $fences fences when $what', async ({ afterMs, hears, fences }) => {
    const fleet = new Fleet();
    const { locks, wire } = fleet.process();
    if (!hears) wire.lostWakes.add('contended');
    const held = await Promise.all(many(2, () => locks.acquire('k', { permits: 2 })));
    const calls = many(4, () => locks.withLock('k', { permits: 2 }, async () => {}));
    await fleet.clock.settle();
    calls.push(fleet.process().locks.withLock('k', { permits: 2 }, async () => {}));
    await fleet.clock.advance(afterMs);
    const asked = askedOf(wire);
    await held[0]!.release();
    expect(asked[0]!.fences).toBe(fences);
    await held[1]!.release();
    await fleet.clock.runUntil(Promise.all(calls));
    expect(fleet.store.size).toBe(0);
  });
});

describe('A permit that comes back while another is on its way for more fences', () => {
  /** Both permits are here. The first has gone for more fences, with a question that `answer` lets through; the second has come back. */
  async function pausing(how: { readonly otherWaits?: boolean } = {}) {
    const fleet = new Fleet();
    const { locks, wire } = fleet.process();
    // It does not hear of the other that waits: else it would ask for one fence.
    wire.lostWakes.add('contended');
    const [one, two] = await Promise.all(many(2, () => locks.acquire('k', { permits: 2 })));
    const stop = new AbortController();
    const next = many(3, () => locks.acquire('k', { permits: 2, signal: stop.signal }));
    for (const each of next) each.catch(() => undefined);
    await fleet.clock.advance(60);
    const other = how.otherWaits ? fleet.process().locks.acquire('k', { permits: 2 }) : undefined;
    await fleet.clock.settle();
    const answer = gate();
    const asked = askedOf(wire, () => (asked.length === 1 ? answer.promise : Promise.resolve()));
    const firstEnd = one!.release();
    await fleet.clock.settle();
    const { id } = (await fleet.store.inspect('k')).holders.find(({ fence }) => fence === two!.fence)!;
    expect(await two!.release()).toBe('released');
    expect(asked.map(({ fences }) => fences)).toEqual([256]);
    return { fleet, locks, wire, next, other, answer, asked, firstEnd, stop, id };
  }

  it('goes on with them when they are here: nothing more is asked', async () => {
    const { fleet, next, answer, asked, firstEnd } = await pausing();
    answer.open();
    expect(await firstEnd).toBe('released');
    const [first, second] = await fleet.clock.runUntil(Promise.all(next.slice(0, 2)));
    expect([asked.length, second!.fence - first!.fence]).toEqual([1, 1]);
    for (const lease of [first, second, await fleet.clock.runUntil(first!.release().then(() => next[2]!))].slice(1)) await lease!.release();
    expect(fleet.store.size).toBe(0);
  });

  it('does not wait any longer when the store gave the first to another process: it serves the next caller with a question of its own', async () => {
    const { fleet, next, other, answer } = await pausing({ otherWaits: true });
    const since = fleet.clock.now();
    answer.open();
    const [elsewhere, lease] = await fleet.clock.runUntil(Promise.all([other!, next[0]!]));
    expect(fleet.clock.now()).toBe(since);
    expect(await lease.release()).toBe('released');
    await (await fleet.clock.runUntil(next[1]!)).release();
    await (await fleet.clock.runUntil(next[2]!)).release();
    await elsewhere.release();
    expect(fleet.store.size).toBe(0);
  });

  it('is given back at once when all who wait have given up meanwhile', async () => {
    const { fleet, next, answer, wire, stop } = await pausing();
    stop.abort('enough');
    expect((await Promise.allSettled(next)).map(({ status }) => status)).toEqual(next.map(() => 'rejected'));
    await fleet.clock.settle();
    // That permit, the one that the question replaces, and what the question may be granted.
    expect(wire.sent.release).toBe(3);
    answer.open();
    await fleet.clock.advance(10_000);
    expect(fleet.store.size).toBe(0);
  });

  it('waits for those alone, though another question has its answer before', async () => {
    const fleet = new Fleet();
    const { locks, wire } = fleet.process();
    const [one, two, three] = await Promise.all(many(3, () => locks.acquire('k', { permits: 3 })));
    const calls = many(6, () => locks.acquire('k', { permits: 3 }));
    await fleet.clock.settle();
    const answer = gate();
    const asked = askedOf(wire, () => (asked.length === 1 ? answer.promise : Promise.resolve()));
    const ends = [one!.release(), two!.release()];
    await fleet.clock.settle();
    await fleet.store.forceRelease('k', three!.fence);
    await fleet.clock.settle();
    expect([three!.signal.aborted, asked.map(({ fences }) => fences)]).toEqual([true, [256, 1]]);
    answer.open();
    expect(await fleet.clock.runUntil(Promise.all(ends))).toEqual(['released', 'released']);
    for (const call of calls) void call.then((lease) => lease.release());
    await fleet.clock.runUntil(Promise.all(calls));
    await fleet.clock.settle();
    expect([await three!.release(), fleet.store.size]).toEqual(['lost', 0]);
  });

  it('is not used when it is lost meanwhile', async () => {
    const { fleet, next, answer, id } = await pausing();
    await fleet.store.release({ key: 'k', id });
    fleet.wake({ kind: 'lost', key: 'k', id });
    await fleet.clock.settle();
    answer.open();
    const leases = await fleet.clock.runUntil(Promise.all(next.slice(0, 2)));
    for (const lease of leases) expect(await lease.verify()).toBe(true);
    for (const lease of leases) expect(await lease.release()).toBe('released');
    expect(await (await fleet.clock.runUntil(next[2]!)).release()).toBe('released');
  });
});

describe('A permit whose callers pause for timers and sockets', () => {
  it('is not handed on when the machine slept meanwhile for longer than its lease: the store is asked', async () => {
    const { fleet, wire, held, calls, served } = await withLine(1, 100);
    // The one that held the permit before them was the first of its 64.
    void calls[62]!.then(() => (expect(served()).toBe(63), fleet.clock.sleepMachine(60_000)));
    await held[0]!.release();
    const { acquire } = wire.sent;
    await fleet.clock.runUntil(Promise.all(calls));
    expect(wire.sent.acquire).toBeGreaterThan(acquire);
  });
});
