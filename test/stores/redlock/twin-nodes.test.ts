/** A node of a Redlock that is a second name of another one's server, on simulated masters: it has no word, whatever the two are asked or say. */
import { beforeEach, describe, expect, it } from '@jest/globals';
import type { Wake } from '../../../lib/core/port/lock-store.js';
import type { SimServer } from '../../simulation/sim-server.js';
import { RedlockRequests } from '../../support/redlock-requests.js';
import { simulatedRedlock, type RedlockMember } from '../../support/simulated-redlock.js';

const redlock = simulatedRedlock();
const requests = new RedlockRequests(redlock);
let one: SimServer;
let two: SimServer;
/** Its third node leads to the first server. */
let mine: RedlockMember;
let theirs: RedlockMember;
let wakes: Wake[];
beforeEach(async () => {
  [one, two] = redlock.servers as [SimServer, SimServer];
  [mine, theirs] = [await redlock.opened('p'), await redlock.opened('q')];
  wakes = [];
  mine.store.onWake((wake) => wakes.push(wake));
  const own = mine.ways[2]!;
  mine.ways[2] = redlock.wayTo(one);
  own.cut();
  while (!isTwin()) await redlock.pass(1);
  // Its subscription is there as well.
  await redlock.pass(20);
});

const isTwin = (): boolean => mine.told.some(({ kind }) => kind === 'twin redis3:6379');
/** The other process reaches the first server alone. */
const isCutOff = (): void => {
  for (const way of theirs.ways.slice(1)) way.silence('keeps');
};

describe('A server that has two names', () => {
  it('does not call a lock lost by both of them', async () => {
    await requests.granted(mine, 'p.1');
    isCutOff();
    await requests.failure(theirs.store.forceRelease('k'));
    expect(requests.standing()).toEqual(['redis2']);
    expect(wakes).toEqual([]);
  });

  it('does not call a waiter by both of them', async () => {
    await requests.granted(theirs, 'q.1', { leaseMs: 30_000 });
    await requests.ask(mine, 'p.1', { queue: true });
    isCutOff();
    void theirs.store.release({ key: 'k', id: 'q.1' }).catch(() => undefined);
    await redlock.pass(100);
    expect(requests.standing()).toEqual(['redis1', 'redis2', 'redis3']);
    expect(wakes).toEqual([]);
  });

  it('tells a holder once that somebody waits', async () => {
    await requests.granted(mine, 'p.1');
    isCutOff();
    void theirs.store.acquire(requests.request('q.1', { queue: true })).catch(() => undefined);
    await redlock.pass(100);
    expect(wakes).toEqual([{ kind: 'contended', key: 'k', id: 'p.1' }]);
  });

  it('is asked once for what it knows of a lock, and is no quorum', async () => {
    two.stop();
    await redlock.pass(5);
    for (const call of [() => mine.store.inspect('k'), () => mine.store.tryOut(), () => mine.store.forceRelease('k')]) {
      expect((await requests.failure(call())).nodes).toContainEqual({ node: 'redis3:6379', reason: 'the same server as redis1:6379' });
    }
  });

  it('has its other name when the first one leads nowhere', async () => {
    const [first] = mine.ways;
    first!.silence('loses');
    first!.cut();
    await redlock.pass(3_000);
    await requests.granted(mine, 'p.1');
    expect(requests.standing()).toEqual(['redis1', 'redis2']);
  });

  it('is not named any more when its other name leads nowhere', async () => {
    redlock.servers[2]!.stop();
    mine.ways[2] = redlock.wayTo(redlock.servers[2]!);
    one.stop();
    await redlock.pass(20);
    expect((await requests.failure(mine.store.inspect('k'))).nodes).toContainEqual({ node: 'redis3:6379', reason: 'not connected' });
  });
});
