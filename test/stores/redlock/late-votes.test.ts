/** A vote that reaches its node when the lock was long given back: for how long it stands there for nobody. */
import { afterAll, afterEach, beforeAll, expect, it } from '@jest/globals';
import { systemClock } from '../../../lib/core/port/clock.js';
import { LockService } from '../../../lib/lock.service.js';
import { eventually } from '../../support/eventually.js';
import { startFlakyProxy, type FlakyProxy } from '../../support/flaky-proxy.js';
import { startRedis, type RedisServer } from '../../support/redis-server.js';
import { admitAll, closeRedlocks, makeRedlock } from '../../support/redlock-store.js';

let masters: RedisServer[];
let proxy: FlakyProxy;
beforeAll(async () => {
  masters = await Promise.all([startRedis(), startRedis(), startRedis()]);
  await admitAll(masters);
  proxy = await startFlakyProxy(masters[0]!.port);
});
afterEach(closeRedlocks);
afterAll(async () => {
  await proxy.stop();
  await Promise.all(masters.map((master) => master.stop()));
});

/** What stands on the node behind the proxy. */
async function lockKeys(key: string): Promise<readonly string[]> {
  return masters[0]!.client().keys(`*}:l:${key}`);
}

async function processBehindTheProxy(clock = systemClock): Promise<LockService> {
  const store = makeRedlock([proxy.url, masters[1]!.url, masters[2]!.url], 'p', { clock });
  await store.open();
  return new LockService({ store, process: 'p', clock });
}

/** Until the node behind the proxy votes, on whatever connection. */
async function untilItVotes(locks: LockService): Promise<void> {
  let tries = 0;
  await eventually(async () => locks.withLock(`probe:${++tries}`, async () => expect(await lockKeys(`probe:${tries}`)).toHaveLength(1)));
}

it('A vote that was held up does not stand on its node for nobody after the hold', async () => {
  const locks = await processBehindTheProxy();
  await untilItVotes(locks);
  proxy.holdUp();
  await locks.withLock('k1', async () => {
    await eventually(() => expect(proxy.bytesHeldUp).toBeGreaterThan(0));
    proxy.loseHeldUp();
    await untilItVotes(locks);
  });
  // It has answered to the release, and to what was sent when that was answered.
  await untilItVotes(locks);
  await untilItVotes(locks);
  await proxy.deliverHeldUp();
  await eventually(async () => expect(await lockKeys('k1')).toEqual([]), 1_000);
  await locks.close();
});

it('A vote that is asked for after minutes of silence does nothing when it comes late', async () => {
  let idleMs = 0;
  const clock = { ...systemClock, now: () => systemClock.now() + idleMs };
  const locks = await processBehindTheProxy(clock);
  await untilItVotes(locks);
  idleMs = 300_000;
  proxy.holdUp();
  await locks.withLock('k2', async () => {
    await eventually(() => expect(proxy.bytesHeldUp).toBeGreaterThan(0));
    proxy.loseHeldUp();
  });
  await locks.close();
  await proxy.deliverHeldUp();
  expect(await lockKeys('k2')).toEqual([]);
});
