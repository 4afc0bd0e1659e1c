/** A Cluster, or a server, that is given in a way that cannot work: the boot says at once what it is and what to give instead. */
import { beforeAll, describe, expect, it, jest } from '@jest/globals';
import { Logger } from '@nestjs/common';
import { LockModule, LockService, type LockModuleOptions } from '../../lib/index.js';
import { startCluster } from '../support/redis-cluster.js';
import { startRedis } from '../support/redis-server.js';
import { WireFormat } from '../../lib/stores/wire/wire-format.js';
import { startAlone } from './application.js';
import { forAll } from '../support/started.js';

const cluster = forAll(startCluster);
const nameless = forAll(() => startCluster({ args: ['--cluster-preferred-endpoint-type', 'unknown-endpoint'] }));
beforeAll(() => Logger.overrideLogger(false));

const boot = (redis: LockModuleOptions['redis'], client: 'ioredis' | 'redis', bootTimeoutMs = 6_000) => startAlone({ imports: [LockModule.forRoot({ redis, client, bootTimeoutMs })] });

describe.each(['ioredis', 'redis'] as const)('by %s', (client) => {
  it('a node of a Cluster that is given as one Redis is told to be one at once', async () => {
    const { port, url } = cluster.masters[1]!;
    await expect(boot(url, client)).rejects.toMatchObject({
      code: 'LOCK_STORE',
      retryable: false,
      message: expect.stringMatching(`^Locks: 127.0.0.1:${port} is a node of a Cluster, and redis names one Redis: (MOVED|CROSSSLOT) .*\\. Give { cluster: \\[...\\] } with some of its nodes, or a client of a Cluster\\.$`),
    });
  });
});

describe.each(['ioredis', 'redis'] as const)('by %s', (client) => {
  it('a server that wants a password is told to want one', async () => {
    await using redis = await startRedis({ args: ['--requirepass', 'secret'] });
    await expect(boot({ port: redis.port }, client)).rejects.toMatchObject({ retryable: false, message: expect.stringMatching(/:\d+ wants a password, and the 'redis' option has none: NOAUTH .*\. Put one into the URL/) });
  });

  it('a replica is told to be one when the boot has no time left', async () => {
    await using master = await startRedis();
    await using replica = await startRedis({ args: ['--replicaof', '127.0.0.1', String(master.port)] });
    await expect(boot(replica.url, client, 1_500)).rejects.toMatchObject({ message: expect.stringMatching(/ is a replica, which refuses writes: READONLY .*\. Give the address of its master/) });
  });
});

it('a server that waits to vote in a Redlock is told so where it is given alone, in place of refusing all locks for years', async () => {
  await using redis = await startRedis();
  await expect(boot([redis.url, 'redis://127.0.0.1:1', 'redis://127.0.0.1:2'], 'ioredis', 500)).rejects.toMatchObject({ code: 'LOCK_STORE' });
  await expect(boot(redis.url, 'ioredis', 500)).rejects.toMatchObject({ retryable: false, message: expect.stringContaining('delete the keys {lock:*}:f') });
});

describe('a Cluster whose nodes do not name their hosts', () => {
  const target = () => ({ cluster: nameless.masters.map(({ url }) => url) });

  it.each(['ioredis', 'redis'] as const)('can be used by %s', async (client) => {
    const app = await boot(target(), client);
    await expect(app.get(LockService).withLock('k', () => 'done')).resolves.toBe('done');
  });
});

describe('bootTimeoutMs', () => {
  it.each(['ioredis', 'redis'] as const)('is a bound, also for a server that falls silent in the middle of the boot, by %s', async (client) => {
    await using redis = await startRedis();
    const connectedFirst = jest.spyOn(WireFormat.prototype, 'agree').mockImplementation(() => new Promise(() => undefined));
    try {
      const refused = boot(redis.url, client, 700).catch((error: unknown) => error);
      expect(await refused).toMatchObject({ code: 'LOCK_STORE', message: expect.stringContaining('could not be reached within 700 ms: no answer') });
      expect(connectedFirst).toHaveBeenCalledTimes(1);
    } finally {
      connectedFirst.mockRestore();
    }
  });
});
