import { describe, expect, it } from '@jest/globals';
import { pause } from '../../../lib/core/port/clock.js';
import type { LockTimeoutError } from '../../../lib/core/port/errors.js';
import type { Finding, LockEvent } from '../../../lib/core/port/lock-events.js';
import type { AcquireRequest } from '../../../lib/core/port/lock-store.js';
import type { LockService } from '../../../lib/lock.service.js';
import { alone, besideHolder, Fleet, eventsOf, gate } from '../../support/locks.js';

function watched(fleet = new Fleet()): { fleet: Fleet; locks: ReturnType<Fleet['process']>['locks']; wire: ReturnType<Fleet['process']>['wire']; told: LockEvent[] } {
  const { locks, wire } = fleet.process();
  const told = eventsOf(locks);
  return { fleet, locks, wire, told };
}

describe('Events tell', () => {
  it('of a grant, how long it took, and of its release, how long it was held', async () => {
    const { fleet, locks, told } = watched();
    const other = await fleet.process().locks.acquire('k');
    const work = locks.withLock('k', async () => new Promise<void>((resolve) => void fleet.clock.setTimer(resolve, 300)));
    await fleet.clock.advance(200);
    await other.release();
    await fleet.clock.runUntil(work);
    expect(told.map(({ type }) => type)).toEqual(['waiting', 'granted', 'released']);
    expect(told[1]).toMatchObject({ key: 'k', mode: 'write', waitedMs: 200, nested: false });
    expect(told[2]).toMatchObject({ heldMs: 300, outcome: 'released' });
  });

  it('which holds are inside others', async () => {
    const { fleet, locks, told } = watched();
    const lease = await locks.acquire('k');
    await lease.run(() => locks.withLock('k', async () => {}));
    await fleet.process().locks.forceRelease('k');
    await fleet.clock.settle();
    expect(told.map((event) => [event.type, 'nested' in event && event.nested])).toEqual([
      ['granted', false], ['granted', true], ['released', true], ['lost', false],
    ]);
  });

  it('of a loss that only the release found out', async () => {
    const { locks, wire, told } = watched();
    const lease = await locks.acquire('k');
    wire.release = async () => 'lost';
    expect(await lease.release()).toBe('lost');
    expect(told.map(({ type }) => type)).toEqual(['granted', 'lost', 'released']);
    expect(lease.signal.aborted).toBe(true);
  });

  it('why a request got nothing: busy, given up, failed', async () => {
    const { fleet, locks, wire, told } = watched();
    await fleet.process().locks.acquire('k');
    await fleet.clock.runUntil(expect(locks.acquire('k', { waitMs: 100 })).rejects.toThrow());
    const abort = new AbortController();
    const given = expect(locks.acquire('k', { signal: abort.signal })).rejects.toThrow();
    abort.abort();
    await given;
    wire.cut = true;
    await fleet.clock.runUntil(expect(locks.acquire('free', { waitMs: 100 })).rejects.toThrow());
    expect(told.filter(({ type }) => type !== 'waiting')).toMatchObject([
      { type: 'busy', waitedMs: 100 }, { type: 'cancelled' }, { type: 'failed', cause: { code: 'LOCK_STORE' } },
    ]);
    wire.cut = false;
  });

  it('of renewals without an answer, and of the loss they end in', async () => {
    const { fleet, locks, wire, told } = watched();
    const work = gate();
    const hold = expect(locks.withLock('k', { leaseMs: 1_000 }, () => work.promise)).rejects.toMatchObject({ code: 'LOCK_LOST' });
    await fleet.clock.settle();
    wire.cut = true;
    await fleet.clock.advance(2_000);
    work.open();
    await fleet.clock.runUntil(hold);
    const types = told.map(({ type }) => type);
    expect(types[0]).toBe('granted');
    expect(types).toContain('renewFailed');
    expect(types.slice(-2)).toEqual(['lost', 'released']);
    expect(told.at(-1)).toMatchObject({ outcome: 'lost' });
  });
});

/** The option `label`: what a call says of itself, to those who look at the lock. */

/**
 * Three calls for the lock `k`, of which the last holds it when this resolves: the store granted the lease to the second, which
 * handed it on inside the process.
 */
async function handedOn(fleet: Fleet, locks: LockService, labels: readonly (string | undefined)[]) {
  const gates = labels.map(() => gate());
  const calls = labels.map((label, n) => locks.withLock('k', { label }, () => gates[n]!.promise));
  for (const { open } of gates.slice(0, -1)) {
    await fleet.clock.settle();
    open();
  }
  await fleet.clock.settle();
  return { end: () => gates.at(-1)!.open(), ended: Promise.all(calls) };
}

describe('The label of a call', () => {
  it('is told in its events, and to every process that looks at the lock', async () => {
    const { fleet, locks } = alone();
    const events = eventsOf(locks);
    const lease = await locks.acquire('k', { label: 'nightly import' });
    const beside = fleet.process().locks;
    const waiter = beside.withLock('k', { label: 'price update' }, () => undefined);
    await fleet.clock.settle();
    const seen = await fleet.process().locks.inspect('k');
    expect([...seen.holders, ...seen.waiters].map(({ label }) => label)).toEqual(['nightly import', 'price update']);
    await fleet.clock.runUntil(Promise.all([lease.release(), waiter]));
    expect(events.map(({ type, label }) => `${type} ${label}`)).toEqual(['granted nightly import', 'released nightly import']);
  });

  it('is that of the call that holds now, also when the lease was handed on to it inside the process', async () => {
    const { fleet, locks, wire } = alone();
    const { end, ended } = await handedOn(fleet, locks, ['first', 'second', 'third']);
    expect((await fleet.store.inspect('k')).holders).toMatchObject([{ label: 'second' }]);
    const listed: unknown[] = [];
    for await (const { holders } of locks.list()) listed.push(...holders.map(({ label }) => label));
    expect([(await locks.inspect('k')).holders[0]?.label, ...listed]).toEqual(['third', 'third']);
    expect(wire.sent.acquire).toBe(2);
    end();
    await fleet.clock.runUntil(ended);
  });

  it('is not invented: a call without one sends none to the store, and is told without one after a hand-over', async () => {
    const { fleet, locks, wire } = alone();
    const sent: AcquireRequest[] = [];
    const { acquire } = wire;
    wire.acquire = (request) => (sent.push(request), acquire.call(wire, request));
    await locks.withLock('free', () => undefined);
    expect(sent.map(({ label }) => label)).toEqual([undefined]);
    const { end, ended } = await handedOn(fleet, locks, ['first', 'second', undefined]);
    expect((await fleet.store.inspect('k')).holders).toMatchObject([{ label: 'second' }]);
    expect((await locks.inspect('k')).holders).toMatchObject([{ label: undefined }]);
    end();
    await fleet.clock.runUntil(ended);
  });

  it('has 1 to 48 bytes, as it is stored with the lock', async () => {
    const { locks } = new Fleet().process();
    await locks.withLock('k', { label: 'x'.repeat(48) }, () => undefined);
    for (const label of ['', 'é'.repeat(25), 7 as unknown as string]) {
      await expect(locks.acquire('k', { label })).rejects.toThrow(/^Lock 'k': expected label to be a string of 1 to 48 bytes, got /);
    }
  });

  it('of a candidate names who leads', async () => {
    const { fleet, locks } = alone();
    const over = gate();
    await using _standing = locks.lead('indexer', () => over.promise, { label: 'indexer of shop 7' });
    await fleet.clock.settle();
    expect(await locks.leader('indexer')).toMatchObject({ label: 'indexer of shop 7' });
    over.open();
  });
});

/** What an operator reads in the log about holds, and by which number the events of a call belong together. */
function setUp() {
  const fleet = new Fleet();
  const log: Finding[] = [];
  const { locks, wire } = fleet.process({ shutdownGraceMs: 1_000 }, undefined, (finding) => log.push(finding));
  const told = eventsOf(locks);
  return { fleet, clock: fleet.clock, locks, wire, log, told, other: fleet.process().locks };
}

describe('The log', () => {
  it('tells once of a lease that was lost, whose it was and for how long, and not again for the calls inside', async () => {
    const { clock, locks, log, other } = setUp();
    const work = locks.withLock('k', { label: 'nightly import', onLost: 'ignore' }, () => locks.withLock('k', { onLost: 'ignore' }, () => pause(clock, 500)));
    await clock.advance(300);
    await other.forceRelease('k');
    await clock.runUntil(work);
    expect(log).toEqual([{ kind: 'lease lost', level: 'warning', message: expect.stringMatching(/^Lock 'k' was lost: .* It was held by nightly import for 300 ms\.$/) }]);
  });

  it.each(['is renewed', 'is released'])('tells of a renewal that failed, for how long the lease is held still, and only for as long as it is so: until the lease %s', async (end) => {
    const { clock, locks, wire, log } = setUp();
    const lease = await locks.acquire('k', { leaseMs: 9_000 });
    wire.cut = true;
    await clock.advance(3_100);
    wire.cut = false;
    const [failed] = log;
    const [, leftMs] = /^Lock 'k' could not be renewed: the network is cut\. It stays held for another (\d+) ms/.exec(failed!.message) ?? [];
    expect(Number(leftMs)).toBeGreaterThan(5_500);
    expect(Number(leftMs)).toBeLessThanOrEqual(9_000);
    expect([failed?.kind, failed?.level, failed?.isStill?.()]).toEqual(['renewal failed', 'warning', true]);
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

/** How the holders of a lock are named to those who wait in vain, or look: from what the store knows, and from what this process knows better. */
async function refusal(fleet: Fleet, locks: LockService, waitMs = 300): Promise<LockTimeoutError> {
  const call = locks.withLock('k', { waitMs }, () => 'ran').then(() => undefined, (error: unknown) => error);
  return (await fleet.clock.runUntil(call)) as LockTimeoutError;
}

describe('The holder of a lock', () => {
  it('is told to who waited for a millisecond only', async () => {
    const fleet = new Fleet();
    await fleet.process().locks.acquire('k', { label: 'nightly import' });
    expect((await refusal(fleet, fleet.process().locks, 1)).holders).toMatchObject([{ label: 'nightly import' }]);
  });

  it('is told though the store takes a while to say who it is', async () => {
    const { fleet, locks, wire } = await besideHolder('k', { label: 'nightly import' });
    const inspect = wire.inspect.bind(wire);
    wire.inspect = async (key) => (await pause(fleet.clock, 90), inspect(key));
    expect((await refusal(fleet, locks)).holders).toMatchObject([{ label: 'nightly import' }]);
  });

  it('is the outermost hold of its process, and not a call inside it', async () => {
    const { fleet, locks } = alone();
    const { promise, open } = gate();
    const work = locks.withLock('k', () => locks.withLock('k', { label: 'inside' }, () => promise));
    await fleet.clock.settle();
    expect((await locks.inspect('k')).holders).toMatchObject([{ label: undefined }]);
    open();
    await work;
  });
});
