/** A store that nobody asks anything is silent, and one that was closed leaves nothing behind in the process. */
import { createServer, type Socket } from 'node:net';
import { describe, expect, it, jest } from '@jest/globals';
import type { RedisTarget } from '../../../lib/stores/wire/redis-target.js';
import { leastRule } from '../../../lib/stores/redis/boot-probe.js';
import { acquireRequest } from '../../support/acquire-request.js';
import { eventually } from '../../support/eventually.js';
import { startCluster } from '../../support/redis-cluster.js';
import { startRedis, type RedisServer } from '../../support/redis-server.js';
import { closeStores, openRedisStore } from '../../support/redis-store.js';
import { forAll } from '../../support/started.js';

const server = forAll(startRedis);
const cluster = forAll(startCluster);

/** Commands that clients sent, on all nodes, since the statistics were reset. */
async function commandsOf(nodes: readonly RedisServer[]): Promise<string[]> {
  const stats = await Promise.all(nodes.map((node) => node.command('INFO', 'commandstats')));
  // Those of the nodes among themselves, and of the connection that asks.
  return stats.flatMap((text) => [...String(text).matchAll(/cmdstat_([^:]+):/g)].map(([, name]) => String(name))).filter((name) => !/^(info|client\b|hello|ping|replconf|psync|config\b)/.test(name));
}

function resources(): string[] {
  return process.getActiveResourcesInfo().filter((kind) => kind === 'TCPSocketWrap' || kind === 'TCPConnectWrap' || kind === 'Timeout');
}

const targets: readonly (readonly [string, () => readonly RedisServer[], () => RedisTarget])[] = [
  ['one Redis', () => [server], () => server.url],
  ['a Cluster', () => cluster.masters, () => ({ cluster: cluster.startupNodes })],
];

it('a store whose server ends its connections again and again keeps no timer for each of them', async () => {
  const gone = await startRedis();
  await openRedisStore(gone.url, 'p');
  await gone.kill();
  const timers = (): number => resources().filter((kind) => kind === 'Timeout').length;
  const before = timers();
  const ended = jest.fn((socket: Socket) => socket.destroy());
  await using other = createServer(ended);
  other.listen(gone.port, '127.0.0.1');
  await eventually(() => expect(ended.mock.calls.length).toBeGreaterThan(10));
  await closeStores();
  expect(timers()).toBeLessThan(before + 5);
});

describe.each(targets)('on %s', (_name, nodes, target) => {
  it('a process with nothing to do sends nothing', async () => {
    const store = await openRedisStore(target(), 'p');
    const holder = acquireRequest();
    await store.acquire(holder);
    await store.release(holder);
    for (const node of nodes()) await node.command('CONFIG', 'RESETSTAT');
    // Longer than any interval of ours, and than the one at which ioredis would ask a Cluster for its slots.
    await new Promise((resolve) => setTimeout(resolve, 5_500));
    expect(await commandsOf(nodes())).toEqual([]);
    await closeStores();
  });

  it('a store that was closed leaves no connection and no timer', async () => {
    const before = resources();
    const store = await openRedisStore(target(), 'p');
    const asked = Array.from({ length: 20 }, () => store.acquire(acquireRequest()));
    await Promise.all(asked.slice(0, 10));
    await closeStores();
    await Promise.allSettled(asked);
    await eventually(() => expect(resources().length).toBeLessThanOrEqual(before.length), 1_500);
    await expect(store.acquire(acquireRequest())).rejects.toMatchObject({ code: 'LOCK_STORE', retryable: false });
  });
});

it('the least access rule is enough in a Cluster, with what the docs add for it', async () => {
  const rule = `${leastRule('lock')} +cluster|slots +cluster|info`.split(' ');
  for (const node of cluster.masters) await node.command('ACL', 'SETUSER', 'locker', 'reset', 'resetchannels', 'on', '>secret', ...rule);
  const store = await openRedisStore({ cluster: cluster.startupNodes, options: { redisOptions: { username: 'locker', password: 'secret' } } }, 'p');
  for (let i = 0; i < 10; i++) {
    const holder = acquireRequest();
    expect((await store.acquire(holder)).kind).toBe('granted');
    expect(await store.release(holder)).toBe('released');
  }
  await closeStores();
});
