/** Profiles: options by name, from the configuration, in every call and decorator that takes options. */
import { describe, expect, it } from '@jest/globals';
import { Controller, Get, Injectable, UseInterceptors, type ExecutionContext, type Provider } from '@nestjs/common';
import { APP_FILTER } from '@nestjs/core';
import { firstValueFrom, of, toArray, type Observable } from 'rxjs';
import request from 'supertest';
import { InjectLocks, Leader, Locked, LockExceptionFilter, LockInterceptor, LockModule, LockService, LockTimeoutError, LockUsageError, ReadLock, type Lease, type LockModuleOptions } from '../../lib/index.js';
import { startAlone, startApp, until } from './application.js';

const profiles = { batch: { leaseMs: 50_000, waitMs: 0, onBusy: 'skip' }, slow: { leaseMs: 40_000, maxHoldMs: 90_000 }, sharing: { mode: 'read' }, many: { permits: 3, leaseMs: 20_000 } } as const;
const withProfiles = (options: LockModuleOptions = {}) => LockModule.forRoot({ embedded: true, profiles, ...options });

/** What was said of the lease of this key, rounded to whole seconds. */
const leaseSeconds = (locks: LockService, key?: string): number => Math.round(locks.currentLease(key)!.remainingMs / 1_000);

@Injectable()
class Jobs {
  constructor(readonly locks: LockService) {}

  @Locked('import', { profile: 'batch' })
  async import(): Promise<number | undefined> {
    return leaseSeconds(this.locks);
  }

  @Locked('import', { profile: 'batch', returns: 'observable' })
  importStream(): Observable<number> {
    return of(leaseSeconds(this.locks));
  }

  @Locked('import', { profile: 'batch', leaseMs: 10_000, onBusy: () => -1 })
  async said(): Promise<number> {
    return leaseSeconds(this.locks);
  }

  @ReadLock('import', { profile: 'batch' })
  async read(): Promise<string | undefined> {
    return this.locks.currentLease()?.mode;
  }
}

const jobsOf = async (imports = withProfiles(), providers: Provider[] = [Jobs]): Promise<Jobs> => (await startApp({ providers }, imports)).get(Jobs);

describe('a profile', () => {
  it('gives its options to a decorator, of which each that the decorator has itself wins', async () => {
    const jobs = await jobsOf();
    expect([await jobs.import(), await jobs.said(), await jobs.read(), await firstValueFrom(jobs.importStream())]).toEqual([50, 10, 'read', 50]);
    await using _ = await jobs.locks.acquire('import');
    const empty = await firstValueFrom(jobs.importStream().pipe(toArray()));
    expect([await jobs.import(), await jobs.said(), await jobs.read(), empty]).toEqual([undefined, -1, undefined, []]);
  });

  it('gives its options to withLock, acquire and tryAcquire; of onBusy they take that nobody waits', async () => {
    const { locks } = await jobsOf();
    expect(await locks.withLock('a', { profile: 'batch' }, () => leaseSeconds(locks))).toBe(50);
    expect(await locks.withLock('a', { profile: 'batch', leaseMs: 15_000 }, () => leaseSeconds(locks))).toBe(15);
    expect(await locks.withLock('a', { profile: 'batch', leaseMs: undefined }, () => leaseSeconds(locks))).toBe(50);
    await using lease = await locks.acquire('a', { profile: 'sharing' });
    await using beside = await locks.tryAcquire('a', { profile: 'sharing' });
    expect([lease.mode, beside?.mode]).toEqual(['read', 'read']);
    await expect(locks.withLock('a', { profile: 'batch' }, () => 'unreached')).rejects.toThrow(LockTimeoutError);
  });

  it('that skips does not wait, unless it says for how long', async () => {
    const app = await startApp({}, withProfiles({ profiles: { skips: { onBusy: 'skip' }, waits: { onBusy: 'skip', waitMs: 30 } } }));
    const locks = app.get(LockService);
    await using _ = await locks.acquire('a');
    const waits: number[] = [];
    locks.events.subscribe((event) => event.type === 'waiting' && waits.push(1));
    await expect(locks.withLock('a', { profile: 'skips' }, () => 0)).rejects.toThrow(LockTimeoutError);
    expect(waits).toEqual([]);
    await expect(locks.withLock('a', { profile: 'waits' }, () => 0)).rejects.toThrow(LockTimeoutError);
    expect(waits).toEqual([1]);
  });

  it('gives its options to a route, where a busy lock is refused whatever onBusy says', async () => {
    @Controller()
    class Carts {
      constructor(private readonly locks: LockService) {}

      @Get()
      @UseInterceptors(LockInterceptor.of((_context: ExecutionContext) => 'cart', { profile: 'batch' }))
      async show(): Promise<string> {
        return `${leaseSeconds(this.locks)}`;
      }
    }
    const app = await startApp({ controllers: [Carts], providers: [{ provide: APP_FILTER, useClass: LockExceptionFilter }] }, withProfiles());
    await request(app.getHttpServer()).get('/').expect(200, '50');
    await using _ = await app.get(LockService).acquire('cart');
    await request(app.getHttpServer()).get('/').expect(423);
  });

  it('gives to leaders what a term takes: one of them leads, whatever permits it has', async () => {
    const terms: Lease[] = [];
    const led = async (term: Lease): Promise<void> => {
      terms.push(term);
      await new Promise((resolve) => term.signal.addEventListener('abort', resolve));
    };

    @Injectable()
    class Indexer {
      @Leader('decorated', { profile: 'many' })
      async index(term: Lease): Promise<void> {
        await led(term);
      }
    }
    const app = await startApp({ providers: [Indexer] }, withProfiles());
    const locks = app.get(LockService);
    await using _ = locks.lead('called', led, { profile: 'many' });
    await until(() => terms.length === 2);
    expect(terms.map(({ remainingMs }) => Math.round(remainingMs / 1_000))).toEqual([20, 20]);
    for (const role of ['decorated', 'called']) expect(await locks.inspect(`leader:${role}`)).not.toHaveProperty('permits', 3);
  });

  it('is one of the lock module that the decorator or the caller names', async () => {
    @Injectable()
    class Invoices {
      constructor(@InjectLocks('billing') readonly locks: LockService) {}

      @Locked('invoice', { profile: 'batch', instance: 'billing' })
      async write(): Promise<number | undefined> {
        return leaseSeconds(this.locks);
      }
    }
    const billing = withProfiles({ name: 'billing', profiles: { batch: { leaseMs: 12_000 } } } as LockModuleOptions);
    const app = await startApp({ imports: [billing], providers: [Invoices, Jobs] }, withProfiles());
    const [invoices, jobs] = [app.get(Invoices), app.get(Jobs)];
    expect([await invoices.write(), await jobs.import()]).toEqual([12, 50]);
    expect(await invoices.locks.withLock('a', { profile: 'batch' }, () => leaseSeconds(invoices.locks))).toBe(12);
  });

  it('of a module with a route counts, whichever module keeps the key', async () => {
    const far = LockModule.forRoot({ name: 'far', embedded: true, profiles: { batch: { leaseMs: 1_000 } } });
    const app = await startAlone({ imports: [far, LockModule.forRoot({ route: () => 'far', profiles })], providers: [Jobs] });
    const { locks } = app.get(Jobs);
    expect(await app.get(Jobs).import()).toBe(50);
    expect(await locks.withLock('a', { profile: 'slow' }, () => leaseSeconds(locks))).toBe(40);
    await using lease = await locks.acquire('b', { profile: 'sharing' });
    await using beside = await locks.tryAcquire('b', { profile: 'sharing' });
    expect([lease.mode, beside?.mode]).toEqual(['read', 'read']);
    await using _ = locks.lead('a', async (term) => void (await new Promise((resolve) => term.signal.addEventListener('abort', resolve))), { profile: 'many' });
    await until(async () => (await locks.leader('a')) !== null);
    await expect(locks.withLock('a', { profile: 'none' }, () => 0)).rejects.toThrow("Lock 'a': there is no profile 'none'; the option profiles of this LockModule has 'batch', 'slow', 'sharing', 'many'.");
  });
});

describe('a profile that the module does not have', () => {
  const has = "the option profiles of this LockModule has 'batch', 'slow', 'sharing', 'many'.";

  @Injectable()
  class Decorated {
    @Locked('a', { profile: 'batsh' })
    async work(): Promise<void> {}
  }

  @Injectable()
  class Leading {
    @Leader('a', { profile: 'batsh' })
    async work(): Promise<void> {}
  }

  @Controller()
  class Routed {
    @Get()
    @UseInterceptors(LockInterceptor.of('a', { profile: 'batsh' }))
    async work(): Promise<void> {}
  }

  it.each<[string, object, string]>([
    ['a decorator', { providers: [Decorated] }, 'Decorated.work'],
    ['a leader', { providers: [Leading] }, 'Leading.work'],
    ['a route', { controllers: [Routed] }, `LockInterceptor.of('a')`],
  ])('fails the boot for %s, and those that there are are named', async (_name, metadata, site) => {
    const boot = startApp(metadata, withProfiles());
    await expect(boot).rejects.toThrow(LockUsageError);
    await expect(boot).rejects.toThrow(site);
    await expect(boot).rejects.toThrow(`there is no profile 'batsh'; ${has}`);
  });

  it('fails the call, before the store is asked', async () => {
    const { locks } = await jobsOf();
    for (const refused of [() => locks.withLock('a', { profile: 'batsh' }, () => 0), () => locks.acquire('a', { profile: 'batsh' }), () => locks.tryAcquire('a', { profile: 'toString' })]) {
      await expect(refused()).rejects.toThrow(/^Lock 'a': there is no profile '(batsh|toString)'; the option/);
    }
    await expect(locks.withLock('a', { profile: 7 as never }, () => 0)).rejects.toThrow('there is no profile 7;');
    expect(() => locks.lead('a', () => undefined, { profile: 'batsh' })).toThrow(`there is no profile 'batsh'; ${has}`);
  });

  it('is told so where the module has none', async () => {
    await expect(startApp({ providers: [Decorated] })).rejects.toThrow("there is no profile 'batsh'; the option profiles of this LockModule has none.");
  });
});

describe('profiles that cannot be', () => {
  it.each<[unknown, string]>([
    [{ a: { leaseMs: '5000' } }, "LockModule options, profile 'a': expected leaseMs to be a whole number from 100 to 60000, got '5000'"],
    [{ a: { leaseMs: 70_000 } }, "profile 'a': expected leaseMs to be a whole number from 100 to 60000, got 70000"],
    [{ a: { onBusy: () => 0 } }, "profile 'a': expected onBusy to be 'throw' or 'skip', got a function"],
    [{ a: { signal: AbortSignal.abort() } }, "profile 'a': unknown option 'signal'"],
    [{ a: 7 }, "profile 'a': expected options to be an object such as { leaseMs: 60000, waitMs: 0 }, got 7"],
    [{ a: { mode: 'read', permits: 2 } }, "profile 'a': permits do not go with mode 'read'"],
    [[], 'expected profiles to be an object such as { batch: { leaseMs: 60000, waitMs: 0 } }, got an array'],
    ['batch', "expected profiles to be an object such as { batch: { leaseMs: 60000, waitMs: 0 } }, got 'batch'"],
  ])('fail the boot: %p', async (given, words) => {
    const boot = startApp({}, withProfiles({ profiles: given as never }));
    await expect(boot).rejects.toThrow(LockUsageError);
    await expect(boot).rejects.toThrow(words);
  });

  it('fail the boot when a decorator has what does not go with them', async () => {
    @Injectable()
    class Readers {
      @ReadLock('a', { profile: 'many' })
      async read(): Promise<void> {}
    }
    await expect(startApp({ providers: [Readers] }, withProfiles())).rejects.toThrow("Readers.read: Lock options: permits do not go with mode 'read'");
  });
});
