/** Requests that lay in an old connection and arrive long after their callers had an answer, or were told that there is none. */
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { systemClock } from '../../../lib/core/port/clock.js';
import type { LockStoreError } from '../../../lib/core/port/errors.js';
import { LockService } from '../../../lib/lock.service.js';
import { eventually } from '../../support/eventually.js';
import { startFlakyProxy, type FlakyProxy } from '../../support/flaky-proxy.js';
import { startRedis } from '../../support/redis-server.js';
import { closeStores, openRedisStore } from '../../support/redis-store.js';
import { forAll } from '../../support/started.js';

const COMMAND_TIMEOUT_MS = 300;

let proxy: FlakyProxy;
/** Behind the proxy. */
let far: LockService;
/** Beside it. */
let near: LockService;
let idleMs = 0;

async function locksOn(url: string, process: string): Promise<LockService> {
  const clock = { ...systemClock, now: () => systemClock.now() + idleMs };
  const store = await openRedisStore(url, process, { commandTimeoutMs: COMMAND_TIMEOUT_MS, clock });
  return new LockService({ store, process, clock, commandTimeoutMs: COMMAND_TIMEOUT_MS });
}

const server = forAll(startRedis);
beforeEach(async () => {
  idleMs = 0;
  proxy = await startFlakyProxy(server.port);
  far = await locksOn(proxy.url, 'far');
  near = await locksOn(server.url, 'near');
  await far.withLock('warm', async () => {});
});
afterEach(async () => {
  await Promise.all([far.close(), near.close()]);
  await closeStores();
  await proxy.stop();
});

/** Sends what stays on its way, in a connection whose end the client sees. */
async function heldUp<T>(act: () => Promise<T>): Promise<T> {
  proxy.holdUp();
  const acting = act();
  acting.catch(() => {});
  await eventually(() => expect(proxy.bytesHeldUp).toBeGreaterThan(0));
  proxy.loseHeldUp();
  return acting;
}

const pastItsTime = (): Promise<void> => new Promise((resolve) => void setTimeout(resolve, COMMAND_TIMEOUT_MS + 50));

async function failure(promise: Promise<unknown>): Promise<LockStoreError> {
  const error = await promise.then(() => undefined, (reason: unknown) => reason as LockStoreError);
  expect(error).toMatchObject({ code: 'LOCK_STORE', key: 'k' });
  return error!;
}

describe('A forced release that arrives late', () => {
  it.each([['', 0], [', from a process that had heard nothing of the server for minutes', 300_000]])('does not touch the next holder%s', async (_, silentMs) => {
    const hung = await near.acquire('k');
    idleMs = silentMs;
    await failure(heldUp(() => far.forceRelease('k')));
    idleMs = 0;
    await hung.release();
    const next = await near.acquire('k');
    await pastItsTime();
    await proxy.deliverHeldUp();
    expect(await next.verify()).toBe(true);
    await next.release();
  });

  it('from a process that had heard nothing of the server for minutes is made when it has', async () => {
    const hung = await near.acquire('k');
    idleMs = 300_000;
    expect(await far.forceRelease('k', { fence: hung.fence })).toBe(true);
    expect((await far.inspect('k')).mode).toBeNull();
  });
});

describe('A call whose answer comes while the event loop is blocked', () => {
  it.each([0, 500])('is served, although its waitMs of %i ms is over by then', async (waitMs) => {
    const ran = near.withLock('k', { waitMs }, () => 'ran');
    await new Promise(setImmediate);
    for (const until = performance.now() + 1_000; performance.now() < until; );
    expect(await ran).toBe('ran');
  });
});

describe('A forced release without an answer', () => {
  it('of all holders says that the lock may have another holder now, and is not to be made again without a look', async () => {
    await near.acquire('k');
    proxy.dropReplies(true);
    const error = await failure(far.forceRelease('k'));
    proxy.dropReplies(false);
    expect(error.retryable).toBe(false);
    expect(error.message).toContain('The outcome is not known, and another holder may have the lock now: look with inspect(), and name the fence of the holder that is meant.');
    expect(error.message).not.toContain('safe to try again');
  });

  it('of one holder is safe to make again, because no other holder has its fence', async () => {
    const hung = await near.acquire('k');
    const waiting = near.acquire('k', { waitMs: 5_000 });
    proxy.dropReplies(true);
    const error = await failure(far.forceRelease('k', { fence: hung.fence }));
    proxy.dropReplies(false);
    expect(error).toMatchObject({ retryable: true, message: expect.stringContaining('it is safe to try again') });
    const next = await waiting;
    await eventually(async () => expect(await far.forceRelease('k', { fence: hung.fence })).toBe(false));
    expect(await next.verify()).toBe(true);
    await next.release();
  });
});
