/** Redlock nodes on real servers that are wrong, asked again or sent late copies: what the boot says, and what a lock costs. `simulated-nodes` has the rest. */
import { execFile } from 'node:child_process';
import { dirname } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { systemClock } from '../../../lib/core/port/clock.js';
import type { AcquireOutcome, AcquireRequest, LockStore } from '../../../lib/core/port/lock-store.js';
import { LockService } from '../../../lib/lock.service.js';
import { leastRule } from '../../../lib/stores/redis/boot-probe.js';
import { RedisKeys } from '../../../lib/stores/wire/redis-keys.js';
import { acquireRequest, newId } from '../../support/acquire-request.js';
import { builtPackage } from '../../support/built-package.js';
import { eventually } from '../../support/eventually.js';
import { startFlakyProxy, type FlakyProxy } from '../../support/flaky-proxy.js';
import type { RedisServer } from '../../support/redis-server.js';
import { makeRedlock, openRedlock, startVoters } from '../../support/redlock-store.js';
import { forEachTest } from '../../support/started.js';

const masters = forEachTest(() => startVoters(5), () => undefined);

const ask = (store: LockStore, how: Partial<AcquireRequest> = {}): Promise<AcquireOutcome> =>
  store.acquire(acquireRequest({ key: 'order:1', leaseMs: 3_000, queue: false, notAfter: systemClock.now() + 2_000, ...how }));

/** Locks that stand on any node, also such that no quorum knows of. */
async function standing(): Promise<number> {
  return (await Promise.all(masters.map((master) => master.command('KEYS', '{lock:*}:l:*') as Promise<string[]>))).flat().length;
}

describe('At boot', () => {
  it('a Cluster is no node', () => {
    const cluster = { cluster: [{ host: '127.0.0.1', port: masters[0]!.port }] };
    expect(() => makeRedlock([cluster, masters[1]!.url, masters[2]!.url] as string[], 'p')).toThrow(/not a Cluster/);
  });

  it('the least access rule is enough, and a node on which the user may not ask who the server is says so', async () => {
    const rule = leastRule('lock').split(' ');
    const urls = masters.map(({ port }) => `redis://locker:secret@127.0.0.1:${port}`);
    const allow = (master: RedisServer, rights: readonly string[]) => master.command('ACL', 'SETUSER', 'locker', 'reset', 'resetchannels', 'on', '>secret', ...rights);
    for (const master of masters) await allow(master, rule);
    await makeRedlock(urls, 'p').open();
    await allow(masters[4]!, rule.filter((each) => each !== '+info'));
    const refused = { code: 'LOCK_STORE', retryable: false, message: expect.stringContaining('missing: +info.') };
    await expect(makeRedlock(urls, 'q').open()).rejects.toMatchObject(refused);
  });
});

describe('A request that is made again', () => {
  it('stands on the nodes under a new name, so that a late release of the first attempt cannot touch it', async () => {
    const store = await openRedlock(masters, 'p');
    const ref = { key: 'order:1', id: newId() };
    const nameOnNode = async (): Promise<string> => {
      const [lockKey] = (await masters[0]!.command('KEYS', '*:l:order:1')) as string[];
      return String(await masters[0]!.command('GET', lockKey!)).split(' ')[2]!;
    };
    await ask(store, ref);
    const first = await nameOnNode();
    await store.release(ref);
    await eventually(async () => expect(await standing()).toBe(0));
    await ask(store, ref);
    expect(first.startsWith(`${ref.id}/`)).toBe(true);
    expect(await nameOnNode()).not.toBe(first);
    expect((await store.inspect(ref.key)).holders).toMatchObject([{ id: ref.id }]);
  });
});

/** From somebody who may publish. */
describe('A message of each node that the lock was taken away', () => {
  const keys = new RedisKeys('lock');
  let locks: LockService;
  beforeEach(async () => {
    locks = new LockService({ store: await openRedlock(masters, 'p'), process: 'p', shutdownGraceMs: 0 });
  });
  afterEach(async () => {
    await eventually(async () => expect((await locks.inspect('k')).holders).toEqual([]));
    await locks.close();
  });

  /** The first end of the lease on the nodes, in their time. */
  async function firstEnd(): Promise<number> {
    const { lockKey } = keys.spotOf('k');
    const ends = await Promise.all(masters.map(async (master) => Number(String(await master.command('GET', lockKey)).slice(4, 17))));
    return Math.min(...ends);
  }

  it.each([true, false])('ends no hold that the nodes have, with renew: %s', async (renew) => {
    const lease = await locks.acquire('k', { renew, leaseMs: 30_000 });
    const before = await firstEnd();
    for (const master of masters) {
      const [, , ballot] = String(await master.command('GET', keys.spotOf('k').lockKey)).split(' ');
      await master.command('PUBLISH', keys.channel('p'), `l ${ballot} k`);
    }
    // It has looked.
    if (renew) await eventually(async () => expect(await firstEnd()).toBeGreaterThan(before));
    expect(await lease.verify()).toBe(true);
    expect(lease.signal.reason).toBeUndefined();
    expect(await lease.release()).toBe('released');
  });

  it('ends a hold that was taken away', async () => {
    const lease = await locks.acquire('k');
    const lost = new Promise((resolve) => lease.signal.addEventListener('abort', resolve));
    expect(await locks.forceRelease('k')).toBe(true);
    await lost;
    expect(await lease.release()).toBe('lost');
  });
});

describe('A forced release on a Redlock', () => {
  const COMMAND_TIMEOUT_MS = 1_000;
  let proxies: FlakyProxy[];
  let operator: LockService;
  let locks: LockService;
  beforeEach(async () => {
    proxies = await Promise.all(masters.map(({ port }) => startFlakyProxy(port)));
    operator = await locksOn(proxies, 'operator');
    locks = await locksOn(masters, 'p');
  });
  afterEach(async () => {
    await Promise.all([operator.close(), locks.close()]);
    await Promise.all(proxies.map((proxy) => proxy.stop()));
  });

  async function locksOn(nodes: readonly { readonly url: string }[], process: string): Promise<LockService> {
    const store = makeRedlock(nodes.map(({ url }) => url), process, { commandTimeoutMs: COMMAND_TIMEOUT_MS });
    await store.open();
    return new LockService({ store, process, commandTimeoutMs: COMMAND_TIMEOUT_MS });
  }

  const holdersOnFirst = async (): Promise<unknown> => masters[0]!.client().keys('*}:l:k');

  it('A copy that reaches a node after its time does not take the vote of the next holder', async () => {
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
  });

  it('Without a quorum of answers, one of all holders is not to be made again without a look, and one that names a fence is', async () => {
    const { fence } = await locks.acquire('k');
    for (const proxy of proxies.slice(1)) proxy.dropReplies(true);
    const [ofAll, ofOne] = [operator.forceRelease('k'), operator.forceRelease('k', { fence })];
    await expect(ofAll).rejects.toMatchObject({ code: 'LOCK_STORE', retryable: false, message: expect.stringMatching(/no quorum .* look with inspect\(\), and name the fence of the holder that is meant\.$/) });
    await expect(ofOne).rejects.toMatchObject({ code: 'LOCK_STORE', retryable: true, message: expect.stringContaining('safe to try again') });
    for (const proxy of proxies.slice(1)) proxy.dropReplies(false);
  });
});

/** In commands, counted by the nodes, and calls, counted in a process of its own. */
describe('A lock of a Redlock that nobody else wants', () => {
  /** How many scripts the masters have run since their statistics were reset. */
  async function scriptCalls(): Promise<number> {
    const stats = await Promise.all(masters.map((master) => master.command('INFO', 'commandstats')));
    return stats.flatMap((text) => [...String(text).matchAll(/cmdstat_eval(?:sha)?:calls=(\d+)/g)]).reduce((sum, [, calls]) => sum + Number(calls), 0);
  }

  /** So many callers take a lock of their own again and again. Resolves with the commands that one cycle took. */
  async function commandsOf(callers: number, cycles: number): Promise<number> {
    const service = new LockService({ store: await openRedlock(masters, `p${callers}`, { clock: systemClock }), process: `p${callers}`, waitMs: 20_000 });
    const run = (turns: number): Promise<unknown> =>
      Promise.all(
        Array.from({ length: callers }, async (_, caller) => {
          for (let turn = 0; turn < turns; turn++) await service.withLock(`order:${caller}`, async () => undefined);
        }),
      );
    await run(1);
    for (const master of masters) await master.command('CONFIG', 'RESETSTAT');
    await run(cycles);
    await service.close();
    return (await scriptCalls()) / (callers * cycles);
  }

  it('costs two commands to each node', async () => expect(await commandsOf(1, 100)).toBe(10));

  it('costs a quarter of that with 32 callers, who share commands', async () => expect(await commandsOf(32, 20)).toBeLessThanOrEqual(2.5));

  it('makes no more calls and promises, reads the clock no more often and sets no more timers than it did', async () => {
    const ports = masters.map(({ url }) => new URL(url).port).join(',');
    const env = { ...process.env, HOLDFAST_DIST: dirname(builtPackage()), NODE_OPTIONS: '' };
    const { stdout } = await promisify(execFile)(process.execPath, ['scripts/count-calls.mjs', ports, 'redlock', '1'], { env });
    const { calls, promises, clockReads, timersSet } = JSON.parse(stdout) as Record<string, number>;
    expect(calls).toBeGreaterThan(300);
    expect(calls).toBeLessThanOrEqual(560);
    expect(promises).toBeLessThanOrEqual(33);
    expect(clockReads).toBeLessThanOrEqual(18);
    expect(timersSet).toBeLessThanOrEqual(0.5);
  });
});
