/** The providers of a lock module, around a store that a test puts in the place of its own. */
import { afterEach, describe, expect, it, jest } from '@jest/globals';
import { Logger } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { hostname } from 'node:os';
import { LockModule, LockService, LockStoreError, type LockModuleOptions } from '../../lib/index.js';
import { systemClock } from '../../lib/core/port/clock.js';
import type { LockStore } from '../../lib/core/port/lock-store.js';
import { storeToken } from '../../lib/nest/lock-names.js';
import { processName, shortHost } from '../../lib/nest/process-name.js';
import { MemoryStore } from '../../lib/stores/memory/memory-store.js';
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
  it('says host and process id, and ends with characters that no other process has', () => {
    const [one, two] = [processName(true), processName(true)];
    const host = hostname().replaceAll(/[^A-Za-z0-9-]/g, '-').slice(-16);
    for (const name of [one, two]) expect(name).toMatch(new RegExp(`^${host}:${process.pid}:[0-9a-z]{8}$`));
    expect(one).not.toBe(two);
  });

  it('has the end of a long host name, where pods of one deployment differ, without characters that mean something elsewhere', () => {
    expect(shortHost('orders.eu_west:6dfc9b-x7k2p')).toBe('est-6dfc9b-x7k2p');
    expect(shortHost('web')).toBe('web');
  });

  it('says nothing of either where holders are not described', () => {
    const names = Array.from({ length: 100 }, () => processName(false));
    for (const name of names) expect(name).toMatch(/^[0-9a-z]{8}$/);
    expect(new Set(names).size).toBe(100);
  });

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

  it('writes whether its locks were meant to live in this process', async () => {
    const lines = linesOfLog();
    for (const options of [{ embedded: true }, {}]) await startAlone({ imports: [LockModule.forRoot(options)] });
    expect(lines.filter((line) => String(line).startsWith('Locks'))).toEqual([
      'Locks live in this process only (embedded: true).',
      'Locks live in this process only. Give redis to lock across processes, or embedded: true if this is meant.',
    ]);
  });

  it('writes what happens to its locks into the log', async () => {
    const warn = jest.spyOn(Logger.prototype, 'warn').mockImplementation(() => undefined);
    const app = await startAlone({ imports: [LockModule.forRoot({ embedded: true, shutdownGraceMs: 0 })] });
    await app.get(LockService).acquire('forgotten');
    await app.close();
    expect(warn.mock.calls.flat()).toEqual([expect.stringContaining('forgotten')]);
  });

  it('whose Redis is not there fails the boot, and says nothing of locks in this process', async () => {
    const lines = linesOfLog();
    const refused = startAlone({ imports: [LockModule.forRoot({ redis: 'redis://127.0.0.1:1', bootTimeoutMs: 50 })] });
    await expect(refused).rejects.toBeInstanceOf(LockStoreError);
    expect(lines.filter((line) => String(line).startsWith('Locks'))).toEqual([]);
  });

  it('whose store does not open fails the boot with that error, and closes the store, also when that fails too', async () => {
    for (const closing of [() => Promise.resolve(), () => Promise.reject(new Error('closing failed'))]) {
      const close = jest.fn(closing);
      const store = Object.assign(memoryStore(), { open: () => Promise.reject(new LockStoreError('nobody is there')), close });
      await expect(around(store)).rejects.toThrow('nobody is there');
      expect(close).toHaveBeenCalled();
    }
  });

  it('whose store is overridden by null needs a route', async () => {
    await expect(around(null)).rejects.toThrow(`LockModule 'default' has neither a store nor a route.`);
  });

  it('has closed the store when the boot fails', async () => {
    let closed = false;
    const close = () => new Promise<void>((resolve) => void setImmediate(() => ((closed = true), resolve())));
    await expect(around(Object.assign(memoryStore(), { open: () => Promise.reject(new LockStoreError('nobody is there')), close }))).rejects.toThrow('nobody is there');
    expect(closed).toBe(true);
  });

  it('whose store and LockService are both replaced by a test boots, and ends without an error', async () => {
    const error = jest.spyOn(Logger, 'error').mockImplementation(() => undefined);
    const built = Test.createTestingModule({ imports: [LockModule.forRoot({ embedded: true })] });
    const app = await built.overrideProvider(storeToken('default')).useValue(null).overrideProvider(LockService).useValue({}).compile();
    await app.init();
    await app.close();
    expect(error.mock.calls).toEqual([]);
  });

  it('of an application that was never initialized ends without an error', async () => {
    const error = jest.spyOn(Logger, 'error').mockImplementation(() => undefined);
    await (await around(memoryStore())).close();
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
