/** Redlock nodes that lose their memory: what they forgot is not given away, and fences go on rising. */
import { afterEach, describe, expect, it } from '@jest/globals';
import { pause, systemClock, type Clock } from '../../../lib/core/port/clock.js';
import type { AcquireOutcome, Grant, LockStore } from '../../../lib/core/port/lock-store.js';
import type { RedlockStore, RedlockStoreOptions } from '../../../lib/stores/redlock/redlock-store.js';
import { eventually } from '../../support/eventually.js';
import { startFlakyProxy, type FlakyProxy } from '../../support/flaky-proxy.js';
import { startMasters, type RedisServer } from '../../support/redis-server.js';
import { admitAll, closeRedlocks, makeRedlock, openRedlock, untilUsable, votes } from '../../support/redlock-store.js';

let masters: RedisServer[] = [];
let proxies: FlakyProxy[] = [];
afterEach(async () => {
  await closeRedlocks();
  await Promise.all(proxies.map((proxy) => proxy.stop()));
  proxies = [];
  await Promise.all(masters.map((master) => master.stop()));
});

/** Five masters that remember everything so far, which is nothing. */
async function fiveMasters(): Promise<[RedisServer, RedisServer, RedisServer, RedisServer, RedisServer]> {
  masters = await startMasters(5);
  await admitAll(masters);
  return masters as [RedisServer, RedisServer, RedisServer, RedisServer, RedisServer];
}

/** A process that reaches A, B and C only: nothing it asks for ever gets to D and E. */
async function openWithoutDAndE(options: Partial<RedlockStoreOptions>): Promise<RedlockStore> {
  const [a, b, c, d, e] = masters;
  proxies = await Promise.all([d!, e!].map(({ port }) => startFlakyProxy(port)));
  const store = makeRedlock([a!.url, b!.url, c!.url, ...proxies.map(({ url }) => url)], 'holder', options);
  await store.open();
  for (const proxy of proxies) await proxy.cut();
  return store;
}

let requests = 0;
function ask(store: LockStore, key: string, leaseMs: number, id = `p.${++requests}`): Promise<AcquireOutcome> {
  const usual = { mode: 'write', queue: false, fences: 1, minHoldMs: 0, minReplicas: 0 } as const;
  return store.acquire({ key, id, leaseMs, ...usual, notAfter: systemClock.now() + 2_000 });
}

/** Asks again and again, as core does, until granted. */
async function getsIn(store: LockStore, key: string, leaseMs: number, withinMs: number): Promise<Grant> {
  const limit = systemClock.now() + withinMs;
  for (;;) {
    const outcome = await ask(store, key, leaseMs).catch((error: Error) => error);
    if (!(outcome instanceof Error) && outcome.kind === 'granted') return outcome.grant;
    if (systemClock.now() > limit) throw new Error(`not granted within ${withinMs} ms: ${JSON.stringify(outcome)}`);
    await pause(systemClock, 30);
  }
}

const fastClock: Clock = { ...systemClock, wallNow: () => Date.now() + 3_600_000 };

describe('A Redlock node that lost its memory', () => {
  const losses: readonly [string, (node: RedisServer) => Promise<unknown>][] = [
    ['restarts empty', (node) => node.restart({ keepData: false })],
    ['is killed and comes back empty', async (node) => {
      await node.kill();
      await node.start();
    }],
    ['is flushed', (node) => node.command('FLUSHALL')],
    ['comes back with an old copy of its data', async (node) => {
      await node.command('DEL', ...((await node.command('KEYS', '*:l:order:1')) as string[])); // after the copy was made
      await node.restart({ keepData: true });
    }],
  ];

  it.each(losses)('%s: nobody is granted what it forgot before that has ended', async (_, loseMemory) => {
    const [, , c] = await fiveMasters();
    const options = { maxLeaseMs: 2_500 };
    const [holder, other] = [await openWithoutDAndE(options), await openRedlock(masters, 'other', { maxLeaseMs: 500 })];
    const outcome = await ask(holder, 'order:1', 2_500);
    if (outcome.kind !== 'granted') throw new Error(`expected a grant by A, B and C, got ${outcome.kind}`);
    await loseMemory(c);

    const next = await getsIn(other, 'order:1', 500, 10_000);
    expect(systemClock.now()).toBeGreaterThan(outcome.grant.trustedUntil);
    expect(next.fence).toBeGreaterThan(outcome.grant.fence);
  });
});

describe('Fences of a Redlock', () => {
  it('rise through restarts of all nodes, one after another, whatever the clocks of the processes say', async () => {
    await fiveMasters();
    const options = { maxLeaseMs: 400, commandTimeoutMs: 1_000 };
    let last = 0;
    for (const [turn, master] of masters.entries()) {
      // Everybody who saw a fence is gone each time; the first clock was an hour ahead of all others.
      const store = await openRedlock(masters, `p${turn}`, { ...options, clock: turn === 0 ? fastClock : systemClock });
      const { fence } = await getsIn(store, 'order:1', 300, 5_000);
      expect(fence).toBeGreaterThan(last);
      last = fence;
      await master.restart({ keepData: false });
      await eventually(async () => expect(await votes(master)).toBe(true));
      await closeRedlocks();
    }
    const store = await openRedlock(masters, 'last', options);
    expect((await getsIn(store, 'order:1', 300, 5_000)).fence).toBeGreaterThan(last);
    expect(last).toBeGreaterThan((Date.now() + 3_000_000) * 1_000);
  });

  it('are told to a node that lost its memory by a quorum of the others, so that any later quorum knows them', async () => {
    const [a, b, c] = await fiveMasters();
    const options = { maxLeaseMs: 400 };
    const store = await openWithoutDAndE({ ...options, clock: fastClock });
    const { fence } = await getsIn(store, 'order:1', 300, 5_000);
    await closeRedlocks();
    const next = await openRedlock(masters, 'next', options);
    for (const forgetful of [a, b]) {
      await forgetful.restart({ keepData: false });
      await eventually(async () => expect(await votes(forgetful)).toBe(true));
    }
    // Of those that granted it, only nodes are left that have forgotten it since.
    await c.kill();
    expect((await getsIn(next, 'order:1', 300, 5_000)).fence).toBeGreaterThan(fence);
  });

  it('are told to a majority that lost its memory by the processes that saw them', async () => {
    const [a, b, c] = await fiveMasters();
    const store = await openRedlock(masters, 'p', { maxLeaseMs: 400, clock: fastClock });
    const { fence } = await getsIn(store, 'order:1', 300, 5_000);
    const slow = await openRedlock(masters, 'slow', { maxLeaseMs: 400 });
    await Promise.all([a, b, c, masters[3]!, masters[4]!].map((master) => master.restart({ keepData: false })));
    expect((await getsIn(slow, 'order:1', 300, 10_000)).fence).toBeGreaterThan(fence);
  });

  it('are waited for where a silent node may be the only one who knows them', async () => {
    const [a, b, c] = await fiveMasters();
    const store = await openRedlock(masters, 'p', { maxLeaseMs: 300 });
    await c.pause();
    await Promise.all([a, b].map((master) => master.restart({ keepData: false })));
    const notYet = async (): Promise<void> => {
      const error = await ask(store, 'order:1', 300).catch((error: unknown) => error);
      expect(error).toMatchObject({ code: 'LOCK_STORE', retryable: true });
      expect(JSON.stringify(error)).toMatch(/the others have told it the last fences.*the others have told it the last fences/);
    };
    await eventually(notYet);
    await pause(systemClock, 1_500);
    await notYet();
    await c.resume();
    await untilUsable(store, 5_000);
  });
});
