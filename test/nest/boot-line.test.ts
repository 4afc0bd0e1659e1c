/** The one line in the log with which a lock module starts. */
import { afterEach, describe, expect, it, jest } from '@jest/globals';
import { Logger } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { LockModule, type LockModuleExtras, type LockModuleOptions } from '../../lib/index.js';
import { TestLocks } from '../../lib/testing/index.js';
import { startCluster } from '../support/redis-cluster.js';
import { startSentinel } from '../support/redis-sentinel.js';
import { startMasters, startRedis } from '../support/redis-server.js';
import { forAll } from '../support/started.js';
import { startAlone } from './application.js';

const redis = forAll(startRedis);
afterEach(async () => {
  jest.restoreAllMocks();
  await redis.command('CONFIG', 'SET', 'appendonly', 'no', 'maxmemory-policy', 'noeviction');
});

function linesOf(level: 'log' | 'error' | 'warn'): string[] {
  const lines: string[] = [];
  jest.spyOn(Logger.prototype, level).mockImplementation((message: unknown) => void lines.push(String(message)));
  return lines;
}

/** What the lock module of an application writes into the log, at the level of good news, until the application is initialized. */
async function boot(options: LockModuleOptions & LockModuleExtras): Promise<string[]> {
  const lines = linesOf('log');
  await startAlone({ imports: [LockModule.forRoot(options)] });
  return lines.filter((line) => line.startsWith('Locks'));
}

const FORGETS = 'the append-only file (a restart forgets what was granted since the last snapshot)';
const NO_REPLICA = 'replicas (none is connected)';

describe('The line with which a lock module starts', () => {
  it('says which Redis, which prefix, and what is switched off there', async () => {
    const options = { redis: redis.url, prefix: 'shop', recoveryMs: 1_000 };
    expect(await boot(options)).toEqual([`Locks are kept by one Redis (127.0.0.1:${redis.port}), prefix 'shop'. Without: ${NO_REPLICA}; ${FORGETS}.`]);
    await redis.command('CONFIG', 'SET', 'appendonly', 'yes');
    expect(await boot(options)).toEqual([expect.stringMatching(/Without: replicas \(none is connected\)\.$/)]);
  });

  it('names a module that has a name, a recovery that is switched off, and a policy that evicts', async () => {
    await redis.command('CONFIG', 'SET', 'maxmemory-policy', 'allkeys-lru', 'appendonly', 'yes');
    linesOf('error');
    const [line, ...others] = await boot({ redis: redis.url, name: 'billing', recoveryMs: 0 });
    expect(others).toEqual([]);
    expect(line).toBe(
      `Locks of the module 'billing' are kept by one Redis (127.0.0.1:${redis.port}), prefix 'lock'. Without: ` +
        `recovery (recoveryMs is 0: after a restart or a failover without the grant two may hold one lock); ${NO_REPLICA}; ` +
        'safety from eviction (maxmemory-policy is allkeys-lru: a lock that is held may be evicted).',
    );
  });

  it('says what the user of Redis may not ask', async () => {
    linesOf('warn');
    await redis.command('ACL', 'SETUSER', 'locker', 'reset', 'on', '>secret', 'allkeys', 'allchannels', '+@all', '-info');
    expect(await boot({ redis: `redis://locker:secret@127.0.0.1:${redis.port}`, recoveryMs: 1_000 })).toEqual([
      `Locks are kept by one Redis (127.0.0.1:${redis.port}), prefix 'lock'. Not known: replicas, eviction and persistence, because the user may not run INFO.`,
    ]);
  });

  it('says of a Sentinel how many replicas there are, and that no grant waits for one', async () => {
    await using group = await startSentinel();
    const redis = group.options;
    const start = `Locks are kept by one Redis (the master '${redis.name}' of Sentinel, replicas: 1), prefix 'lock'.`;
    const [line] = await boot({ redis, recoveryMs: 1_000 });
    expect(line).toBe(`${start} Without: grants that wait for a replica (minReplicas is 0: an old master may go on granting in a partition); ${FORGETS}.`);
    expect(await boot({ redis, recoveryMs: 1_000, minReplicas: 1 })).toEqual([`${start} Without: ${FORGETS}.`]);
  });

  it('says of a Cluster how many masters it has', async () => {
    await using cluster = await startCluster();
    const [line] = await boot({ redis: { cluster: cluster.startupNodes }, recoveryMs: 1_000 });
    const ofEach = 'the append-only file of 3 masters (a restart forgets what was granted since the last snapshot)';
    expect(line).toBe(`Locks are kept by a Cluster (3 masters), prefix 'lock'. Without: ${NO_REPLICA}; ${ofEach}.`);
  });

  it('says of a Redlock which nodes it has, how many decide, and which of them may evict a vote', async () => {
    await using masters = await startMasters(3);
    await masters[2]!.command('CONFIG', 'SET', 'maxmemory-policy', 'volatile-lru');
    linesOf('error');
    linesOf('warn');
    const lines = await boot({ redis: masters.map(({ url }) => url) });
    const nodes = masters.map(({ port }) => `127.0.0.1:${port}`);
    expect(lines).toEqual([
      `Locks are kept by a Redlock of 3 nodes (${nodes.join(', ')}; 2 decide), prefix 'lock'. ` +
        `Without: safety from eviction (maxmemory-policy is volatile-lru: a lock that is held may be evicted) on ${nodes[2]}.`,
    ]);
  });

  it('says of embedded locks that they live in this process only', async () => {
    expect(await boot({ embedded: true })).toEqual(['Locks live in this process only (embedded: true).']);
    expect(await boot({})).toEqual([expect.stringMatching(/^Locks live in this process only\. Give redis /)]);
  });

  it('is not written where a test replaces the store', async () => {
    const lines = linesOf('log');
    const module = await new TestLocks().replaceIn(Test.createTestingModule({ imports: [LockModule.forRoot({ redis: redis.url })] })).compile();
    await module.init();
    await module.close();
    expect(lines.filter((line) => line.startsWith('Locks'))).toEqual([]);
  });
});
