/** What an operator reads in the log about holds, and by which number the events of a call belong together. */
import { describe, expect, it } from '@jest/globals';
import { delay } from '../../../lib/core/port/clock.js';
import type { Finding, LockEvent } from '../../../lib/core/port/lock-events.js';
import { Fleet } from '../../support/locks.js';

function setUp() {
  const fleet = new Fleet();
  const log: Finding[] = [];
  const told: LockEvent[] = [];
  const { locks, wire } = fleet.process({ shutdownGraceMs: 1_000 }, undefined, (finding) => log.push(finding));
  locks.events.subscribe((event) => told.push(event));
  return { fleet, clock: fleet.clock, locks, wire, log, told, other: fleet.process().locks };
}

describe('The log', () => {
  it('tells once of a lease that was lost, whose it was and for how long, and not again for the calls inside', async () => {
    const { clock, locks, log, other } = setUp();
    const work = locks.withLock('k', { label: 'nightly import', onLost: 'ignore' }, () => locks.withLock('k', { onLost: 'ignore' }, () => delay(clock, 500)));
    await clock.advance(300);
    await other.forceRelease('k');
    await clock.runUntil(work);
    expect(log).toEqual([{ kind: 'lease lost', level: 'warning', message: expect.stringMatching(/^Lock 'k' was lost: .* It was held by nightly import for 300 ms\.$/) }]);
  });

  it('tells of a renewal that failed, and for how long the lease is held still', async () => {
    const { clock, locks, wire, log } = setUp();
    const lease = await locks.acquire('k', { leaseMs: 9_000 });
    wire.cut = true;
    await clock.advance(3_100);
    wire.cut = false;
    const [first] = log;
    const [, leftMs] = /^Lock 'k' could not be renewed: the network is cut\. It stays held for another (\d+) ms/.exec(first!.message) ?? [];
    expect(first).toMatchObject({ kind: 'renewal failed', level: 'warning' });
    expect(Number(leftMs)).toBeGreaterThan(5_500);
    expect(Number(leftMs)).toBeLessThanOrEqual(9_000);
    await clock.advance(1_000);
    await lease.release();
  });

  it.each(['is renewed', 'is released'])('tells of a renewal that failed only for as long as it is so: until the lease %s', async (end) => {
    const { clock, locks, wire, log } = setUp();
    const lease = await locks.acquire('k', { leaseMs: 9_000 });
    wire.cut = true;
    await clock.advance(3_100);
    wire.cut = false;
    const [failed] = log;
    expect(failed?.isStill?.()).toBe(true);
    await clock.runUntil<unknown>(end === 'is renewed' ? lease.renew() : lease.release());
    expect(failed?.isStill?.()).toBe(false);
    if (end === 'is renewed') await clock.runUntil(lease.release());
  });

  it('tells of each lease that is lost after the grace of an announced shutdown, while calls are still served', async () => {
    const { clock, locks, log, other } = setUp();
    locks.announceShutdown();
    await clock.advance(1_001);
    const lease = await locks.acquire('k');
    await other.forceRelease('k');
    await clock.settle();
    expect(log.map(({ kind }) => kind)).toEqual(['lease lost']);
    await lease.release();
    await clock.runUntil(locks.close());
  });
});

describe('The number of a call', () => {
  it('is the same in all of its events, and another one for every other call, adoptions included', async () => {
    const { locks, told } = setUp();
    const ticket = await (await locks.acquire('k')).handOff();
    await (await locks.adopt(ticket)).release();
    const again = await (await locks.acquire('k')).handOff();
    await (await locks.adopt(again)).release();
    const calls = told.map(({ call }) => call!);
    expect(told.map(({ type }) => type)).toEqual(['granted', 'handedOff', 'adopted', 'released', 'granted', 'handedOff', 'adopted', 'released']);
    expect([0, 2, 4, 6].map((n) => calls[n] === calls[n + 1])).toEqual([true, true, true, true]);
    expect(new Set(calls).size).toBe(4);
  });
});
