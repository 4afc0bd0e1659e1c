/** What the processes ask of a Cluster while one of its masters is down and nobody takes its place. */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, describe, expect, it } from '@jest/globals';
import { startCluster } from '../../support/redis-cluster.js';
import { closeStores, openRedisStore } from '../../support/redis-store.js';
import { forAll } from '../../support/started.js';
import { connectBy } from '../../support/test-client.js';

/** In the first seconds all memories are asked for once more. */
const SETTLED_MS = 3_000;
const WATCHED_MS = 4_000;

describe.each(['ioredis', 'redis'] as const)('A master of a Cluster that is down, with %s,', (client) => {

  afterAll(() => closeStores());
  const cluster = forAll(() => startCluster({ args: ['--cluster-require-full-coverage', 'no'] }));

  /** How many commands the other masters have run, those of scripts included, or have sent elsewhere. */
  async function commandsOfOthers(): Promise<number> {
    const counts = cluster.masters.slice(1).map(async (node) => {
      const stats = String(await node.command('INFO', 'stats'));
      const counted = (name: string): number => Number(new RegExp(`${name}:(\\d+)`).exec(stats)?.[1] ?? 0);
      return counted('total_commands_processed') + counted('total_error_replies');
    });
    return (await Promise.all(counts)).reduce((sum, count) => sum + count, 0);
  }

  it('does not make a process that wants nothing ask the others all the time who they are', async () => {
    const target = { cluster: cluster.startupNodes };
    await openRedisStore(target, 'p1', { recoveryMs: 1_000, connection: connectBy(target, client) });
    await cluster.masters[0]!.stop();
    await sleep(SETTLED_MS);
    const before = await commandsOfOthers();
    await sleep(WATCHED_MS);
    const perSecond = ((await commandsOfOthers()) - before) / (WATCHED_MS / 1_000);
    console.log(`one master is down, with ${client}: ${perSecond} commands a second`);
    expect(perSecond).toBeLessThan(100);
  });
});
