/** One node of a Redlock, which is a simulated master: how it is asked in its own time, what it is told, and what is made of its answers. */
import { beforeEach, describe, expect, it } from '@jest/globals';
import type { RenewOutcome } from '../../../lib/core/port/lock-store.js';
import { acquire } from '../../../lib/stores/wire/lua.generated.js';
import { RedisKeys } from '../../../lib/stores/wire/redis-keys.js';
import type { SimServer } from '../../simulation/sim-server.js';
import { RedlockRequests } from '../../support/redlock-requests.js';
import { simulatedRedlock, type RedlockMember } from '../../support/simulated-redlock.js';

const redlock = simulatedRedlock();
const requests = new RedlockRequests(redlock);
let one: SimServer;
let two: SimServer;
let three: SimServer;
let member: RedlockMember;
beforeEach(async () => {
  [one, two, three] = redlock.servers as [SimServer, SimServer, SimServer];
  member = await redlock.opened('p');
});

/** After so long without an answer nobody knows any more what time it is on a node. */
const LONG_MS = 61_000;

describe('A node that has not answered for a minute', () => {
  it('is asked for its time before it is asked for a vote, which has a limit in that time', async () => {
    await redlock.pass(LONG_MS);
    three.stepClock(3_600_000);
    expect(await requests.commandsOf(() => requests.granted(member, 'p.1').then(() => redlock.pass(20)))).toEqual([2, 2, 2]);
    expect(requests.standing()).toEqual(['redis1', 'redis2', 'redis3']);
    expect(await requests.commandsOf(() => requests.ask(member, 'p.2', { key: 'other' }))).toEqual([1, 1, 1]);
  });

  it('is not asked for a vote any more when its time came too late', async () => {
    await redlock.pass(LONG_MS);
    for (const way of member.ways) way.faults.shortestMs = way.faults.longestMs = 20;
    const asked: string[] = [];
    for (const server of redlock.servers) server.watch = ({ name }, _keys, _reply, source) => void (source === acquire.source && asked.push(name));
    const error = await requests.failure(member.store.acquire(requests.request('p.1', { notAfter: redlock.clock.now() + 30 })));
    expect(error.nodes.map(({ reason }) => reason)).toContain('late');
    await redlock.pass(200);
    expect(asked.sort()).toEqual(['redis1', 'redis2', 'redis3']);
  });

  it('and refuses to say its time is no node to wait for', async () => {
    await redlock.pass(LONG_MS);
    for (const server of redlock.servers) server.loading = true;
    const error = await requests.failure(member.store.acquire(requests.request('p.1')));
    expect(error.nodes.map(({ reason }) => reason).filter((reason) => reason.includes('LOADING')).length).toBeGreaterThanOrEqual(2);
  });

  it('is still asked at once by a process that renewed a lease there meanwhile', async () => {
    await requests.granted(member, 'p.1', { leaseMs: 60_000 });
    for (let minute = 0; minute < 3; minute += 1) {
      await redlock.pass(30_000);
      expect((await requests.renew(member, 'p.1', 60_000)).kind).toBe('renewed');
    }
    expect(await requests.commandsOf(() => requests.granted(member, 'p.2', { key: 'other' }).then(() => redlock.pass(20)))).toEqual([1, 1, 1]);
  });

  it('is still asked at once by a process whose forced release it has answered', async () => {
    await redlock.runUntil(member.store.forceRelease('k'));
    await redlock.pass(LONG_MS);
    // The first request only learns the time.
    expect(await requests.commandsOf(() => redlock.runUntil(member.store.forceRelease('k')).then(() => redlock.pass(20)))).toEqual([2, 2, 2]);
    expect(await requests.commandsOf(() => requests.granted(member, 'p.1').then(() => redlock.pass(20)))).toEqual([1, 1, 1]);
  });
});

describe('A node that is silent', () => {
  /** It fails to answer a question that all nodes have to be waited for. */
  const fallsSilent = async (server: SimServer): Promise<void> => {
    server.freeze();
    await redlock.runUntil(member.store.inspect('k'));
  };
  const tookMs = async (call: () => Promise<unknown>): Promise<number> => {
    const since = redlock.time.now;
    await redlock.runUntil(call());
    return redlock.time.now - since;
  };

  it('is waited for once, and again only after it has answered', async () => {
    three.freeze();
    const firstMs = await tookMs(() => member.store.inspect('k'));
    expect(firstMs).toBeGreaterThanOrEqual(500);
    expect(firstMs).toBeLessThan(510);
    expect(await tookMs(() => member.store.inspect('k'))).toBeLessThan(10);
    three.thaw();
    await redlock.pass(100);
    three.freeze();
    expect(await tookMs(() => member.store.inspect('k'))).toBeGreaterThanOrEqual(500);
  });

  it('is not asked for a vote while the others are a quorum, and is when it has answered', async () => {
    await fallsSilent(three);
    await requests.granted(member, 'p.1');
    three.thaw();
    await redlock.pass(100);
    expect(requests.standing()).toEqual(['redis1', 'redis2']);
    await requests.granted(member, 'p.2', { key: 'other' });
    await redlock.pass(20);
    expect(requests.standing('other')).toEqual(['redis1', 'redis2', 'redis3']);
  });

  it('is not asked any more when its connection was given up, and named as such when the others turn out to be no quorum', async () => {
    three.freeze();
    await requests.granted(member, 'p.0');
    await requests.release(member, 'p.0');
    await redlock.pass(2_100); // The release is waited for in the background, for as long as any command.
    two.freeze();
    const error = await requests.failure(member.store.acquire(requests.request('p.1')));
    expect(error.nodes).toEqual([{ node: 'redis1:6379', reason: 'granted' }, { node: 'redis2:6379', reason: expect.stringMatching(/^no answer/) }, { node: 'redis3:6379', reason: 'not connected' }]);
  });
});

describe('A node that refuses', () => {
  it('has refused at once, and is not waited for', async () => {
    for (const server of [one, two]) server.refuseWrites('oom');
    const since = redlock.time.now;
    const error = await requests.failure(member.store.acquire(requests.request('p.1')));
    expect(redlock.time.now - since).toBeLessThan(50);
    expect(error.nodes.slice(0, 2).map(({ reason }) => reason)).toEqual([expect.stringContaining('OOM'), expect.stringContaining('OOM')]);
  });

  it('fails a trial with its reason', async () => {
    for (const server of [one, two]) server.flush();
    const error = await requests.failure(member.store.tryOut());
    expect(error.nodes.slice(0, 2).map(({ reason }) => reason)).toEqual(['recovering', 'recovering']);
  });
});

describe('A request that could not be sent', () => {
  beforeEach(async () => {
    await requests.granted(member, 'p.1', { leaseMs: 30_000 });
    await requests.granted(member, 'p.2', { leaseMs: 30_000, key: 'other' });
    one.stop();
    two.stop();
    await redlock.pass(100);
  });
  const renewal = async (...locks: [key: string, id: string][]): Promise<unknown> => {
    const asked = locks.map(([key, id]) => ({ key, id, leaseMs: 30_000, minReplicas: 0 }));
    const [outcome] = await redlock.runUntil(Promise.all(asked.map((each) => member.store.renew(each))));
    return (outcome as Extract<RenewOutcome, { kind: 'unknown' }>).cause.cause;
  };

  it('about a lock names the lock in its error', async () => {
    const error = await requests.failure(member.store.acquire(requests.request('p.3', { key: 'third' })));
    expect(error.cause).toMatchObject({ key: 'third', message: "Lock 'third': redis1:6379 is not connected." });
    expect(await renewal(['k', 'p.1'])).toMatchObject({ key: 'k', message: "Lock 'k': redis1:6379 is not connected." });
  });

  it('about one of several names that one, and about none speaks of locks', async () => {
    expect(await renewal(['k', 'p.1'], ['other', 'p.2'])).toMatchObject({ key: 'k', message: "Lock 'k': redis1:6379 is not connected." });
    expect((await requests.failure(member.store.tryOut())).cause).toMatchObject({ message: 'Locks: redis1:6379 is not connected.' });
  });
});

describe('A node whose last fence is further than those of the others', () => {
  it('decides the fence of the next grant, which the others take over', async () => {
    const keys = new RedisKeys('lock');
    const ahead = 2_000_000_000_000_000;
    const memory = one.text(keys.fence(keys.groupOf('k')))!.split(' ')[1];
    one.put(keys.fence(keys.groupOf('k')), `${ahead} ${memory}`);
    // The third one is not heard of before the grant.
    member.ways[2]!.faults.shortestMs = member.ways[2]!.faults.longestMs = 40;
    const { fence } = await requests.granted(member, 'p.1');
    expect(fence).toBe(ahead + 1);
    await redlock.pass(200);
    expect(redlock.servers.map((server) => server.text(keys.fence(keys.groupOf('k')))?.split(' ')[0])).toEqual(Array(3).fill(String(fence)));
    await requests.release(member, 'p.1');
    one.stop();
    await redlock.pass(100);
    const other = await redlock.opened('q');
    expect((await requests.granted(other, 'q.1')).fence).toBeGreaterThan(fence);
  });
});
