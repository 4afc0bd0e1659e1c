/** What callers give whom no compiler watches over: an option that nobody would read is told in words. */
import { describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import { Redis } from 'ioredis';
import { Locked, LockInterceptor, LockModule, LockService, LockUsageError, ReadLock, type LockModuleOptions } from '../../lib/index.js';
import { LockRouter } from '../../lib/nest/lock-router.js';
import { lockHome } from '../../lib/nest/lock-module-options.js';
import { startAlone } from './application.js';

const services: [string, () => Promise<LockService>][] = [
  ['a LockService', async () => (await startAlone({ imports: [LockModule.forRoot({ embedded: true })] })).get(LockService)],
  [
    'a module with a route',
    async () => {
      const keeper = LockModule.forRoot({ embedded: true, name: 'keeper' });
      const app = await startAlone({ imports: [keeper, LockModule.forRoot({ route: () => 'keeper' })] });
      expect(app.get(LockService)).toBeInstanceOf(LockRouter);
      return app.get(LockService);
    },
  ],
];

/** A call as plain JavaScript makes it; what is thrown at once is a rejection as well. */
async function call(on: object, method: string, args: readonly unknown[]): Promise<unknown> {
  return Reflect.apply(Reflect.get(on, method), on, args);
}

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
