/** The providers of a lock module, around a store that a test puts in the place of its own; how others find them, and their log. */
import { afterEach, describe, expect, it, jest } from '@jest/globals';
import { Logger } from '@nestjs/common';
import type { ModuleRef } from '@nestjs/core';
import { Test } from '@nestjs/testing';
import { systemClock } from '../../lib/core/port/clock.js';
import type { ReportLevel } from '../../lib/core/port/lock-events.js';
import type { LockStore } from '../../lib/core/port/lock-store.js';
import { LockModule, LockService, LockStoreError, LockUsageError } from '../../lib/index.js';
import { logReports } from '../../lib/nest/lock-log.js';
import type { LockModuleOptions } from '../../lib/nest/lock-module-options.js';
import { findLocks, interceptorToken, locksToken, storeToken } from '../../lib/nest/lock-names.js';
import { MemoryStore } from '../../lib/stores/memory/memory-store.js';
import { FakeClock } from '../support/fake-clock.js';
import { startAlone } from './application.js';

afterEach(() => void jest.restoreAllMocks());

const memoryStore = () => new MemoryStore(systemClock);

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
    await expect(refused).rejects.toThrow('LockModule: minReplicas is 1, but its store has no replicas to count.');
    const store = memoryStore();
    const replicated = Object.assign(store, { capabilities: { ...store.capabilities, replicas: true } });
    await (await around(replicated, options)).close();
    await (await around(memoryStore(), { ...options, minReplicas: 0 })).close();
  });
});

/** An application in which these are found, wherever they are imported. */
function application(found: Map<unknown, object>): ModuleRef {
  const get = (token: unknown, options: unknown): object => {
    expect(options).toEqual({ strict: false });
    const one = found.get(token);
    if (one === undefined) throw new Error('Nest could not find it');
    return one;
  };
  return { get } as unknown as ModuleRef;
}

/** The board, the telemetry and the health indicator look for it. */
describe('The LockService of a lock module', () => {
  const [own, billing] = [{ events: 'own' }, { events: 'billing' }];
  const modules = application(new Map<unknown, object>([[LockService, own], [locksToken('billing'), billing], [locksToken('double'), { withLock: () => undefined }]]));

  it('is found by the name of the module', () => {
    expect(findLocks(modules, 'default', 'The board', 'events')).toBe(own);
    expect(findLocks(modules, 'billing', 'The board', 'events')).toBe(billing);
  });

  it('is missed in words, with what Nest said as the cause', () => {
    const cause = new Error('Nest could not find it');
    expect(() => findLocks(modules, 'other', 'The board', 'events')).toThrow(
      new LockUsageError(`The board needs lock module 'other', but the application imports no such module.`, { cause }),
    );
  });

  it('of another copy of the package is named as that', () => {
    const foreign = application(new Map<unknown, object>([[class LockService {}, own], [interceptorToken('default'), {}]]));
    expect(() => findLocks(foreign, 'default', 'The board', 'events')).toThrow(
      "The board needs lock module 'default', which the application imports from another copy of nestjs-holdfast: its LockService is another class.",
    );
  });

  it('is none where an object without what is needed stands in its place', () => {
    expect(() => findLocks(modules, 'double', 'The board', 'events')).toThrow(
      new LockUsageError(`The board needs a LockService, but an object without 'events' stands in its place. Use TestLocks, or leave The board out.`),
    );
  });
});

function log() {
  const clock = new FakeClock();
  const lines: string[] = [];
  const write = (level: string) => (message: string) => void lines.push(`${level} ${message}`);
  const report = logReports({ error: write('error'), warn: write('warn'), log: write('log') }, clock);
  return { clock, lines, report, tell: (message: string, kind = 'store lost', level: ReportLevel = 'warning') => report({ kind, level, message }) };
}

describe('The log', () => {
  it('has one line of a kind in ten seconds, and one with the number of the rest when they are over', async () => {
    const { clock, lines, tell } = log();
    for (let n = 1; n <= 5; n += 1) tell(`loss ${n}`);
    expect(lines).toEqual(['warn loss 1']);
    await clock.advance(9_999);
    expect(lines).toHaveLength(1);
    await clock.advance(1);
    expect(lines).toEqual(['warn loss 1', 'warn loss 5 (This is the last of 4 such findings in 10 s, found 10.0 s before this line was written.)']);
    await clock.advance(6_000);
    tell('loss 6');
    expect(lines).toHaveLength(2);
    await clock.advance(4_000);
    expect(lines[2]).toBe('warn loss 6 (This was found 4.0 s before this line was written.)');
  });

  it('has one line for each finding, whatever stands in a key', () => {
    const { lines, tell } = log();
    tell(`Lock 'a\nb' was lost`);
    expect(lines).toEqual([String.raw`warn Lock 'a\u000ab' was lost`]);
  });

  it.each([[true, 2], [false, 1]])('writes nothing later that is true no longer: still so %p, %i lines', async (isStill, count) => {
    const { clock, lines, report } = log();
    for (const message of ['first', 'second']) report({ kind: 'renewal failed', level: 'warning', message, isStill: () => isStill });
    await clock.advance(10_000);
    expect(lines).toHaveLength(count);
  });

  it('whose logger throws stops nobody', async () => {
    const clock = new FakeClock();
    const write = jest.fn(() => {
      throw new Error('the stream is closed');
    });
    const report = logReports({ error: write, warn: write, log: write }, clock);
    for (const level of ['error', 'warning', 'info'] as const) {
      for (let n = 0; n < 2; n += 1) expect(() => report({ kind: level, level, message: 'a finding' })).not.toThrow();
    }
    await clock.advance(10_000);
    expect(write).toHaveBeenCalledTimes(6);
  });

  it('keeps no timer and no entry for a kind that nothing is told of any more', async () => {
    const { clock, lines, tell } = log();
    tell('gone');
    await clock.advance(10_000);
    expect(clock.pendingTimers).toBe(0);
    tell('gone again');
    expect(lines).toEqual(['warn gone', 'warn gone again']);
  });
});
