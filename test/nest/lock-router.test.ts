/** Several lock modules in one application, and a route that leads each key to the module that keeps it. */
import { describe, expect, it } from '@jest/globals';
import { Injectable, type DynamicModule, type OnApplicationShutdown } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { concat, defer, lastValueFrom, map, timer, type Observable } from 'rxjs';
import { InjectLocks, LockClosedError, Locked, LockKeyError, LockModule, LockService, LockUsageError } from '../../lib/index.js';
import { systemClock } from '../../lib/core/port/clock.js';
import { locksToken, storeToken } from '../../lib/nest/lock-names.js';
import { MemoryStore } from '../../lib/stores/memory/memory-store.js';
import { Gate, startAlone } from './application.js';

describe('a route', () => {
  const route = (key: string) => (key.startsWith('eu:') ? 'eu' : key.startsWith('us:') ? 'us' : 'mars');
  const start = async () => {
    const app = await startAlone({
      imports: [LockModule.forRoot({ route }), LockModule.forRoot({ embedded: true, name: 'eu' }), LockModule.forRoot({ embedded: true, name: 'us' })],
      providers: [Regions],
    });
    return app.get(Regions);
  };

  @Injectable()
  class Regions {
    constructor(readonly locks: LockService, @InjectLocks('eu') readonly eu: LockService, @InjectLocks('us') readonly us: LockService) {}

    @Locked('<0>:order')
    async order(_region: string): Promise<boolean[]> {
      return [await this.eu.isLocked('eu:order'), await this.us.isLocked('us:order')];
    }
  }

  it('leads each key to its module', async () => {
    const regions = await start();
    expect(await regions.order('eu')).toEqual([true, false]);
    expect(await regions.order('us')).toEqual([false, true]);
  });

  it('leads everything that LockService can do to its module', async () => {
    const { locks, eu } = await start();
    await locks.withLock('eu:a', async (lease) => {
      expect(locks.currentLease()?.fence).toBe(lease.fence);
      expect(eu.assertLocked('eu:a').fence).toBe(lease.fence);
      expect(await locks.detached(() => locks.tryAcquire('eu:a'))).toBeNull();
      expect((await locks.inspect('eu:a')).holders).toHaveLength(1);
      const listed: string[] = [];
      for await (const { key } of locks.list()) listed.push(key);
      expect(listed).toEqual(['eu:a']);
      expect(await locks.withLock('us:b', () => locks.currentLease()?.key)).toBe('us:b');
      const later = await locks.acquire('eu:later');
      // The innermost is not the youngest.
      expect(await locks.withLock('us:c', () => later.run(() => locks.currentLease()?.key))).toBe('eu:later');
      await later.release();
      expect([locks.currentLease('eu:a')?.fence, locks.currentLease('us:a')]).toEqual([lease.fence, undefined]);
    });
    expect(await eu.isLocked('eu:a')).toBe(false);
  });

  it('leads a ticket to the module that keeps its locks', async () => {
    const { locks, eu } = await start();
    const handedOff = async () => (await locks.acquire('eu:a')).handOff();
    const adopted = await locks.adopt(await handedOff(), { label: 'the next one', leaseMs: 7_000 });
    expect([adopted.key, await eu.isLocked('eu:a'), (await eu.inspect('eu:a')).holders[0]!.label]).toEqual(['eu:a', true, 'the next one']);
    await adopted.release();
    expect(await locks.withAdopted(await handedOff(), () => eu.currentLease()?.key)).toBe('eu:a');
    const labelled = locks.withAdopted(await handedOff(), { label: 'a label' }, async () => (await eu.inspect('eu:a')).holders[0]!.label);
    expect([await labelled, await eu.isLocked('eu:a')]).toEqual(['a label', false]);
  });

  it('tells of the events of all modules', async () => {
    const { locks } = await start();
    const keys: string[] = [];
    const reading = locks.events.subscribe(({ key, type }) => type === 'granted' && keys.push(key));
    await locks.withLock('eu:a', () => locks.withLock('us:a', () => undefined));
    reading.unsubscribe();
    expect(keys).toEqual(['eu:a', 'us:a']);
  });

  it('may be used while the application is put together: modules that are made later are led to, and their events are told', async () => {
    const granted: string[] = [];

    @Injectable()
    class Early {
      readonly refused: Promise<unknown>;

      constructor(locks: LockService) {
        locks.events.subscribe({ next: ({ key, type }) => type === 'granted' && granted.push(key), complete: () => granted.push('the end') });
        this.refused = locks.acquire('eu:early').catch((error: unknown) => error);
        void this.refused.then(() => made.release());
      }
    }
    const made = new Gate();
    const late = LockModule.forRootAsync({ name: 'eu', useFactory: () => made.opened.then(() => ({ embedded: true })) });
    const app = await startAlone({ imports: [LockModule.forRoot({ route }), late, LockModule.forRoot({ embedded: true, name: 'us' })], providers: [Early] });
    expect(String(await app.get(Early).refused)).toMatch(/^LockUsageError: Lock 'eu:early': .*'eu' that does not exist.*The application is not initialized/);
    await app.get(LockService).withLock('eu:a', () => undefined);
    await app.get(LockService).withLock('us:a', () => undefined);
    await app.close();
    expect(granted).toEqual(['eu:a', 'us:a', 'the end']);
  });

  it('leads to modules of an application that was put together and never initialized', async () => {
    const built = await Test.createTestingModule({ imports: [LockModule.forRoot({ route }), LockModule.forRoot({ embedded: true, name: 'eu' })] }).compile();
    const locks = built.get(LockService);
    const told: string[] = [];
    locks.events.subscribe(({ type }) => told.push(type));
    await built.get<LockService>(locksToken('eu')).withLock('eu:a', () => undefined);
    expect(told).toEqual(['granted', 'released']);
    expect(await locks.isLocked('eu:a')).toBe(false);
    await built.close();
  });

  it('to a module that does not exist is an error that says which exist', async () => {
    const { locks } = await start();
    await expect(locks.acquire('mars:a')).rejects.toThrow(
      new LockUsageError(`Lock 'mars:a': its route leads to a lock module 'mars' that does not exist. There are: 'eu', 'us'.`, { key: 'mars:a' }),
    );
    await expect(locks.acquire('mars:a')).rejects.toMatchObject({ key: 'mars:a' });
    const alone = await startAlone({ imports: [LockModule.forRoot({ route })] });
    await expect(alone.get(LockService).acquire('mars:a')).rejects.toThrow(/There are: none\.$/);
  });

  it('leaves defaults and limits to the module that keeps the key', async () => {
    @Injectable()
    class Exports {
      constructor(readonly locks: LockService) {}

      @Locked('<0>:export', { leaseMs: 90_000 })
      async run(_region: string): Promise<number | undefined> {
        return this.locks.currentLease()?.remainingMs;
      }

      @Locked('<0>:feed', { returns: 'observable' })
      feed(_region: string): Observable<string> {
        return concat(defer(() => this.locks.forceRelease('eu:feed')), timer(5)).pipe(map(() => 'went on'));
      }
    }
    const app = await startAlone({
      imports: [
        LockModule.forRoot({ route, describeHolders: false, leaseMs: undefined }),
        LockModule.forRoot({ embedded: true, name: 'eu', maxLeaseMs: 120_000, onLost: 'ignore' }),
        LockModule.forRoot({ embedded: true, name: 'us', leaseMs: 5_000 }),
      ],
      providers: [Exports],
    });
    const exporting = app.get(Exports);
    expect(await exporting.run('eu')).toBeGreaterThan(60_000);
    await expect(exporting.run('us')).rejects.toThrow(`Lock 'us:export': expected leaseMs to be a whole number from 100 to 60000, got 90000`);
    await using lease = await exporting.locks.acquire('us:a');
    expect(lease.remainingMs).toBeLessThanOrEqual(5_000);
    expect(await lastValueFrom(exporting.feed('eu'))).toBe('went on');
  });

  it.each([{}, { embedded: true }])('leaves it to the module that keeps the key whether there are replicas, with %j beside it', async (beside) => {
    @Injectable()
    class Replicated {
      @Locked('<0>:replicated', { minReplicas: 1 })
      async run(_region: string): Promise<void> {}
    }
    const app = await startAlone({ imports: [LockModule.forRoot({ route, ...beside }), LockModule.forRoot({ embedded: true, name: 'eu' })], providers: [Replicated] });
    await expect(app.get(Replicated).run('eu')).rejects.toThrow(/minReplicas/);
  });

  it('whose decorators no module could obey is refused at boot', async () => {
    @Injectable()
    class Hasty {
      @Locked('hasty', { leaseMs: 5 })
      async run(): Promise<void> {}
    }
    await expect(startAlone({ imports: [LockModule.forRoot({ route })], providers: [Hasty] })).rejects.toThrow(/^Hasty\.run: Lock options: expected leaseMs/);
  });

  it('that answers nothing is told so, with the key; what is no key never reaches it', async () => {
    const app = await startAlone({ imports: [LockModule.forRoot({ embedded: true, route: (key) => ({ 'eu:a': 'eu' })[key.trim()] as string })] });
    const locks = app.get(LockService);
    for (const key of ['mars:a', ['mars:a', 'mars:b']]) {
      await expect(locks.acquire(key)).rejects.toThrow(`Lock 'mars:a': its route leads to a lock module 'undefined' that does not exist`);
    }
    for (const none of [undefined, [undefined], 7]) await expect(locks.acquire(none as never)).rejects.toBeInstanceOf(LockKeyError);
  });

  it('must be one for all keys of a call', async () => {
    const { locks } = await start();
    await expect(locks.acquire(['eu:a', 'us:a'])).rejects.toBeInstanceOf(LockUsageError);
    await expect(locks.acquire([])).rejects.toBeInstanceOf(LockKeyError);
    await using lease = await locks.acquire(['eu:a', 'eu:b']);
    expect(lease.keys).toEqual(['eu:a', 'eu:b']);
  });
});

describe('A module with a route', () => {
  const both = () => [
    LockModule.forRoot({ embedded: true, name: 'billing' }),
    LockModule.forRoot({ embedded: true, route: (key) => (key.startsWith('billing:') ? 'billing' : 'default') }),
  ];

  /** Lets everything go on that needs no time to pass. */
  const turns = async (): Promise<void> => {
    for (let n = 0; n < 50; n += 1) await new Promise(setImmediate);
  };

  it.each<[string, (modules: DynamicModule[]) => DynamicModule[]]>([
    ['behind', (modules) => modules],
    ['before', (modules) => modules.reverse()],
  ])('and a store leads to that as well; it ends with the application, after the holds, which may want locks of a module until then that is imported %s it', async (_name, inOrder) => {
    const [gate, begun, told] = [new Gate(), new Gate(), [] as unknown[]];
    @Injectable()
    class Last implements OnApplicationShutdown {
      onApplicationShutdown(): void {
        void turns().then(() => gate.release());
      }
    }
    const app = await startAlone({ imports: inOrder(both()), providers: [Last] });
    const locks = app.get(LockService);
    const holding = locks.withLock('a', async () => {
      begun.release();
      await gate.opened;
      return locks.withLock('billing:a', () => 'booked');
    });
    await begun.opened;
    const cancelled = expect(locks.withLock('a', { waitMs: Infinity }, () => 'never')).rejects.toBeInstanceOf(LockClosedError);
    locks.events.subscribe({ complete: () => told.push('no more events') });
    await app.close();
    told.push('closed');
    await cancelled;
    expect([await holding, told]).toEqual(['booked', ['no more events', 'closed']]);
  });

  it('and a store is closed when that is, at the same time as the others: each may wait for a server that does not answer', async () => {
    const [gate, told] = [new Gate(), [] as string[]];
    const store = (name: string) => Object.assign(new MemoryStore(systemClock), { close: () => told.push(name) && gate.opened });
    const built = Test.createTestingModule({ imports: both() });
    for (const name of ['billing', 'default']) built.overrideProvider(storeToken(name)).useValue(store(name));
    const app = await (await built.compile()).init();
    const closed = app.close().then(() => told.push('closed'));
    await turns();
    expect(told.sort()).toEqual(['billing', 'default']);
    gate.release();
    await closed;
  });
});
