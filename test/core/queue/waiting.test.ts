import { describe, expect, it } from '@jest/globals';
import { answering } from '../../support/answering.js';
import { alone, besideHolder, Fleet, gate, twoReadLeases } from '../../support/locks.js';

describe('A process that waits', () => {
  it('sleeps no longer than a second on a free lock though every wake was lost', async () => {
    const { fleet, locks, wire, other: holder } = await besideHolder('k');
    wire.lostWakes.add('granted').add('ask');
    const waiting = locks.acquire('k');
    await fleet.clock.advance(100);
    await holder.release();
    const since = fleet.clock.now();
    await fleet.clock.runUntil(waiting);
    expect(fleet.clock.now() - since).toBeLessThanOrEqual(1_000);
  });

  it('that hears of its grant when it is nearly over gets a whole lease before it begins', async () => {
    const { fleet, locks, wire, other: holder } = await besideHolder('k');
    wire.lostWakes.add('granted').add('ask');
    const waiting = locks.acquire('k', { leaseMs: 800 });
    await fleet.clock.advance(10);
    await holder.release(); // it asks again 690 ms later
    const lease = await fleet.clock.runUntil(waiting);
    expect(lease.remainingMs).toBeGreaterThan(700);
  });

  it('is told after one try, when it does not want to wait, that the store is too slow for so short a lease', async () => {
    const { fleet, locks, wire } = alone();
    wire.slowMs = 200;
    const refused = expect(locks.acquire('k', { leaseMs: 100, waitMs: 0 })).rejects.toThrow(/so late that too little of the lease of 100 ms was left/);
    await fleet.clock.runUntil(refused);
    expect(wire.sent.acquire).toBe(1);
    await fleet.clock.advance(1_000);
    expect(await locks.isLocked('k')).toBe(false);
  });

  it('asks as soon as the store calls it, also when the store refused it without a place in a queue', async () => {
    const { fleet, locks, wire } = alone();
    const asked = answering(wire, async (n, ask) => (n === 0 ? { kind: 'busy', retryInMs: 60_000 } : ask()));
    const waiting = locks.acquire('k');
    await fleet.clock.advance(1_000);
    expect(asked).toHaveLength(1);
    const calledAt = fleet.clock.now();
    fleet.wake({ kind: 'ask', key: 'k', id: asked[0]!.id });
    await fleet.clock.runUntil(waiting);
    expect(fleet.clock.now() - calledAt).toBeLessThan(100);
  });

  it('is served soon after the end of the lease of a holder that died', async () => {
    const fleet = new Fleet();
    const dead = fleet.process();
    await dead.locks.acquire('k', { leaseMs: 1_000 });
    dead.wire.cut = true;
    const since = fleet.clock.now();
    await fleet.clock.runUntil(fleet.process().locks.acquire('k'));
    expect(fleet.clock.now() - since).toBeGreaterThanOrEqual(1_000);
    expect(fleet.clock.now() - since).toBeLessThanOrEqual(1_010);
  });

  it('takes a new place when it was silent for so long that its place was given up', async () => {
    const fleet = new Fleet();
    const holder = await fleet.process().locks.acquire('k');
    const paused = fleet.process();
    const waiting = paused.locks.acquire('k', { waitMs: 60_000 });
    await fleet.clock.settle();
    paused.wire.cut = true;
    await fleet.clock.advance(4_000);
    await holder.release();
    paused.wire.cut = false;
    const lease = await fleet.clock.runUntil(waiting);
    lease.assertHeld();
    expect(await lease.release()).toBe('released');
  });

  it('with a fixed lease gets all of it, also when it had to queue', async () => {
    const fleet = new Fleet();
    const holder = await fleet.process().locks.acquire('k');
    const waiting = fleet.process().locks.acquire('k', { leaseMs: 20_000, renew: false });
    await fleet.clock.settle();
    await holder.release();
    const lease = await fleet.clock.runUntil(waiting);
    expect(lease.remainingMs).toBeGreaterThan(19_000);
  });

  it('leaves nothing behind in cancels that race the grant', async () => {
    const fleet = new Fleet();
    const one = fleet.process();
    const two = fleet.process();
    // Each cancel comes at another pair of moments before, while and after the grant is on its way.
    for (let n = 0; n < 7 * 11; n++) {
      const abort = new AbortController();
      const holder = await one.locks.acquire('k');
      const waiting = two.locks.acquire('k', { signal: abort.signal }).then((lease) => lease.release(), () => undefined);
      for (let hops = n % 7; hops > 0; hops--) await Promise.resolve();
      const releasing = holder.release();
      for (let hops = n % 11; hops > 0; hops--) await Promise.resolve();
      abort.abort();
      await releasing;
      await waiting;
    }
    await fleet.clock.settle();
    expect(await one.locks.isLocked('k')).toBe(false);
    expect((await one.locks.inspect('k')).waiters).toEqual([]);
    await fleet.clock.advance(2_000);
    expect(fleet.clock.pendingTimers).toBe(0);
  });
});

/** Messages of the store are hints: which of them count, and for which of the process's leases and requests. */
describe('A message of the store', () => {
  it('that a lock was taken away reaches its holder at once, also beside a newer read lease of the same process', async () => {
    const { fleet, earlier, newer } = await twoReadLeases('k');
    await fleet.process().locks.forceRelease('k', { fence: earlier.fence });
    await fleet.clock.settle();
    expect(earlier.signal.aborted).toBe(true);
    expect(newer.signal.aborted).toBe(false);
  });

  it.each([['a lock', {}], ['a permit', { permits: 3 }]])('that %s was taken away, and is not true, makes a lease of fixed length no longer', async (_what, options) => {
    const { fleet, locks, wire } = alone();
    const lease = await locks.acquire('k', { leaseMs: 1_000, renew: false, ...options });
    await fleet.clock.advance(800);
    fleet.wake({ kind: 'lost', key: 'k', id: (await locks.inspect('k')).holders[0]!.id });
    await fleet.clock.settle();
    expect(wire.sent.renew).toBe(1);
    lease.assertHeld();
    expect(lease.remainingMs).toBeLessThanOrEqual(200);
  });

  it('lets nobody begin before the store has told of a place in its queue', async () => {
    const { fleet, locks, wire, other } = await besideHolder('k');
    const sent = gate();
    const asked = answering(wire, (_, ask) => sent.promise.then(ask));
    let began = false;
    const waiting = locks.acquire('k').then((lease) => {
      began = true;
      return lease;
    });
    await fleet.clock.settle();
    const now = fleet.clock.now();
    const grant = { fence: other.fence + 1, fences: 1, mode: 'write', grantedAt: now, trustedUntil: now + 10_000, contended: false } as const;
    fleet.wake({ kind: 'granted', key: 'k', id: asked[0]!.id, grant });
    await fleet.clock.settle();
    expect(began).toBe(false);
    sent.open();
    await fleet.clock.settle();
    await other.release();
    const lease = await fleet.clock.runUntil(waiting);
    expect(await lease.verify()).toBe(true);
  });

  it.each([
    ['while the store is asked again', true],
    ['before the process was told that it waits: nodes call before all of them have answered', false],
  ])('that comes %s makes it ask once more', async (_, wasTold) => {
    const { fleet, locks, wire, other } = await besideHolder('k');
    wire.lostWakes.add('granted');
    const answer = gate();
    const keepBack = (): unknown => answering(wire, (_n, ask) => ask().then((outcome) => answer.promise.then(() => outcome)));
    if (!wasTold) keepBack();
    const waiting = locks.acquire('k');
    await fleet.clock.settle();
    const { id } = (await fleet.store.inspect('k')).waiters[0]!;
    if (wasTold) {
      keepBack();
      fleet.wake({ kind: 'ask', key: 'k', id });
      await fleet.clock.settle();
    }
    await other.release();
    fleet.wake({ kind: 'ask', key: 'k', id });
    const since = fleet.clock.now();
    answer.open();
    await fleet.clock.runUntil(waiting);
    expect(fleet.clock.now() - since).toBeLessThan(100);
  });
});

describe('A grant that the store takes for a stray', () => {
  it('owes no minHoldMs, because nobody worked under it', async () => {
    const { fleet, locks, wire } = alone();
    const given = { key: 'k', mode: 'write', queue: true, fences: 1, minReplicas: 0, leaseMs: 5_000, minHoldMs: 60_000 } as const;
    expect(await wire.acquire({ ...given, id: 'p1.gone', notAfter: fleet.clock.now() + 1_000 })).toMatchObject({ kind: 'granted' });
    fleet.wake({ kind: 'stray', key: 'k', id: 'p1.gone' });
    await fleet.clock.settle();
    expect(await locks.tryAcquire('k')).not.toBeNull();
  });

  it('is left alone while its own request is still on the way, has no answer, or is tried again', async () => {
    const { fleet, locks, wire } = alone();
    const answer = gate();
    const asked = answering(wire, (_, ask) => answer.promise.then(ask));
    const waiting = locks.acquire('k');
    await fleet.clock.settle();
    const { id } = asked[0]!;
    fleet.wake({ kind: 'stray', key: 'k', id });
    await fleet.clock.settle();
    answer.open();
    const lease = await fleet.clock.runUntil(waiting);
    expect(wire.sent.release).toBe(0);
    fleet.wake({ kind: 'stray', key: 'k', id });
    await fleet.clock.settle();
    expect(wire.sent.release).toBe(0);
    expect(await lease.verify()).toBe(true);
  });

  it('is left alone while this process has the lock by a ticket', async () => {
    const { fleet, locks, wire } = alone();
    const lease = await locks.adopt(await (await locks.acquire('k')).handOff());
    fleet.wake({ kind: 'stray', key: 'k', id: (await fleet.store.inspect('k')).holders[0]!.id });
    await fleet.clock.settle();
    expect(wire.sent.release).toBe(0);
    expect(await lease.verify()).toBe(true);
  });

  it('is left alone while readers hold it, also beside a newer read lease of their process', async () => {
    const { fleet, wire, earlier, newer } = await twoReadLeases('k');
    for (const { id } of (await fleet.store.inspect('k')).holders) fleet.wake({ kind: 'stray', key: 'k', id });
    await fleet.clock.settle();
    expect(wire.sent.release).toBe(0);
    for (const reader of [earlier, newer]) expect(await reader.verify()).toBe(true);
  });
});

describe('Whoever tries again without a pause', () => {
  it.each<[string, (setting: ReturnType<typeof alone>) => unknown]>([
    ['is held here', ({ locks }) => locks.acquire('k')],
    ['cannot be asked for, because the store is not reached', ({ wire }) => (wire.cut = true)],
    ['is refused, because the module shuts down', ({ locks }) => void locks.close()],
  ])('lets all else go on, while the lock %s', async (_, set) => {
    const setting = alone();
    await set(setting);
    let isTimeForOthers = false;
    setImmediate(() => setImmediate(() => (isTimeForOthers = true)));
    let tries = 0;
    while (!isTimeForOthers && tries < 10_000) {
      tries += 1;
      expect(await setting.locks.tryAcquire('k').catch(() => null)).toBeNull();
    }
    expect(tries).toBeLessThan(10);
  });
});
