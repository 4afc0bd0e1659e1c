/** What the store makes of the errors of ioredis. */
import { describe, expect, it } from '@jest/globals';
import { systemClock } from '../../../lib/core/port/clock.js';
import { DamagedLocks } from '../../../lib/stores/wire/damaged-locks.js';
import { listLocks } from '../../../lib/stores/redis/lock-listing.js';
import type { Connections } from '../../../lib/stores/wire/connections.js';
import { RedisKeys } from '../../../lib/stores/wire/redis-keys.js';
import type { ScriptRunner } from '../../../lib/stores/wire/script-runner.js';
import { isTryAgain } from '../../../lib/stores/wire/store-failure.js';

describe('a command for several keys', () => {
  it.each([
    ['TRYAGAIN Multiple keys request during rehashing of slot', true],
    ['Too many Cluster redirections. Last error: ReplyError: MOVED 12 127.0.0.1:7001', true],
    ['Too many Cluster redirections. Last error: ReplyError: CLUSTERDOWN The cluster is down', false],
    ['CLUSTERDOWN Hash slot not served', false],
  ])('%s: is sent again key by key: %s', (message, again) => {
    expect(isTryAgain(new Error(message))).toBe(again);
  });
});

describe('a walk over all locks', () => {
  it('is told that no master is there, and not that there are no locks', async () => {
    const connections = { node: 'the Cluster', masters: () => [] } as unknown as Connections;
    const walk = listLocks({} as ScriptRunner, connections, new RedisKeys('lock'), '', () => Promise.reject(new Error('never asked')), new DamagedLocks(() => {}, systemClock));
    await expect(walk.next()).rejects.toMatchObject({ code: 'LOCK_STORE', retryable: true, message: expect.stringContaining('list failed on the Cluster: not connected') });
  });
});
