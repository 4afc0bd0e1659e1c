/** Grants that came as messages: which memory of the server made them decides whether a lease that is not there was lost or forgotten. */
import { describe, expect, it } from '@jest/globals';
import type { Wake } from '../../../lib/core/port/lock-store.js';
import type { LockService } from '../../../lib/lock.service.js';
import { RedisKeys } from '../../../lib/stores/wire/redis-keys.js';
import { acquireRequest } from '../../support/acquire-request.js';
import { eventually } from '../../support/eventually.js';
import { startRedis } from '../../support/redis-server.js';
import { closeStores, openLocks as openLocksOn, openRedisStore } from '../../support/redis-store.js';
import { forEachTest } from '../../support/started.js';

const keys = new RedisKeys('lock');
const RECOVERY_MS = 1_000;

const server = forEachTest(startRedis, closeStores);

const openLocks = (process: string): Promise<LockService> => openLocksOn(server.url, process, { recoveryMs: RECOVERY_MS });

describe('A forced release of a lock that was granted by a message', () => {
  it.each([true, false])('is final: its holder is told that it lost the lease, with renew: %s', async (renew) => {
    const [a, b, operator] = [await openLocks('a'), await openLocks('b'), await openLocks('operator')];
    const first = await a.acquire('k');
    const waiting = b.acquire('k', { renew });
    await eventually(async () => expect((await operator.inspect('k')).waiters).toHaveLength(1));
    await first.release();
    const held = await waiting;
    expect(await operator.forceRelease('k')).toBe(true);
    await eventually(() => expect(held.signal.aborted).toBe(true));
    expect((await operator.inspect('k')).holders).toEqual([]);
    expect(await held.release()).toBe('lost');
  });
});

describe('A message of a grant', () => {
  async function serverNow(): Promise<number> {
    const [seconds, micros] = (await server.command('TIME')) as [string, string];
    return Number(seconds) * 1_000 + Math.floor(Number(micros) / 1_000);
  }

  it('that comes when it is known already that the server forgot it makes a lease that is brought back', async () => {
    const [a, b] = [await openRedisStore(server.url, 'a', { recoveryMs: RECOVERY_MS }), await openRedisStore(server.url, 'b', { recoveryMs: RECOVERY_MS })];
    const held = acquireRequest({ key: 'k', id: 'a.1' });
    expect((await a.acquire(held)).kind).toBe('granted');
    const waiting = acquireRequest({ key: 'k', id: 'b.1' });
    expect((await b.acquire(waiting)).kind).toBe('waiting');
    const wakes: Wake[] = [];
    b.onWake((wake) => wakes.push(wake));
    const grantedAt = await serverNow();
    const fence = Number(String(await server.command('GET', keys.spotOf('k').fenceKey)).split(' ')[0]) + 1;
    await server.command('FLUSHALL');
    await eventually(() => expect(b.recovery.recoversForMs).toBeGreaterThan(0));
    // What the server published when it let this waiter in, just before it was flushed.
    await server.command('PUBLISH', keys.channel('b'), `g b.1 ${fence} 1 w ${grantedAt + 1_500} 1500 0 k`);
    await eventually(() => expect(wakes).toContainEqual(expect.objectContaining({ kind: 'granted', id: 'b.1' })));
    const { grant } = wakes.find(({ kind }) => kind === 'granted') as Extract<Wake, { kind: 'granted' }>;
    const lease = { isHeld: true, isReleased: false, mode: grant.mode, firstFence: fence, fences: 1, owner: undefined, permits: undefined, label: undefined, minHoldUntil: 0 };
    const { trustedUntil, memory } = grant;
    expect(await b.renew([{ ...waiting, held: { ...lease, trustedUntil, memory } }])).toMatchObject([{ kind: 'renewed' }]);
    expect((await a.inspect('k')).holders).toMatchObject([{ id: 'b.1', fence }]);
  });
});
