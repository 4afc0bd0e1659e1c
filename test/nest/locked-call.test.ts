/** What one lock decorator makes of its key and its options, once, when the class is defined. */
import { describe, expect, it } from '@jest/globals';
import { systemClock } from '../../lib/core/port/clock.js';
import { LockService, LockUsageError } from '../../lib/index.js';
import { lockHome, type LockModuleOptions, recoveryOf } from '../../lib/nest/lock-module-options.js';
import {
  callInModule, checkDecorator, LEADER_OPTIONS, lockedCall, LOCKED_OPTIONS, ROUTE_OPTIONS, shortLabel, SIDED_OPTIONS,
} from '../../lib/nest/locked.decorator.js';
import type { LockedOptions } from '../../lib/nest/locked-method.js';
import { MemoryStore } from '../../lib/stores/memory/memory-store.js';

const made = (options: object = {}, key: unknown = 'order:<0>') => lockedCall({ key, subject: 'arguments', keyOf: () => 'k' }, options as LockedOptions, 'Shop.pay');
const completed = (options?: object, key?: unknown, describe = true) => callInModule(made(options, key), describe, {});

describe('A lock decorator', () => {
  it('has options that nothing changes any more, so that each lock module completes and checks them once', async () => {
    expect(Object.isFrozen(completed({ leaseMs: 500 }).options)).toBe(true);
    const locks = new LockService({ store: new MemoryStore({ clock: systemClock, maxLeaseMs: 60_000 }), process: 'a', clock: systemClock });
    let reads = 0;
    const counted = Object.freeze(Object.defineProperty({}, 'leaseMs', { enumerable: true, get: () => ((reads += 1), 500) }));
    for (let calls = 0; calls < 3; calls += 1) await locks.withLock('k', counted, () => undefined);
    const once = reads;
    for (let calls = 0; calls < 3; calls += 1) await locks.withLock('k', counted, () => undefined);
    expect(reads).toBe(once);
    await locks.close();
  });

  it.each<[object, string]>([
    [{ onBusy: 'maybe' }, `Shop.pay: expected onBusy to be 'throw', 'skip' or a function, got 'maybe'.`],
    [{ onBusy: 7 }, `Shop.pay: expected onBusy to be 'throw', 'skip' or a function, got 7.`],
    [{ returns: 'stream' }, `Shop.pay: expected returns to be 'promise' or 'observable', got 'stream'.`],
    [{ returns: null }, `Shop.pay: expected returns to have a value or to be left out, got null.`],
    [{ instance: '' }, `Shop.pay: expected instance to be the name of a lock module, got ''.`],
    [{ instance: 7 }, `Shop.pay: expected instance to be the name of a lock module, got 7.`],
    [{ signal: null }, `Shop.pay: expected signal to have a value or to be left out, got null.`],
    ...[7, 'a text', {}, { addEventListener: () => undefined }, { aborted: false }].map((none): [object, string] => [
      { signal: none }, 'Shop.pay: expected signal to be an AbortSignal, or a function that gives one, got ',
    ]),
  ])('refuses what it cannot mean, case %#: %p', (options, words) => {
    const check = () => checkDecorator(options, LOCKED_OPTIONS, 'Shop.pay');
    expect(check).toThrow(LockUsageError);
    expect(check).toThrow(words);
  });

  it('has its key as one line for telemetry', () => {
    function byOrder() {
      return 'k';
    }
    const keys: unknown[] = ['order:<0>', ['a:<0>', byOrder], byOrder, () => 'k'];
    expect(keys.map((key) => completed({}, key).options.template)).toEqual(['order:<0>', 'a:<0> byOrder()', 'byOrder()', 'function()']);
  });

  it('has a label that fits: the end of a long name, in whole characters', () => {
    expect(shortLabel('Shop.pay')).toBe('Shop.pay');
    expect(shortLabel('x'.repeat(48))).toBe('x'.repeat(48));
    expect(shortLabel(`y${'x'.repeat(48)}`)).toBe('x'.repeat(48));
    expect(shortLabel('ä'.repeat(30))).toBe('ä'.repeat(24));
  });
});

describe('The names of the options of decorators', () => {
  const common = { leaseMs: 1, waitMs: 1, label: 'a' };

  it.each<[string, typeof ROUTE_OPTIONS, object, string | undefined]>([
    ['a route', ROUTE_OPTIONS, { ...common, mode: 'read', onLost: 'ignore', instance: 'a' }, undefined],
    ['a route', ROUTE_OPTIONS, { onBusy: 'skip' }, `unknown option 'onBusy'`],
    ['@Locked', LOCKED_OPTIONS, { ...common, mode: 'read', onLost: 'ignore', instance: 'a', onBusy: 'skip', returns: 'promise' }, undefined],
    ['@ReadLock', SIDED_OPTIONS, { ...common, onLost: 'ignore', instance: 'a', onBusy: 'skip', returns: 'promise' }, undefined],
    ['@ReadLock', SIDED_OPTIONS, { mode: 'read' }, `unknown option 'mode'`],
    ['@Leader', LEADER_OPTIONS, { leaseMs: 1, graceMs: 1, minReplicas: 1, label: 'a', restMs: 1, instance: 'a' }, undefined],
    ['@Leader', LEADER_OPTIONS, { waitMs: 1 }, `unknown option 'waitMs'`],
  ])('of %s are taken or refused: %#', (_name, list, options, words) => {
    const check = () => checkDecorator(options, list, 'Shop.pay');
    if (words === undefined) expect(check).not.toThrow();
    else expect(check).toThrow(`Shop.pay: ${words}`);
  });
});

/** The options of a lock module: which are taken, what they mean, and which are refused in words. */
const given = (options: object, environment = 'test') => lockHome(options as LockModuleOptions, environment);

describe('An option of a lock module', () => {
  it.each<[object, string]>([
    [{ recoveryMs: -1 }, `expected recoveryMs to be a whole number from 0, got -1 ('lease' stands for maxLeaseMs)`],
    [{ recoveryMs: 0.5 }, 'got 0.5'],
    [{ recoveryMs: '5' }, 'expected recoveryMs'],
    [{ bootTimeoutMs: 0 }, 'expected bootTimeoutMs to be a whole number from 1, got 0'],
    [{ bootTimeoutMs: -1 }, 'got -1'],
    [{ bootTimeoutMs: 0.5 }, 'got 0.5'],
    [{ describeHolders: 'yes' }, `expected describeHolders to be true or false, got 'yes'`],
    [{ strictServer: 1 }, 'expected strictServer to be true or false, got 1'],
    [{ strictOverrides: 'no' }, 'expected strictOverrides to be true or false'],
    [{ client: 'valkey' }, `expected client to be 'ioredis' or 'redis', got 'valkey'`],
    [{ prefix: 'a b' }, 'expected prefix to be'],
    [{ ttl: 5 }, `unknown option 'ttl'`],
  ])('that cannot be meant is refused: %j', (options, words) => {
    expect(() => given({ embedded: true, ...options })).toThrow(LockUsageError);
    expect(() => given({ embedded: true, ...options })).toThrow(words);
  });
});

describe('The recovery of a server that forgot', () => {
  it.each<[LockModuleOptions['recoveryMs'], string | undefined, number, number | 'lease']>([
    [undefined, undefined, 60_000, 1_000],
    [undefined, 'production', 500, 500],
    [undefined, 'test', 60_000, 0],
    [0, 'production', 60_000, 0],
    [300, 'test', 60_000, 300],
    [60_000, undefined, 60_000, 60_000],
    ['lease', 'test', 30_000, 'lease'],
  ])('by recoveryMs %s where NODE_ENV is %s and the longest lease %d ms takes %s ms', (recoveryMs, environment, maxLeaseMs, forMs) => {
    expect(recoveryOf({ recoveryMs }, maxLeaseMs, environment)).toBe(forMs);
  });

  it('is no longer than any lease', () => {
    expect(() => recoveryOf({ recoveryMs: 501 }, 500, undefined)).toThrow(
      new LockUsageError(`LockModule options: recoveryMs (501) is longer than maxLeaseMs (500); 'lease' is the longest that can be of use.`),
    );
  });
});
