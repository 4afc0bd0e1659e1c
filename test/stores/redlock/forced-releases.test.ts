/** A forced release on a Redlock: what becomes of a copy that reaches a node late, and what is said when no quorum answers. */
import { afterAll, afterEach, beforeAll, expect, it } from '@jest/globals';
import { LockService } from '../../../lib/lock.service.js';
import { eventually } from '../../support/eventually.js';
import { startFlakyProxy, type FlakyProxy } from '../../support/flaky-proxy.js';
import { startRedis, type RedisServer } from '../../support/redis-server.js';
import { admitAll, closeRedlocks, makeRedlock } from '../../support/redlock-store.js';

const COMMAND_TIMEOUT_MS = 300;

let masters: RedisServer[];
let proxies: FlakyProxy[];
beforeAll(async () => {
  masters = await Promise.all([startRedis(), startRedis(), startRedis()]);
  await admitAll(masters);
  proxies = await Promise.all(masters.map(({ port }) => startFlakyProxy(port)));
});
afterEach(closeRedlocks);
afterAll(async () => {
  await Promise.all(proxies.map((proxy) => proxy.stop()));
  await Promise.all(masters.map((master) => master.stop()));
});

async function locksOn(urls: readonly string[], process: string): Promise<LockService> {
  const store = makeRedlock([...urls], process, { commandTimeoutMs: COMMAND_TIMEOUT_MS });
  await store.open();
  return new LockService({ store, process, commandTimeoutMs: COMMAND_TIMEOUT_MS });
}

const holdersOnFirst = async (): Promise<unknown> => masters[0]!.client().keys('*}:l:k');

it('A copy that reaches a node after its time does not take the vote of the next holder', async () => {
  const [operator, locks] = [await locksOn(proxies.map(({ url }) => url), 'operator'), await locksOn(masters.map(({ url }) => url), 'p')];
  await operator.withLock('warm', async () => {});
  const hung = await locks.acquire('k');
  const [proxy] = proxies as [FlakyProxy];
  await eventually(async () => expect(await operator.forceRelease('nobody')).toBe(false));
  proxy.holdUp();
  expect(await operator.forceRelease('k')).toBe(true);
  await eventually(() => expect(proxy.bytesHeldUp).toBeGreaterThan(0));
  proxy.loseHeldUp();
  await hung.release();
  const next = await locks.acquire('k', { waitMs: 5_000 });
  await eventually(async () => expect(await holdersOnFirst()).toHaveLength(1));
  await new Promise((resolve) => void setTimeout(resolve, COMMAND_TIMEOUT_MS + 50));
  await proxy.deliverHeldUp();
  expect(await holdersOnFirst()).toHaveLength(1);
  expect(await next.verify()).toBe(true);
  await next.release();
  await Promise.all([operator.close(), locks.close()]);
});

it('Without a quorum of answers, one of all holders is not to be made again without a look, and one that names a fence is', async () => {
  const [operator, locks] = [await locksOn(proxies.map(({ url }) => url), 'operator'), await locksOn(masters.map(({ url }) => url), 'p')];
  const { fence } = await locks.acquire('k');
  for (const proxy of proxies.slice(1)) proxy.dropReplies(true);
  const [ofAll, ofOne] = [operator.forceRelease('k'), operator.forceRelease('k', { fence })];
  await expect(ofAll).rejects.toMatchObject({ code: 'LOCK_STORE', retryable: false, message: expect.stringMatching(/no quorum .* look with inspect\(\), and name the fence of the holder that is meant\.$/) });
  await expect(ofOne).rejects.toMatchObject({ code: 'LOCK_STORE', retryable: true, message: expect.stringContaining('safe to try again') });
  for (const proxy of proxies.slice(1)) proxy.dropReplies(false);
  await Promise.all([operator.close(), locks.close()]);
});
