/** Requests of several processes that come together, over ways of unequal length to five simulated masters. */
import { describe, expect, it, jest } from '@jest/globals';
import { LockService } from '../../../lib/lock.service.js';
import { recall } from '../../../lib/stores/wire/lua.generated.js';
import { simulatedRedlock, type RedlockMember } from '../../support/simulated-redlock.js';

const redlock = simulatedRedlock(5);

const locksOf = ({ store }: RedlockMember, process: string): LockService => new LockService({ store, process, clock: redlock.clock });

/** Three processes, of which each has its own nodes near by, and the others further away. */
function apart(awayMs = 30): Promise<readonly LockService[]> {
  return Promise.all([[0, 1], [2, 3], [4]].map(async (near, n) => {
    const member = await redlock.opened(`p${n}`);
    for (const [node, { faults }] of member.ways.entries()) if (!near.includes(node)) Object.assign(faults, { shortestMs: awayMs, longestMs: awayMs + 1 });
    return locksOf(member, `p${n}`);
  }));
}

describe('A free lock for which several processes ask together', () => {
  it.each([['', 0], [', and a node is frozen', 1]])('L4: is granted to one of them when none of them waits%s', async (_, frozen) => {
    const services = await apart(frozen ? 2 : 30);
    for (let firing = 0; firing < 20; firing++) {
      for (const server of redlock.servers.slice(0, frozen)) server.freeze();
      const leases = await redlock.runUntil(Promise.all(services.map((locks) => locks.tryAcquire(`cron:${firing}`, { minHoldMs: 5_000 }))));
      expect(leases.filter((lease) => lease !== null)).toHaveLength(1);
      for (const server of redlock.servers.slice(0, frozen)) server.thaw();
      await redlock.pass(3_000 * frozen);
    }
  });

  it('L1: is granted within a second when all of them wait, whichever process is nearer to a node', async () => {
    const services = await apart();
    for (let round = 0; round < 10; round++) {
      const since = redlock.clock.now();
      const calls = services.map((locks) => locks.withLock(`hot:${round}`, async () => redlock.clock.now() - since));
      expect(Math.min(...(await redlock.runUntil(Promise.all(calls))))).toBeLessThan(1_000);
    }
  });
});

it('L4: a call that does not wait gets a free lock, though the time of the servers was read so long ago that it would be too late by it', async () => {
  const { store } = await redlock.opened('p', { commandTimeoutMs: 300 });
  const locks = new LockService({ store, process: 'p', clock: redlock.clock, commandTimeoutMs: 300 });
  await redlock.runUntil(locks.withLock('k', () => {}));
  await redlock.pass(40_000);
  expect(await redlock.runUntil(locks.tryAcquire('k'))).not.toBeNull();
});

describe('A node that stays out because it was flushed', () => {
  it('is not asked what it remembers for each vote that it refuses', async () => {
    const member = await redlock.opened('p');
    const locks = locksOf(member, 'p');
    redlock.servers[0]!.flush();
    const received = jest.spyOn(redlock.servers[0]!, 'receive');
    for (let n = 0; n < 100; n++) await redlock.runUntil(locks.withLock('k', () => {}));
    const recalls = received.mock.calls.filter(([[, script]]) => script === recall.sha1 || script === recall.source).length;
    expect(recalls).toBeGreaterThan(0);
    expect(recalls).toBeLessThanOrEqual(10);
  });
});

describe('A process that shuts down when its connections were just cut', () => {
  it('L6: leaves no lock behind whose release was on its way', async () => {
    const [member, next] = [await redlock.opened('p'), await redlock.opened('q')];
    const [locks, others] = [locksOf(member, 'p'), locksOf(next, 'q')];
    const lease = await redlock.runUntil(locks.acquire('k', { leaseMs: 15_000 }));
    for (const way of member.ways) way.cut();
    await redlock.runUntil(Promise.all([lease.release(), locks.close()]));
    const since = redlock.clock.now();
    await redlock.runUntil(others.withLock('k', () => {}));
    expect(redlock.clock.now() - since).toBeLessThan(1_000);
  });
});
