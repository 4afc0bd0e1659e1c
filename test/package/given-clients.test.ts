/** Clients of node-redis that an application made and gives, of every version that users have: of one server, Cluster, Sentinel, a Redlock. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from '@jest/globals';
import { eventually } from '../support/eventually.js';
import { startCluster } from '../support/redis-cluster.js';
import { startSentinel, type SentinelGroup } from '../support/redis-sentinel.js';
import { startMasters, startRedis } from '../support/redis-server.js';
import { forAll } from '../support/started.js';
import { Application, COMMAND_TAKES_AT_MOST_MS } from './application.js';
import { pack } from './packed.js';
import { NODE_REDIS_VERSIONS } from './peers.js';

/** Resolves when another server is the master, and the one before follows it, so that nothing more can be written there and lost. */
async function moved(group: SentinelGroup): Promise<void> {
  const before = await group.master();
  await group.failover();
  await eventually(async () => expect(await before.command('ROLE')).toEqual(expect.arrayContaining(['slave', 'connected'])));
}

const packed = forAll(pack);
const single = forAll(startRedis);
const cluster = forAll(startCluster);
const masters = forAll(() => startMasters(3));
const app = forAll(() => Application.install('smoke', [packed.tarball, '@nestjs/common@12', '@nestjs/core@12']));

describe.each(NODE_REDIS_VERSIONS)('With redis@%s', (version) => {
  const seen = {
    version: expect.stringMatching(new RegExp(`^${version}(\\.|$)`)),
    wereUsed: false,
    stillOpen: true,
    fencesRise: true,
    writes: ['written', 'stale'],
    balance: '2',
  };
  beforeAll(() => app.add(`redis@${version}`), COMMAND_TAKES_AT_MOST_MS);

  it.each<[string, string, () => object]>([
    ['createClient', 'client', () => ({ urls: [single.url] })],
    ['createCluster', 'cluster', () => ({ urls: [cluster.masters[1]!.url] })],
    ['createClient, three times for a Redlock,', 'redlock', () => ({ urls: masters.map(({ url }) => url) })],
  ])('what %s made is locked by without being used, and writes with the fence', async (_, kind, target) => {
    for (const server of [single, ...masters]) await server.command('DEL', 'account:1');
    expect(await app.seen('node', ['given-client.cjs'], { KIND: kind, TARGET: JSON.stringify(target()) })).toEqual(seen);
  });

  it('what createSentinel made is followed to the next master, and writes with the fence', async () => {
    await using group = await startSentinel({ downAfterMs: 1_000 });
    const failover = join(app.folder, `moved-${version}`);
    const sentinels = group.sentinels.map(({ port }) => ({ host: '127.0.0.1', port }));
    const env = { KIND: 'sentinel', TARGET: JSON.stringify({ sentinels, name: 'holdfast' }), FAILOVER: failover };
    let moving: Promise<void> | undefined;
    const { exitCode, stdout, output } = await app.run('node', ['given-client.cjs'], env, (line) => {
      if (line !== 'up') return;
      moving = moved(group).then(() => writeFile(failover, ''));
      // What it rejects with is told below, unless the program has failed before.
      moving.catch(() => undefined);
    });
    if (exitCode !== 0) throw new Error(output);
    await moving;
    expect(JSON.parse(stdout.trim().split('\n').at(-1) ?? '')).toEqual(seen);
  });
});
