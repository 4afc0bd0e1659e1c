/** A server that is far away: a command fits into commandTimeoutMs, and the several exchanges of a new connection do not. */
import { describe, expect, it } from '@jest/globals';
import { LockService } from '../../../lib/lock.service.js';
import { RedisStore } from '../../../lib/stores/redis/redis-store.js';
import type { ClientPackage } from '../../../lib/stores/wire/redis-target.js';
import { eventually } from '../../support/eventually.js';
import { startFlakyProxy } from '../../support/flaky-proxy.js';
import { startRedis } from '../../support/redis-server.js';
import { forAll } from '../../support/started.js';
import { USUAL_OPTIONS } from '../../support/store-options.js';
import { connectBy } from '../../support/test-client.js';

const ONE_WAY_MS = 120;
const COMMAND_TIMEOUT_MS = 400;

const server = forAll(startRedis);
const proxy = forAll(() => startFlakyProxy(server.port));

describe.each<ClientPackage>(['ioredis', 'redis'])('With %s and a server that is far away', (client) => {
  it('C3: a process connects again when its connections were reset', async () => {
    const connection = connectBy(proxy.url, client);
    const store = new RedisStore({ ...USUAL_OPTIONS, recoveryMs: 1_000, commandTimeoutMs: COMMAND_TIMEOUT_MS, connection, process: 'p' });
    const locks = new LockService({ store, process: 'p' });
    await locks.open();
    proxy.delay(ONE_WAY_MS);
    proxy.resetConnections();
    await locks.withLock('k', (lease) => lease.assertHeld());
    await eventually(async () => expect(await server.command('PUBSUB', 'CHANNELS', '{lock}:c:p')).toEqual(['{lock}:c:p']));
    await locks.close();
    proxy.delay(0);
  });
});
