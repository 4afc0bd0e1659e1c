/** A Cluster that asks for a password, given in each of the ways that the option `redis` takes. */
import { beforeAll, describe, expect, it } from '@jest/globals';
import { RedisStore } from '../../../lib/stores/redis/redis-store.js';
import type { ClientPackage, ClusterTarget } from '../../../lib/stores/wire/redis-target.js';
import { acquireRequest } from '../../support/acquire-request.js';
import { startCluster } from '../../support/redis-cluster.js';
import { forAll } from '../../support/started.js';
import { USUAL_OPTIONS } from '../../support/store-options.js';
import { connectBy } from '../../support/test-client.js';

const PASSWORD = 'p@ss/word';

const cluster = forAll(() => startCluster({ masters: 3 }));
beforeAll(async () => {
  for (const master of cluster.masters) await master.command('CONFIG', 'SET', 'requirepass', PASSWORD);
});

describe.each<ClientPackage>(['ioredis', 'redis'])('A Cluster with a password is reached by %s', (client) => {
  it.each<[string, (addresses: readonly string[]) => ClusterTarget]>([
    ['when the nodes are URLs and the password is among the options', (addresses) => ({ cluster: addresses.map((address) => `redis://${address}`), options: { redisOptions: { password: PASSWORD } } })],
    ['when one node is named as host:port', ([address]) => ({ cluster: [address!], options: { redisOptions: { password: PASSWORD } } })],
    ['when the password is in the URL of each node', (addresses) => ({ cluster: addresses.map((address) => `redis://:${encodeURIComponent(PASSWORD)}@${address}`) })],
  ])('%s', async (_, targetOf) => {
    const target = targetOf(cluster.masters.map(({ port }) => `127.0.0.1:${port}`));
    const store = new RedisStore({ ...USUAL_OPTIONS, recoveryMs: 0, connection: connectBy(target, client), process: 'p' });
    await store.open();
    for (let n = 0; n < 8; n++) {
      const ask = acquireRequest();
      expect((await store.acquire(ask)).kind).toBe('granted');
      await store.release(ask);
    }
    await store.close();
  });
});
