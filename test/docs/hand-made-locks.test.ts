import { readFileSync } from 'node:fs';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { Injectable, Module } from '@nestjs/common';
import { Test, type TestingModule } from '@nestjs/testing';
import { Locked, LockModule, LockService, type LockModuleOptions } from '../../lib/index.js';
import { eventually } from '../support/eventually.js';
import { startMasters, startRedis, type RedisServer } from '../support/redis-server.js';
import { admitAll } from '../support/redlock-store.js';

@Injectable()
class Draw {
  drawn = 0;

  @Locked('nightly-draw', { onBusy: 'skip', minHoldMs: 2_000 })
  async draw(): Promise<void> {
    this.drawn += 1;
  }
}

describe('Instead of', () => {
  let redis: RedisServer;
  const modules: TestingModule[] = [];
  const servers: RedisServer[] = [];

  beforeAll(async () => {
    redis = await startRedis();
  });

  afterEach(async () => {
    await Promise.all(modules.splice(0).map((module) => module.close()));
    await Promise.all(servers.splice(0).map((server) => server.stop()));
    await redis.command('FLUSHALL');
  });

  afterAll(async () => redis.stop());

  /** One instance of an application. */
  async function instance(options: LockModuleOptions = {}): Promise<TestingModule> {
    class App {}
    Module({ imports: [LockModule.forRoot({ redis: redis.url, ...options })], providers: [Draw] })(App);
    const module = await Test.createTestingModule({ imports: [App] }).compile();
    await module.init();
    modules.push(module);
    return module;
  }

  async function locksOf(options?: LockModuleOptions): Promise<LockService> {
    return (await instance(options)).get(LockService);
  }

  it('SETNX, then EXPIRE; GETSET with a client timestamp', async () => {
    const locks = await locksOf();
    const lease = await locks.acquire('k', { leaseMs: 5_000 });
    const [key] = (await redis.command('KEYS', '*:l:k')) as string[];
    expect(await redis.command('PTTL', key!)).toBeGreaterThan(4_000);
    await lease.release();
    expect(await redis.command('EXISTS', key!)).toBe(0);
  });

  it('SET key 1 EX NX, DEL', async () => {
    const [late, next] = [await locksOf(), await locksOf()];
    const old = await late.acquire('k', { leaseMs: 300, renew: false });
    const lease = await next.acquire('k');
    expect(await old.release()).toBe('lost');
    expect(await old.release()).toBe('lost');
    expect(await lease.verify()).toBe(true);
    expect(await lease.release()).toBe('released');
  });

  it('tryLock(seconds): polling with an interval and a number of tries', async () => {
    const [one, two] = [await locksOf(), await locksOf()];
    const lease = await one.acquire('k');
    expect(await two.tryAcquire('k')).toBeNull();
    await expect(two.acquire('k', { waitMs: 100 })).rejects.toMatchObject({ code: 'LOCK_TIMEOUT', waitMs: 100 });
    await expect(two.acquire('k', { signal: AbortSignal.timeout(100) })).rejects.toMatchObject({ name: 'TimeoutError' });
    const waiting = two.acquire('k');
    await eventually(async () => expect((await one.inspect('k')).waiters).toHaveLength(1));
    await lease.release();
    await (await waiting).release();
  });

  it('a watchdog thread at two thirds of the lock time, EXPIRE if still mine', async () => {
    const [hung, next] = [await locksOf(), await locksOf()];
    const lease = await hung.acquire('k', { leaseMs: 300, maxHoldMs: 900 });
    const since = performance.now();
    const granted = await next.acquire('k');
    expect(performance.now() - since).toBeGreaterThan(600);
    expect(lease.signal.aborted).toBe(true);
    await granted.release();
  });

  it('re-entrant: a hash of thread id → count', async () => {
    const [one, two] = [await locksOf(), await locksOf()];
    await one.withLock('k', (outer) => one.withLock('k', async (inner) => expect(inner.fence).toBe(outer.fence)));
    const first = await one.acquire('k', { owner: 'saga' });
    const second = await two.acquire('k', { owner: 'saga' });
    expect(second.fence).toBe(first.fence);
    await first.release();
    expect(await two.isLocked('k')).toBe(true);
    await second.release();
    expect(await two.isLocked('k')).toBe(false);
  });

  it('ThreadLocal count in front of a string key', async () => {
    const locks = await locksOf();
    let leftover!: Promise<unknown>;
    let end!: () => void;
    const ended = new Promise<void>((resolve) => (end = resolve));
    await locks.withLock('k', async () => {
      leftover = ended.then(() => locks.currentLease('k'));
      expect(locks.currentLease('k')).toBeDefined();
    });
    end();
    expect(await leftover).toBeUndefined();
  });

  it('isLocking(key, value)', async () => {
    const locks = await locksOf();
    await locks.withLock('k', async (lease) => {
      expect(await locks.isLocked('k')).toBe(true);
      expect((await locks.inspect('k')).holders[0]?.fence).toBe(lease.fence);
      expect(await lease.verify()).toBe(true);
      expect(locks.assertLocked('k')).toBeDefined();
      await locks.forceRelease('k');
      await eventually(() => expect(lease.signal.aborted).toBe(true));
    }).catch((error: unknown) => expect(error).toMatchObject({ code: 'LOCK_LOST' }));
    expect(() => locks.assertLocked('k')).toThrow();
  });

  it('read-write lock with a read key and a write key in one script', async () => {
    const [one, two, writer] = [await locksOf(), await locksOf(), await locksOf()];
    const readers = [await one.acquire('k', { mode: 'read' }), await two.acquire('k', { mode: 'read' })];
    await readers[0]!.release();
    expect(await writer.tryAcquire('k')).toBeNull();
    await readers[1]!.release();
    await (await writer.acquire('k')).release();
  });

  it('read-write lock as a hash with read and write timestamps', async () => {
    const [one, two, writer] = [await locksOf(), await locksOf(), await locksOf()];
    const long = await one.acquire('k', { mode: 'read', leaseMs: 5_000, renew: false });
    await two.acquire('k', { mode: 'read', leaseMs: 200, renew: false });
    await eventually(async () => expect((await writer.inspect('k')).holders).toHaveLength(1));
    expect(await long.verify()).toBe(true);
    await long.release();
  });

  it('write lock while holding the read lock', async () => {
    const locks = await locksOf();
    await locks.withLock('k', { mode: 'read' }, async () => {
      await expect(locks.withLock('k', async () => {})).rejects.toMatchObject({ code: 'LOCK_USAGE' });
    });
    await locks.withLock('k', () => locks.withLock('k', { mode: 'read' }, async (lease) => expect(lease.holdCount).toBe(1)));
  });

  it('routeRedis(key): one of several Redises by key', async () => {
    const other = await startRedis();
    servers.push(other);
    class App {}
    Module({
      imports: [
        LockModule.forRoot({ redis: redis.url, name: 'first' }),
        LockModule.forRoot({ redis: other.url, name: 'second' }),
        LockModule.forRoot({ route: (key) => (key.startsWith('a') ? 'first' : 'second') }),
      ],
    })(App);
    const module = await Test.createTestingModule({ imports: [App] }).compile();
    await module.init();
    modules.push(module);
    const locks = module.get(LockService);
    await locks.withLock('a:1', async () => {
      expect(await redis.command('KEYS', '*:l:a:1')).toHaveLength(1);
      expect(await other.command('KEYS', '*:l:a:1')).toHaveLength(0);
    });
    await expect(locks.acquire(['a:1', 'b:1'])).rejects.toMatchObject({ code: 'LOCK_USAGE' });
  });

  it('Redlock loop: quorum, drift, validity, random delay, release on all', async () => {
    const masters = await startMasters(3);
    servers.push(...masters);
    await admitAll(masters);
    const locks = await locksOf({ redis: masters.map(({ url }) => url) });
    const lease = await locks.acquire('k');
    await masters[0]!.kill();
    await lease.renew();
    lease.assertHeld();
    await lease.release();
  });

  it('delayed restart of a crashed Redlock node, by an operator', async () => {
    const masters = await startMasters(3);
    servers.push(...masters);
    const locks = await locksOf({ redis: masters.map(({ url }) => url), maxLeaseMs: 2_000, leaseMs: 1_000 });
    const lease = await locks.acquire('k', { renew: false });
    // One of the two or three that granted forgets; another client must not find a quorum before the lease has ended.
    await masters[0]!.restart({ keepData: false });
    await masters[1]!.restart({ keepData: false });
    const since = performance.now();
    const next = await locks.detached(() => locks.acquire('k'));
    expect(lease.remainingMs).toBe(0);
    expect(performance.now() - since).toBeGreaterThan(500);
    expect(next.fence).toBeGreaterThan(lease.fence);
    await next.release();
  });

  it("Redisson's RLock", async () => {
    const [one, two] = [await locksOf(), await locksOf()];
    const lease = await one.acquire('k', { leaseMs: 300 });
    await expect(two.acquire('k', { waitMs: 900 })).rejects.toMatchObject({ code: 'LOCK_TIMEOUT' });
    expect(await lease.release()).toBe('released');
  });

  it('the nightly draw that only one of the instances may run', async () => {
    const instances = [await instance(), await instance(), await instance()];
    // The clocks of the three differ: each fires after the one before has finished.
    for (const one of instances) await one.get(Draw).draw();
    expect(instances.map((one) => one.get(Draw).drawn)).toEqual([1, 0, 0]);
  });
});

it('Each row of the page has its test', () => {
  const rows = readFileSync('docs/migration.md', 'utf8').split('## From locks made by hand')[1]!.split('\n').filter((line) => line.startsWith('| ')).slice(2);
  const tests = readFileSync('test/docs/hand-made-locks.test.ts', 'utf8');
  for (const row of rows) expect(tests).toContain(row.split(' | ')[0]!.slice(2));
});
