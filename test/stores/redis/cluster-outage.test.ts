/** What the processes ask of a Cluster while one of its masters is down and nobody takes its place. */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { startCluster, type RedisCluster } from '../../support/redis-cluster.js';
import { closeStores, openRedisStore } from '../../support/redis-store.js';

const WATCHED_MS = 3_000;

describe('A master of a Cluster that is down', () => {
  let cluster: RedisCluster;

  beforeAll(async () => {
    cluster = await startCluster({ args: ['--cluster-require-full-coverage', 'no'] });
  });

  afterAll(async () => {
    await closeStores();
    await cluster.stop();
  });

  /** How many scripts the other masters have run. */
  async function scriptsOfOthers(): Promise<number> {
    const counts = cluster.masters.slice(1).map(async (node) => {
      const text = String(await node.command('INFO', 'commandstats'));
      return ['eval', 'evalsha'].reduce((sum, name) => sum + Number(new RegExp(`cmdstat_${name}:calls=(\\d+)`).exec(text)?.[1] ?? 0), 0);
    });
    return (await Promise.all(counts)).reduce((sum, count) => sum + count, 0);
  }

  it('does not make a process that wants nothing ask the others thousands of times a second who they are', async () => {
    await openRedisStore({ cluster: cluster.startupNodes }, 'p1', { recoveryMs: 1_000 });
    await cluster.masters[0]!.stop();
    const before = await scriptsOfOthers();
    await sleep(WATCHED_MS);
    const perSecond = ((await scriptsOfOthers()) - before) / (WATCHED_MS / 1_000);
    expect(perSecond).toBeLessThan(2_000);
  });
});
