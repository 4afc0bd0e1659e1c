import { describe, expect, it } from '@jest/globals';
import { Inject, Injectable, Module, Scope, type Type } from '@nestjs/common';
import { LazyModuleLoader } from '@nestjs/core';
import { Locked, LockModule, LockService } from '../../lib/index.js';
import { locksToken } from '../../lib/nest/lock-names.js';
import { gate } from '../support/locks.js';
import { startApp } from './application.js';

/** Counts who is inside at the same time, over all objects of a test. */
class Room {
  inside = 0;
  most = 0;

  async visit(): Promise<void> {
    this.most = Math.max(this.most, (this.inside += 1));
    await new Promise((resolve) => setTimeout(resolve, 5));
    this.inside -= 1;
  }
}

function workerOf(scope: Scope): Type<{ work(): Promise<void> }> {
  @Injectable({ scope })
  class Worker {
    constructor(private readonly room: Room) {}

    @Locked('room')
    async work(): Promise<void> {
      await this.room.visit();
    }
  }
  return Worker;
}

describe('a locked method', () => {
  it('works in a module that is loaded later', async () => {
    const Worker = workerOf(Scope.DEFAULT);

    @Module({ providers: [Room, Worker] })
    class LateModule {}
    const app = await startApp({});
    const late = await app.get(LazyModuleLoader).load(() => LateModule);
    await Promise.all([late.get(Worker).work(), late.get(Worker).work()]);
    expect(late.get(Room).most).toBe(1);
  });

  it('says what is wrong when a factory of a module that is loaded later made it', async () => {
    const Worker = workerOf(Scope.DEFAULT);

    @Module({ providers: [{ provide: 'worker', useFactory: () => Reflect.construct(Worker, [new Room()]) }] })
    class LateModule {}
    const app = await startApp({});
    const late = await app.get(LazyModuleLoader).load(() => LateModule);
    await expect(late.get<{ work(): Promise<unknown> }>('worker').work()).rejects.toThrow(/by one of a module that was loaded later\), .* so it has no lock module/);
  });
});

describe('inheritance', () => {
  class Base {
    readonly calls: string[] = [];

    constructor(readonly locks: LockService) {}

    @Locked('base:<0>')
    async inherited(id: string): Promise<string | undefined> {
      this.calls.push(id);
      return this.locks.currentLease()?.key;
    }

    @Locked('base:<0>')
    async overridden(_id: string): Promise<readonly string[]> {
      return [this.locks.currentLease()?.key ?? 'none'];
    }
  }

  @Injectable()
  class Derived extends Base {
    readonly #secret = 'kept';

    constructor(@Inject(LockService) locks: LockService) {
      super(locks);
    }

    @Locked('derived:<0>')
    override async overridden(id: string): Promise<readonly string[]> {
      return [this.locks.currentLease()?.key ?? 'none', ...(await super.overridden(id))];
    }

    @Locked('secret')
    async secret(): Promise<string> {
      return this.#secret;
    }
  }

  it('locks inherited methods, and overriding ones with their own lock around that of the base', async () => {
    const app = await startApp({ providers: [Derived] });
    const derived = app.get(Derived);
    expect(await derived.inherited('a')).toBe('base:a');
    expect(await derived.overridden('a')).toEqual(['derived:a', 'base:a']);
  });

  it('locks a subclass that decorates nothing itself', async () => {
    @Injectable()
    class Plain extends Base {
      constructor(@Inject(LockService) locks: LockService) {
        super(locks);
      }
    }
    const app = await startApp({ providers: [Plain] });
    expect(await app.get(Plain).inherited('b')).toBe('base:b');
  });
});

describe('a method named by a symbol', () => {
  const settle = Symbol('settle');

  it('is locked', async () => {
    @Injectable()
    class Ledger {
      constructor(readonly locks: LockService) {}

      @Locked('ledger')
      async [settle](): Promise<string | undefined> {
        return this.locks.currentLease()?.key;
      }
    }
    const app = await startApp({ providers: [Ledger] });
    expect(await app.get(Ledger)[settle]()).toBe('ledger');
  });
});

describe('an object from a factory', () => {
  class Ledger {
    constructor(readonly locks: LockService) {}

    @Locked('ledger')
    async settle(): Promise<string | undefined> {
      return this.locks.currentLease()?.key;
    }
  }

  it.each([
    ['useFactory', { provide: 'ledger', inject: [LockService], useFactory: (locks: LockService) => new Ledger(locks) }],
    ['an async useFactory', { provide: 'ledger', inject: [LockService], useFactory: async (locks: LockService) => new Ledger(locks) }],
    ['useClass', { provide: 'ledger', useClass: Injectable()(Ledger) ?? Ledger }],
  ])('is locked when it came from %s', async (_name, provider) => {
    Inject(LockService)(Ledger, undefined, 0);
    const app = await startApp({ providers: [provider] });
    expect(await app.get<Ledger>('ledger').settle()).toBe('ledger');
  });

  it('is locked in the hooks of other modules already', async () => {
    const keys: (string | undefined)[] = [];

    @Module({ providers: [{ provide: 'ledger', inject: [LockService], useFactory: (locks: LockService) => new Ledger(locks) }] })
    class LedgerModule {
      constructor(@Inject('ledger') private readonly ledger: Ledger) {}

      async onModuleInit(): Promise<void> {
        keys.push(await this.ledger.settle());
      }
    }
    await startApp({ imports: [LedgerModule] });
    expect(keys).toEqual(['ledger']);
  });

  it('is locked although it is the value of a provider', async () => {
    const value = new Ledger({ currentLease: () => ({ key: 'stand-in' }) } as never);
    const app = await startApp({ providers: [{ provide: 'ledger', useValue: value }] });
    const entered: string[] = [];
    app.get(LockService).events.subscribe(({ type, key }) => type === 'granted' && entered.push(key));
    expect(await value.settle()).toBe('stand-in');
    expect(entered).toEqual(['ledger']);
  });
});

describe('an object from a factory that is frozen', () => {
  it.each<[string, (made: object) => object]>([['frozen', Object.freeze], ['sealed', Object.seal], ['closed to new fields', Object.preventExtensions]])('or %s has its locks, also of two modules', async (_how, close) => {
    class Closed {
      @Locked('outer')
      @Locked('inner', { instance: 'second' })
      async run(): Promise<void> {
        started.open();
        await ended.promise;
      }
    }
    const [started, ended] = [gate(), gate()];
    const app = await startApp({ imports: [LockModule.forRoot({ embedded: true, name: 'second' })], providers: [{ provide: 'closed', useFactory: () => close(new Closed()) }] });
    const running = app.get<Closed>('closed').run();
    await started.promise;
    expect(await app.get(LockService).isLocked('outer')).toBe(true);
    expect(await app.get<LockService>(locksToken('second')).isLocked('inner')).toBe(true);
    ended.open();
    await running;
  });
});

describe('an object that its own constructor freezes', () => {
  it('has its locks, as one that Nest makes', async () => {
    @Injectable()
    class Frozen {
      constructor() {
        Object.freeze(this);
      }

      @Locked('frozen')
      async run(locks: LockService): Promise<boolean> {
        return locks.isLocked('frozen');
      }
    }
    const app = await startApp({ providers: [Frozen] });
    expect(await app.get(Frozen).run(app.get(LockService))).toBe(true);
  });
});

describe('two applications in one process', () => {
  it('keep their locks apart, each object with those of its own application', async () => {
    const Worker = workerOf(Scope.DEFAULT);
    const [one, two] = await Promise.all([startApp({ providers: [Room, Worker] }), startApp({ providers: [Room, Worker] })]);
    expect(one.get(LockService)).not.toBe(two.get(LockService));
    await using _held = await one.get(LockService).acquire('room');
    await two.get(Worker).work();
    expect(two.get(Room).most).toBe(1);
    await expect(one.get(LockService).withLock('room', { waitMs: 0 }, () => 1)).rejects.toThrow(/'room'/);
  });

  it('of which one is closed go on locking in the other', async () => {
    const Worker = workerOf(Scope.DEFAULT);
    const [one, two] = await Promise.all([startApp({ providers: [Room, Worker] }), startApp({ providers: [Room, Worker] })]);
    await one.close();
    await two.get(Worker).work();
    await expect(one.get(Worker).work()).rejects.toThrow(/shutting down/);
  });
});

describe('a module that is not global', () => {
  it('locks where it is imported', async () => {
    const Worker = workerOf(Scope.DEFAULT);

    @Module({ imports: [LockModule.forRoot({ embedded: true, isGlobal: false })], providers: [Room, Worker] })
    class WorkModule {}
    const app = await startApp({ imports: [WorkModule] }, LockModule.forRoot({ embedded: true, name: 'unused' }));
    await Promise.all([app.get(Worker).work(), app.get(Worker).work()]);
    expect(app.get(Room).most).toBe(1);
  });
});
