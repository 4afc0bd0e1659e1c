/** The requests of a process to its Redlock, one after another or at once, on simulated masters: which of them are one, and what is left of them. */
import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import type { AcquireOutcome, AcquireRequest, Grant } from '../../../lib/core/port/lock-store.js';
import type { RedlockStore } from '../../../lib/stores/redlock/redlock-store.js';
import type { Waiters } from '../../../lib/stores/redlock/waiters.js';
import { Random } from '../../simulation/random.js';
import { SimulatedRedlock, type RedlockMember } from '../../support/simulated-redlock.js';

let redlock: SimulatedRedlock;
let mine: RedlockMember;
let theirs: RedlockMember;
beforeEach(async () => {
  redlock = new SimulatedRedlock();
  // A test is the same run each time.
  jest.spyOn(Math, 'random').mockImplementation(new Random(5).next);
  [mine, theirs] = [await redlock.opened('p'), await redlock.opened('q')];
});
afterEach(() => {
  jest.restoreAllMocks();
  return redlock.close();
});

const request = (id: string, how: Partial<AcquireRequest> = {}): AcquireRequest => ({
  key: 'k', id, mode: 'write', leaseMs: 3_000, queue: false, fences: 1, minHoldMs: 0, minReplicas: 0, notAfter: redlock.clock.now() + 2_000, ...how,
});
const ask = ({ store }: RedlockMember, id: string, how?: Partial<AcquireRequest>): Promise<AcquireOutcome> => redlock.runUntil(store.acquire(request(id, how)));
const granted = async (member: RedlockMember, id: string, how?: Partial<AcquireRequest>): Promise<Grant> => {
  const outcome = await ask(member, id, how);
  if (outcome.kind !== 'granted') throw new Error(`expected a grant, got ${outcome.kind}`);
  return outcome.grant;
};
const release = ({ store }: RedlockMember, id: string, how = {}) => redlock.runUntil(store.release({ key: 'k', id, ...how }));
const renew = async ({ store }: RedlockMember, id: string, minReplicas = 0) => (await redlock.runUntil(store.renew([{ key: 'k', id, leaseMs: 3_000, minReplicas }])))[0]!;
const standing = (): number => redlock.servers.filter((server) => server.keys().some((name) => name.endsWith(':l:k'))).length;
const sizes = (store: RedlockStore): number[] => {
  const { ballots, waiters, asking } = store as unknown as Record<'ballots' | 'waiters' | 'asking', { size: number }>;
  return [ballots.size, waiters.size, asking.size];
};

describe('A request', () => {
  it('that is made twice at once is one, and has one answer', async () => {
    const before = redlock.servers[0]!.commands;
    const [one, other] = [mine.store.acquire(request('p.1')), mine.store.acquire(request('p.1'))];
    expect(await redlock.runUntil(one)).toEqual(await redlock.runUntil(other));
    expect(redlock.servers[0]!.commands - before).toBe(1);
  });

  it('that is made again is the same grant, which is not prolonged, as long as a quorum has it', async () => {
    const { fence, trustedUntil } = await granted(mine, 'p.1');
    await redlock.pass(500);
    const again = await granted(mine, 'p.1');
    expect(again.fence).toBe(fence);
    expect(Math.abs(again.trustedUntil - trustedUntil)).toBeLessThan(60);
    await redlock.runUntil(theirs.store.forceRelease('k'));
    expect((await granted(mine, 'p.1')).fence).toBeGreaterThan(fence);
    expect(await release(mine, 'p.1')).toBe('released');
  });

  it('that is made again while its lease is released is not granted anew', async () => {
    await granted(mine, 'p.1');
    const again = mine.store.acquire(request('p.1'));
    const released = mine.store.release({ key: 'k', id: 'p.1' });
    expect((await redlock.runUntil(again)).kind).toBe('busy');
    expect(await redlock.runUntil(released)).toBe('released');
    await redlock.pass(50);
    expect(standing()).toBe(0);
  });

  it('that is refused leaves nothing of it, neither here nor on the nodes', async () => {
    await granted(theirs, 'q.1');
    expect((await ask(mine, 'p.1')).kind).toBe('busy');
    expect(sizes(mine.store)).toEqual([0, 0, 0]);
    expect(await release(mine, 'p.1')).toBe('lost');
    await release(theirs, 'q.1');
    await redlock.pass(50);
    expect(standing()).toBe(0);
  });

  it('that waits is remembered until it is granted or given up, and no other is', async () => {
    await granted(theirs, 'q.1');
    await ask(mine, 'p.1', { queue: true });
    await ask(mine, 'p.2', { queue: true });
    expect(sizes(mine.store)).toEqual([0, 2, 0]);
    expect(await release(mine, 'p.2')).toBe('lost');
    await release(theirs, 'q.1');
    await granted(mine, 'p.1', { queue: true });
    expect(sizes(mine.store)).toEqual([1, 0, 0]);
    await release(mine, 'p.1');
    expect(sizes(mine.store)).toEqual([0, 0, 0]);
  });

  it('that is granted puts those of its process that wait behind all others', async () => {
    await granted(theirs, 'q.1');
    for (const id of ['p.1', 'p.2']) await ask(mine, id, { queue: true });
    await redlock.pass(500);
    await release(theirs, 'q.1');
    await granted(mine, 'p.1', { queue: true });
    const { waiters } = mine.store as unknown as { readonly waiters: Waiters };
    expect(waiters.ask('p.2', 'k', redlock.clock.now())).toBeLessThan(500);
  });

  it('that replaces a lease releases it, and says when the nodes did not know it', async () => {
    const { fence } = await granted(mine, 'p.1');
    expect(await ask(mine, 'p.2', { replaces: 'p.1' })).toMatchObject({ kind: 'granted', replacedLost: false });
    expect(await ask(mine, 'p.3', { replaces: 'p.1' })).toMatchObject({ kind: 'busy', replacedLost: true });
    expect((await granted(mine, 'p.4', { replaces: 'p.2' })).fence).toBeGreaterThan(fence);
    expect(sizes(mine.store)[0]).toBe(1);
  });

  it('that replaces no lease says nothing of one', async () => {
    expect(Object.keys(await ask(mine, 'p.1'))).toEqual(['kind', 'grant']);
    expect(Object.keys(await ask(theirs, 'q.1'))).toEqual(['kind', 'retryInMs']);
  });

  it('to a store that was closed, or for replicas, is refused', async () => {
    await expect(mine.store.acquire(request('p.1', { minReplicas: 1 }))).rejects.toMatchObject({ code: 'LOCK_STORE', retryable: false });
    await granted(mine, 'p.1');
    await mine.store.close();
    await expect(mine.store.acquire(request('p.2'))).rejects.toThrow('after the store was closed');
    expect(sizes(mine.store)).toEqual([0, 0, 0]);
  });
});

describe('A lease', () => {
  it('has fences that the next one does not have', async () => {
    const { fence, fences } = await granted(mine, 'p.1', { fences: 16 });
    expect(fences).toBe(16);
    await release(mine, 'p.1');
    expect((await granted(theirs, 'q.1')).fence).toBeGreaterThanOrEqual(fence + 16);
  });

  it('of an owner is shared by its other requests, with its fence and its mode, and given up one by one', async () => {
    const { fence } = await granted(mine, 'p.1', { owner: 'o', fences: 16 });
    expect(await granted(theirs, 'q.1', { owner: 'o', mode: 'read', fences: 16 })).toMatchObject({ fence, fences: 1, mode: 'write' });
    await release(mine, 'p.1');
    expect((await ask(mine, 'p.2')).kind).toBe('busy');
    expect(await release(theirs, 'q.1')).toBe('released');
    const reading = await granted(mine, 'p.3', { owner: 'o', mode: 'read' });
    expect(reading.mode).toBe('read');
    expect((await ask(theirs, 'q.3', { owner: 'o' })).kind).toBe('upgrade');
  });

  it('is renewed, and lost when the nodes do not know it any more: then it is taken back, and nobody finds it', async () => {
    const { trustedUntil } = await granted(mine, 'p.1');
    await redlock.pass(1_000);
    const renewed = await renew(mine, 'p.1');
    expect(renewed).toMatchObject({ kind: 'renewed', contended: false });
    expect(renewed.kind === 'renewed' && renewed.trustedUntil).toBeGreaterThan(trustedUntil + 900);
    expect(await renew(mine, 'p.none')).toEqual({ kind: 'lost' });
    expect(await renew(mine, 'p.1', 1)).toMatchObject({ kind: 'unknown', cause: { message: expect.stringContaining('minReplicas') } });
    await redlock.runUntil(theirs.store.forceRelease('k'));
    expect((await renew(mine, 'p.1')).kind).toBe('lost');
    expect(sizes(mine.store)).toEqual([0, 0, 0]);
    expect(await release(mine, 'p.1')).toBe('lost');
  });

  it('S3: is lost when it had ended before its release, though its record is still on the nodes', async () => {
    await granted(mine, 'p.1', { leaseMs: 300 });
    await redlock.pass(350);
    expect(await release(mine, 'p.1')).toBe('lost');
  });

  it('becomes one for reading by a downgrade, and not when the nodes do not know it', async () => {
    await granted(mine, 'p.1');
    expect((await ask(theirs, 'q.1', { mode: 'read' })).kind).toBe('busy');
    expect(await redlock.runUntil(mine.store.downgrade({ key: 'k', id: 'p.1' }))).toBe('downgraded');
    expect((await granted(theirs, 'q.2', { mode: 'read' })).mode).toBe('read');
    expect((await granted(mine, 'p.1')).mode).toBe('read');
    expect(await redlock.runUntil(mine.store.downgrade({ key: 'k', id: 'p.none' }))).toBe('lost');
    await redlock.runUntil(theirs.store.forceRelease('k'));
    expect(await redlock.runUntil(mine.store.downgrade({ key: 'k', id: 'p.1' }))).toBe('lost');
  });

  it('with minHoldMs stays taken after its release, and is free at once when its work never began', async () => {
    await granted(mine, 'p.1', { minHoldMs: 2_000 });
    await release(mine, 'p.1');
    expect((await ask(theirs, 'q.1')).kind).toBe('busy');
    await redlock.pass(2_100);
    await granted(theirs, 'q.2', { minHoldMs: 2_000 });
    expect(await release(theirs, 'q.2', { abandoned: true })).toBe('released');
    await granted(mine, 'p.2');
  });

  it('of which a node lost its connection is released there when that is back', async () => {
    await granted(mine, 'p.1', { leaseMs: 30_000 });
    mine.ways[0]!.silence('keeps');
    expect(await release(mine, 'p.1')).toBe('released');
    expect(standing()).toBe(1);
    mine.ways[0]!.silence('no');
    await redlock.pass(2_000);
    expect(standing()).toBe(0);
  });

  it('that a node granted too late is taken back there', async () => {
    mine.ways[2]!.faults.shortestMs = mine.ways[2]!.faults.longestMs = 120;
    await granted(mine, 'p.1');
    expect(await release(mine, 'p.1')).toBe('released');
    await redlock.pass(2_000);
    expect(standing()).toBe(0);
  });
});

describe('A heartbeat', () => {
  it('keeps no place, because a Redlock has no queue', async () => {
    expect(await mine.store.heartbeat([{ key: 'k', id: 'p.1' }, { key: 'k', id: 'p.2' }])).toEqual([{ kind: 'gone' }, { kind: 'gone' }]);
  });
});

describe('A store', () => {
  it('refuses a name of its process that ids cannot have', () => {
    expect(() => redlock.member('no.name with spaces/')).toThrow(/process/);
  });
});
