/** The providers of a lock module, around a store that a test puts in the place of its own. */
import { afterEach, describe, expect, it, jest } from '@jest/globals';
import { Logger } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { systemClock } from '../../lib/core/port/clock.js';
import type { LockStore } from '../../lib/core/port/lock-store.js';
import { LockModule, LockService, LockStoreError } from '../../lib/index.js';
import { type LockModuleOptions } from '../../lib/nest/lock-module-options.js';
import { storeToken } from '../../lib/nest/lock-names.js';
import { MemoryStore } from '../../lib/stores/memory/memory-store.js';
import { startAlone } from './application.js';

afterEach(() => void jest.restoreAllMocks());

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
    const refused = around(memoryStore(), options).then((app) => app.init());
    await expect(refused).rejects.toThrow('LockModule asks for minReplicas: 1, but its store has no replicas to count.');
    const store = memoryStore();
    const replicated = Object.assign(store, { capabilities: { ...store.capabilities, replicas: true } });
    await (await around(replicated, options)).close();
    await (await around(memoryStore(), { ...options, minReplicas: 0 })).close();
  });
});
