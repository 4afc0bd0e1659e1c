/** The providers of a lock module, around a store that a test puts in the place of its own. */
import { afterEach, describe, expect, it, jest } from '@jest/globals';
import { Logger } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { systemClock } from '../../lib/core/port/clock.js';
import type { LockStore } from '../../lib/core/port/lock-store.js';
import { LockModule, LockService, LockStoreError } from '../../lib/index.js';
import { createStore } from '../../lib/nest/lock-providers.js';
import { lockHome, type LockModuleOptions } from '../../lib/nest/lock-module-options.js';
import { storeToken } from '../../lib/nest/lock-names.js';
import { MemoryStore } from '../../lib/stores/memory/memory-store.js';
import { RedisStore } from '../../lib/stores/redis/redis-store.js';
import { RedlockStore } from '../../lib/stores/redlock/redlock-store.js';
import { startAlone } from './application.js';

afterEach(() => void jest.restoreAllMocks());

function linesOfLog(): unknown[] {
  const lines: unknown[] = [];
  jest.spyOn(Logger.prototype, 'log').mockImplementation((line: unknown) => void lines.push(line));
  return lines;
}

const memoryStore = () => new MemoryStore({ clock: systemClock, maxLeaseMs: 60_000 });

/** A module whose store is this one. */
async function around(store: LockStore | null, options: LockModuleOptions = { embedded: true }) {
  return Test.createTestingModule({ imports: [LockModule.forRoot(options)] }).overrideProvider(storeToken('default')).useValue(store).compile();
}

describe('The name of a process', () => {
  it.each<[LockModuleOptions, RegExp]>([
    [{}, new RegExp(`:${process.pid}:[0-9a-z]{8}\\.`)],
    [{ describeHolders: false }, /^[0-9a-z]{8}\./],
  ])('is in the ids of holders, with the options %j', async (options, named) => {
    const app = await startAlone({ imports: [LockModule.forRoot({ embedded: true, ...options })] });
    await using _held = await app.get(LockService).acquire('k');
    expect((await app.get(LockService).inspect('k')).holders[0]!.id).toMatch(named);
  });
});

describe('A lock module', () => {
  it('writes the line of a store that says what it is', async () => {
    const lines = linesOfLog();
    const store = Object.assign(memoryStore(), { summary: { place: 'a test', prefix: 'lock', off: [] } });
    await (await around(store, { redis: 'redis://redis.example' })).close();
    expect(lines).toContain(`Locks are kept by a test, prefix 'lock'.`);
  });

  it('writes what happens to its locks into the log', async () => {
    const warn = jest.spyOn(Logger.prototype, 'warn').mockImplementation(() => undefined);
    const app = await startAlone({ imports: [LockModule.forRoot({ embedded: true, shutdownGraceMs: 0 })] });
    await app.get(LockService).acquire('forgotten');
    await app.close();
    expect(warn.mock.calls.flat()).toEqual([expect.stringContaining('forgotten')]);
  });

  it('whose store does not open fails the boot with that error, and closes the store, also when that fails too', async () => {
    for (const closing of [() => Promise.resolve(), () => Promise.reject(new Error('closing failed'))]) {
      const close = jest.fn(closing);
      const store = Object.assign(memoryStore(), { open: () => Promise.reject(new LockStoreError('nobody is there')), close });
      await expect(around(store)).rejects.toThrow('nobody is there');
      expect(close).toHaveBeenCalled();
    }
  });

  it('whose store and LockService are both replaced by a test boots, and ends without an error', async () => {
    const error = jest.spyOn(Logger, 'error').mockImplementation(() => undefined);
    const built = Test.createTestingModule({ imports: [LockModule.forRoot({ embedded: true })] });
    const app = await built.overrideProvider(storeToken('default')).useValue(null).overrideProvider(LockService).useValue({}).compile();
    await app.init();
    await app.close();
    expect(error.mock.calls).toEqual([]);
  });

  it('asks for replicas only where the store has some', async () => {
    const options = { embedded: true, minReplicas: 1 };
    await expect(around(memoryStore(), options)).rejects.toThrow('LockModule options: minReplicas is 1, but this store has no replicas to count.');
    const store = memoryStore();
    const replicated = Object.assign(store, { capabilities: { ...store.capabilities, replicas: true } });
    await (await around(replicated, options)).close();
    await (await around(memoryStore(), { ...options, minReplicas: 0 })).close();
  });
});

/** Which store the options of a lock module make, and what they say to it. No store is opened here, so that nothing connects. */
const redis = 'redis://127.0.0.1:1';

async function made(options: LockModuleOptions, environment = 'production'): Promise<{ store: object; options: unknown }> {
  const where = lockHome(options, environment);
  if (where.kind === 'elsewhere') throw new Error('a route has no store');
  const store = await createStore(where, options, { process: 'p', clock: systemClock, report: () => {} }, environment);
  await store.close();
  return { store, options: Reflect.get(store, 'options') };
}

describe('The store of a lock module', () => {
  it('is one Redis with what the options say, and else with the defaults', async () => {
    const usual = await made({ redis });
    expect(usual.store).toBeInstanceOf(RedisStore);
    expect(usual.options).toMatchObject({
      process: 'p', prefix: 'lock', maxLeaseMs: 60_000, commandTimeoutMs: 2_000, bootTimeoutMs: 10_000, strictServer: false, minReplicas: 0, recoveryMs: 1_000,
    });
    const given = { prefix: 'shop', maxLeaseMs: 40_000, commandTimeoutMs: 500, bootTimeoutMs: 700, strictServer: true, minReplicas: 1 };
    expect((await made({ redis, ...given, recoveryMs: 'lease' })).options).toMatchObject({ ...given, recoveryMs: 40_000 });
    expect((await made({ redis }, 'test')).options).toMatchObject({ recoveryMs: 0 });
  });

  it('is a Redlock for several servers, and the memory of this process for none', async () => {
    const several = await made({ redis: [redis, redis.replace(':1', ':2'), redis.replace(':1', ':3')], prefix: 'shop' });
    expect(several.store).toBeInstanceOf(RedlockStore);
    const { store } = await made({ embedded: true, maxLeaseMs: 40_000 });
    expect(store).toBeInstanceOf(MemoryStore);
    expect((store as MemoryStore).capabilities.maxLeaseMs).toBe(40_000);
  });
});
