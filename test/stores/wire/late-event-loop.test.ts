/** A process whose event loop is late at every turn: a server that answers in time is not taken for one that is away. */
import { describe, expect, it } from '@jest/globals';
import { systemClock } from '../../../lib/core/port/clock.js';
import { connectTo } from '../../../lib/stores/wire/connect-to.js';
import type { ClientPackage, RedisTarget } from '../../../lib/stores/wire/redis-target.js';
import { startCluster } from '../../support/redis-cluster.js';
import { startSentinel } from '../../support/redis-sentinel.js';
import { startRedis } from '../../support/redis-server.js';
import { forAll } from '../../support/started.js';

const [server, sentinel, cluster] = [forAll(startRedis), forAll(startSentinel), forAll(startCluster)];

/** Keeps the process busy at every turn of the event loop, until the promise is settled. */
async function lateAtEachTurn<T>(lateMs: number, promise: Promise<T>): Promise<T> {
  let isSettled = false;
  const settled = promise.finally(() => (isSettled = true));
  const work = (): void => {
    if (isSettled) return;
    for (const until = performance.now() + lateMs; performance.now() < until; );
    setImmediate(work);
  };
  setImmediate(work);
  return settled;
}

describe.each<ClientPackage>(['ioredis', 'redis'])('A process that is late at every turn of its event loop', (client) => {
  /** Each is later than a server may be in a step of connecting; a node of a Cluster has a second to name the slots. */
  it.each<[string, number, () => RedisTarget]>([
    ['one Redis', 600, () => server.url],
    ['the master that Sentinel names', 600, () => sentinel.options as RedisTarget],
    ['a Cluster', 1_100, () => ({ cluster: cluster.startupNodes })],
  ])(`connects with ${client} to %s at the first try`, async (_, lateMs, target) => {
    const connections = (await connectTo(target(), client))(500, systemClock);
    const problems: string[] = [];
    connections.commands.events.on('problem', ({ message }) => {
      problems.push(message);
      connections.close();
    });
    await lateAtEachTurn(lateMs, connections.commands.start()).catch(() => undefined);
    connections.close();
    expect(problems).toEqual([]);
  }, 60_000);
});
