/** What callers give whom no compiler watches over: an option that nobody would read is told in words. */
import { describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import { Redis } from 'ioredis';
import { systemClock } from '../../lib/core/port/clock.js';
import { Locked, LockInterceptor, LockModule, LockService, LockUsageError, ReadLock } from '../../lib/index.js';
import { lockHome, type LockModuleOptions, recoveryOf } from '../../lib/nest/lock-module-options.js';
import type { LockedOptions } from '../../lib/nest/locked-method.js';
import { callInModule, checkDecorator, LEADER_OPTIONS, LOCKED_OPTIONS, lockedCall, ROUTE_OPTIONS, shortLabel, SIDED_OPTIONS } from '../../lib/nest/locked.decorator.js';
import { MemoryStore } from '../../lib/stores/memory/memory-store.js';
import { startAlone } from './application.js';

const services: [string, () => Promise<LockService>][] = [
  ['a LockService', async () => (await startAlone({ imports: [LockModule.forRoot({ embedded: true })] })).get(LockService)],
  [
    'a module with a route',
    async () => {
      const keeper = LockModule.forRoot({ embedded: true, name: 'keeper' });
      const app = await startAlone({ imports: [keeper, LockModule.forRoot({ route: () => 'keeper' })] });
      expect(app.get(LockService).router).toBeDefined();
      return app.get(LockService);
    },
  ],
];

/** A call as plain JavaScript makes it; what is thrown at once is a rejection as well. */
const call = async (on: object, method: string, args: readonly unknown[]): Promise<unknown> => Reflect.apply(Reflect.get(on, method), on, args);

async function expectRefused(refused: Promise<unknown>, words: string): Promise<void> {
  await expect(refused).rejects.toBeInstanceOf(LockUsageError);
  await expect(refused).rejects.toThrow(words);
}

const work = () => 'done';
const { signal } = new AbortController();

describe.each(services)('%s', (_name, locks) => {
  it.each<[string, string, unknown[], string]>([
    ['a lease by the word of others', 'acquire', [{ ttl: 5 }], `Lock 'k': unknown option 'ttl'`],
    ['a lease as a bare number', 'acquire', [5_000], `Lock 'k': expected options to be an object such as { leaseMs: 5000 }, got 5000.`],
    ['one permit too few in the name', 'withLock', [{ permit: 5 }, work], `Lock 'k': unknown option 'permit'`],
    ['permits by the word of others', 'tryAcquire', [{ limit: 5 }], `unknown option 'limit'`],
    ['permits of a leader', 'lead', [work, { permits: 5 }], `unknown option 'permits'`],
    ['a typing error', 'acquire', [{ leasMs: 5_000 }], `unknown option 'leasMs'`],
    ['other letters', 'acquire', [{ wait_ms: 5 }], `unknown option 'wait_ms'`],
    ['what is none', 'acquire', [{ colour: 'red' }], `Lock 'k': unknown option 'colour'; expected mode, leaseMs, waitMs`],
    ['an option of decorators', 'acquire', [{ onBusy: 'skip' }], `unknown option 'onBusy'`],
    ['an option of work', 'acquire', [{ onLost: 'ignore' }], `unknown option 'onLost'`],
    ['a signal in place of options', 'acquire', [signal], `unknown option 'aborted'`],
    ['no options', 'acquire', [null], 'got null'],
    ['an option without a value', 'acquire', [{ waitMs: null }], 'expected waitMs to have a value or to be left out, got null'],
    ['a lease by the word of others', 'tryAcquire', [{ ttl: 5 }], `unknown option 'ttl'`],
    ['a lease as a bare number', 'tryAcquire', [5_000], 'got 5000'],
    ['a signal in place of options', 'tryAcquire', [signal], `unknown option 'aborted'`],
    ['a list', 'tryAcquire', [[]], 'got an array'],
    ['a lease by the word of others', 'withLock', [{ ttl: 5 }, work], `unknown option 'ttl'`],
    ['a lease as a bare number', 'withLock', [5_000, work], 'got 5000'],
    ['options behind the work', 'withLock', [work, { leaseMs: 5_000 }], 'options stand before fn'],
    ['work behind the work', 'withLock', [work, work], 'options stand before fn'],
    ['no work', 'withLock', [{ leaseMs: 5_000 }], 'fn must be a function'],
    ['a fence as a bare number', 'forceRelease', [7], `Lock 'k': expected options to be an object such as { fence: 7 }, got 7. Leave`],
    ['a fence by the word of others', 'forceRelease', [{ token: 7 }], `unknown option 'token'`],
    ['no options', 'forceRelease', [null], 'got null'],
    ['a mode that does not exist', 'isLocked', ['exclusive'], `Lock 'k': expected mode to be 'read' or 'write', got 'exclusive'`],
    ['a mode that does not exist', 'assertLocked', [{ mode: 'read' }], `expected mode to be 'read' or 'write'`],
  ])('refuses %s: %s(k, …%j)', async (_what, method, args, words) => {
    const service = await locks();
    await expectRefused(call(service, method, ['k', ...args]), words);
    expect(await service.isLocked('k')).toBe(false);
  });

  it('tells an object without a prototype, such as the input of a GraphQL call, as what it is', async () => {
    const service = await locks();
    const input: unknown = Object.create(null);
    await expect(call(service, 'acquire', [input])).rejects.toThrow('Lock key: expected a key or a list of keys, got an object. Is an argument missing?');
    for (const option of ['mode', 'leaseMs', 'renew', 'owner', 'permits', 'signal', 'label', 'waitMs']) {
      await expectRefused(call(service, 'acquire', ['k', { [option]: input }]), 'got an object');
    }
    await expectRefused(call(service, 'isLocked', ['k', input]), 'got an object');
    await expectRefused(call(service, 'forceRelease', ['k', { fence: input }]), 'got an object');
  });

  it.each<[string, unknown, string]>([
    ['a bare text', 'order:', `Options of list: expected options to be an object such as { startsWith: 'order:' }, got 'order:'`],
    ['a word of others', { prefix: 'order:' }, `unknown option 'prefix'`],
    ['what is no text', { startsWith: 7 }, 'expected startsWith to be a string, got 7'],
    ['no options', null, 'got null'],
  ])('lists nothing by %s', async (_what, options, words) => {
    const service = await locks();
    await expectRefused(call(service, 'list', [options]), words);
  });

  it(`takes away nobody's lock by options that it refuses`, async () => {
    const service = await locks();
    await using lease = await service.acquire('k');
    await expectRefused(call(service, 'forceRelease', ['k', 7]), 'got 7');
    expect(lease.signal.aborted).toBe(false);
  });

  it('takes options that are undefined, empty, or of a class', async () => {
    class Defaults {
      leaseMs = 5_000;
      get inSeconds(): number {
        return this.leaseMs / 1_000;
      }
    }
    const service = await locks();
    for (const options of [undefined, {}, { waitMs: undefined }, new Defaults(), Object.create(null)]) {
      expect(await call(service, 'withLock', ['k', options, work])).toBe('done');
      await using lease = await service.acquire('k', options);
      expect(await call(service, 'tryAcquire', ['k', options])).toBeNull();
      expect(lease.signal.aborted).toBe(false);
    }
    expect(await call(service, 'withLock', ['k', work, undefined])).toBe('done');
  });
});

describe('a decorator', () => {
  const decorate = (decorator: CallableFunction, ...args: unknown[]) => () => {
    class Shop {
      async pay(): Promise<void> {}
    }
    const descriptor = Object.getOwnPropertyDescriptor(Shop.prototype, 'pay');
    Reflect.apply(decorator, undefined, args)(Shop.prototype, 'pay', descriptor);
  };

  it.each<[string, CallableFunction, unknown, string]>([
    ['a lease as a bare number', Locked, 5_000, 'Shop.pay: expected options to be an object such as { leaseMs: 5000 }, got 5000.'],
    ['a lease by the word of others', Locked, { ttl: 5 }, `Shop.pay: unknown option 'ttl'`],
    ['a mode beside the one of its name', ReadLock, { mode: 'write' }, `Shop.pay: unknown option 'mode'`],
    ['a signal that is none', Locked, { signal: 7 }, 'Shop.pay: expected signal to be an AbortSignal, or a function that gives one, got 7.'],
  ])('refuses %s', (_what, decorator, options, words) => {
    const defined = decorate(decorator, 'k', options);
    expect(defined).toThrow(LockUsageError);
    expect(defined).toThrow(words);
  });

  it('without parentheses is refused, and not taken for one that has a key', () => {
    class Shop {}
    expect(() => Reflect.apply(Locked, undefined, [Shop.prototype, 'pay', {}])).toThrow(`Shop.pay: @Locked has no key. Write @Locked('order:<0>').`);
  });

  it('of a route refuses what a route cannot keep', () => {
    const route = (options: object) => () => LockInterceptor.of('k', options);
    expect(route({ onBusy: 'skip' })).toThrow(`LockInterceptor.of('k'): unknown option 'onBusy'`);
    expect(route({ waitMS: 5 })).toThrow(`LockInterceptor.of('k'): unknown option 'waitMS'`);
  });
});

describe('LockModule', () => {
  @Injectable()
  class Client {
    duplicate(): this {
      return this;
    }
    async sendCommand(): Promise<void> {}
    readonly options = { socket: { host: 'a' } };
  }
  const unread = 'What only your version of a client knows can be given with a client: new Redis({ … }) or createClient({ … })';

  it.each<[string, unknown, string]>([
    ['a default by the word of others', { embedded: true, ttl: 5 }, `unknown option 'ttl'`],
    ['a bare URL', 'redis://a', `expected options to be an object such as { redis: process.env.REDIS_URL }, got a URL`],
    ['a default without a value', { embedded: true, leaseMs: null }, 'expected leaseMs to have a value or to be left out, got null'],
    ['a database by its long name', { redis: { host: 'a', database: 3 } }, `redis: unknown option 'database'. ${unread}`],
    ['a database, and no host', { redis: { database: 3 } }, `redis: unknown option 'database'`],
    ['the options of node-redis', { redis: { socket: { host: 'a' } } }, `redis: unknown option 'socket'`],
    ['one of several', { redis: ['redis://a', { host: 'b', pass: 'c' }, 'redis://c'] }, `redis[1]: unknown option 'pass'`],
    ['options of the Cluster beside it', { redis: { cluster: ['redis://a'], redisOptions: {} } }, `unknown option 'redisOptions'`],
    ['options of the Cluster', { redis: { cluster: ['redis://a'], options: { redirections: 4 } } }, `redis.options: unknown option 'redirections'`],
    [
      'options of its nodes',
      { redis: { cluster: ['redis://a'], options: { redisOptions: { pass: 'a' } } } },
      `redis.options.redisOptions: unknown option 'pass'`,
    ],
    ['a client of a third package', { redis: new Client() }, 'redis is a client that locks cannot use; give the URL, a client of ioredis'],
    ['one such among several', { redis: ['redis://a', new Client(), 'redis://b'] }, 'redis[1] is a client that locks cannot use'],
  ])('refuses %s', (_what, options, words) => {
    const chosen = () => lockHome(options as LockModuleOptions, 'test');
    expect(chosen).toThrow(LockUsageError);
    expect(chosen).toThrow(words);
  });

  it.each([['redis://a'], [null], [5]])('refuses options that are %j', (options) => {
    const made = () => LockModule.forRoot(options as never);
    expect(made).toThrow(LockUsageError);
    expect(made).toThrow(`expected options to be an object such as { redis: process.env.REDIS_URL }, got`);
  });

  it('takes every option that ioredis has a default for, and the null of those that may be null', () => {
    const { options } = new Redis({ lazyConnect: true });
    expect(lockHome({ redis: { ...options, host: 'a', maxRetriesPerRequest: null } }, 'test').kind).toBe('redis');
  });
});

/** What one lock decorator makes of its key and its options, once, when the class is defined. */
const made = (options: object = {}, key: unknown = 'order:<0>') => lockedCall({ key, parameters: 1, list: LOCKED_OPTIONS, keyOf: () => 'k' }, options as LockedOptions, 'Shop.pay');
const completed = (options?: object, key?: unknown, describe = true) => callInModule(made(options, key), describe, {});

describe('A lock decorator', () => {
  it('has options that nothing changes any more, so that each lock module completes and checks them once', async () => {
    expect(Object.isFrozen(completed({ leaseMs: 500 }).options)).toBe(true);
    const locks = new LockService({ store: new MemoryStore(systemClock), process: 'a', clock: systemClock });
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
