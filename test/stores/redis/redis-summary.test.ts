/** What one Redis, a Sentinel or a Cluster is called in the line with which an application starts, without a server. */
import { describe, expect, it } from '@jest/globals';
import { redisSummary, type Summarized } from '../../../lib/stores/redis/redis-summary.js';
import type { Connections } from '../../../lib/stores/wire/connections.js';
import type { ServerFacts } from '../../../lib/stores/wire/server-facts.js';

const GOOD: ServerFacts = { masters: 1, replicas: 0, evicting: undefined, withoutFile: 0 };
const FORGETS = '(a restart forgets what was granted since the last snapshot)';

function summaryOf(facts: Partial<ServerFacts> | undefined, how: Partial<Summarized> = {}, node = 'a:6379', isCluster = false) {
  const options = { prefix: 'shop', recoveryMs: 1_000, minReplicas: 1, ...how };
  return redisSummary(options, { node, isCluster } as Connections, facts && { ...GOOD, ...facts });
}

describe('The summary of a Redis', () => {
  it('has nothing that is switched off where all is well', () => {
    expect(summaryOf({})).toEqual({ place: 'one Redis (a:6379)', prefix: 'shop', off: [] });
  });

  it.each<[string, Partial<ServerFacts>, Partial<Summarized>, string[]]>([
    ['that recovers nothing', {}, { recoveryMs: 0 }, ['recovery (recoveryMs is 0: after a restart or a failover without the grant two may hold one lock)']],
    ['without replicas', {}, { minReplicas: 0 }, ['replicas (none is connected)']],
    ['whose module says nothing of replicas', {}, { minReplicas: undefined }, ['replicas (none is connected)']],
    ['whose replicas no grant waits for', { replicas: 1 }, { minReplicas: 0 }, ['grants that wait for a replica (minReplicas is 0: an old master may go on granting in a partition)']],
    ['that may evict', { evicting: 'allkeys-lru' }, {}, ['safety from eviction (maxmemory-policy is allkeys-lru: a lock that is held may be evicted)']],
    ['without a file', { withoutFile: 1 }, {}, [`the append-only file ${FORGETS}`]],
    ['with two masters and no file', { masters: 2, withoutFile: 2 }, {}, [`the append-only file of 2 masters ${FORGETS}`]],
    ['of whose masters two have no file', { masters: 3, withoutFile: 2 }, {}, [`the append-only file of 2 masters ${FORGETS}`]],
  ])('%s says so', (_what, facts, how, off) => {
    expect(summaryOf(facts, how).off).toEqual(off);
  });

  it('counts the replicas, also those of a Sentinel and of a Cluster', () => {
    expect(summaryOf({ replicas: 1 }).place).toBe('one Redis (a:6379, 1 replica)');
    expect(summaryOf({ replicas: 2 }).place).toBe('one Redis (a:6379, 2 replicas)');
    const master = `the master 'm' of Sentinel`;
    expect(summaryOf({ replicas: 2 }, {}, master).place).toBe(`${master} (2 replicas)`);
    expect(summaryOf({}, {}, master).place).toBe(master);
    expect(summaryOf({ masters: 3, replicas: 3 }, {}, 'the Cluster', true).place).toBe('a Cluster (3 masters, 3 replicas)');
    expect(summaryOf({ masters: 3 }, {}, 'the Cluster', true).place).toBe('a Cluster (3 masters)');
  });

  it('says what is not known where the user may not run INFO', () => {
    const unknown = 'replicas, eviction and persistence, because the user may not run INFO';
    expect(summaryOf(undefined)).toEqual({ place: 'one Redis (a:6379)', prefix: 'shop', off: [], unknown });
    expect(summaryOf(undefined, { recoveryMs: 0 }, 'the Cluster', true)).toMatchObject({ place: 'a Cluster', off: [expect.stringMatching(/^recovery /)], unknown });
  });
});
