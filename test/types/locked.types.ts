/** Which methods a lock decorator accepts. Checked by `npm run typecheck`; nothing here runs. */
import { applyDecorators, HttpCode } from '@nestjs/common';
import { expectTypeOf } from 'expect-type';
import { of, type Observable } from 'rxjs';
import {
  Leader, Locked, lockKey, LockInterceptor, LockModule, ReadLock, WriteLock, type Lease, type LockedOptions, type LockLostError,
  type LockModuleOptions, type LockService, type LockStoreError, type LockTimeoutError,
} from 'nestjs-holdfast';

interface Order {
  readonly id: string;
}

export abstract class Leaders {
  @Leader('a', { restMs: 5_000, leaseMs: 10_000, instance: 'billing' })
  async leads(term: Lease): Promise<void> {
    term.signal.throwIfAborted();
  }

  @Leader('a')
  async needsNoTerm(): Promise<void> {}

  @applyDecorators(Leader('a'))
  async applied(): Promise<void> {}

  // @ts-expect-error -- nobody would read what it returns
  @Leader('a')
  async gives(): Promise<number> { return 1; }

  // @ts-expect-error -- the term would end before the work does
  @Leader('a')
  sync(): void {}

  // @ts-expect-error -- it is called with the term alone
  @Leader('a')
  async needsMore(_term: Lease, _more: string): Promise<void> {}

  // @ts-expect-error -- a candidate waits for ever
  @Leader('a', { waitMs: 10 })
  async waits(): Promise<void> {}
}

export class Fields {
  // @ts-expect-error -- a field is no method
  @Locked('a')
  locked = async (): Promise<void> => {};

  // @ts-expect-error -- a field is no method
  @ReadLock('a')
  read = async (): Promise<void> => {};

  // @ts-expect-error -- a field is no method
  @Leader('a')
  leads = async (): Promise<void> => {};
}

export abstract class Methods {
  // Results
  @Locked('a')
  async promise(): Promise<number> { return 1; }

  @Locked('a')
  anything(): any {}

  @Locked('a')
  promiseLike(): PromiseLike<number> { return Promise.resolve(1); }

  @Locked('a:<0.id>')
  async generic<T extends Order>(order: T): Promise<T> {
    return order;
  }

  // @ts-expect-error -- it returns no Promise
  @Locked('a')
  sync(): number { return 1; }

  // @ts-expect-error -- it may return no Promise
  @Locked('a')
  mixed(): Promise<number> | number { return 1; }

  // @ts-expect-error -- an Observable needs the option
  @Locked('a')
  stream(): Observable<number> { return of(1); }

  @Locked('a', { returns: 'observable' })
  observable(): Observable<number> { return of(1); }

  // @ts-expect-error -- it returns no Observable
  @Locked('a', { returns: 'observable' })
  async noObservable(): Promise<number> { return 1; }

  // @ts-expect-error -- a generator is neither
  @Locked('a')
  async *generator(): AsyncGenerator<number> {
    yield 1;
  }

  // Keys
  @ReadLock('order:<0.id>')
  async read(_order: Order): Promise<void> {}

  @WriteLock(['order:<0.id>', (order: Order) => `audit:${order.id}`])
  async write(_order: Order): Promise<void> {}

  // @ts-expect-error -- there is no fourth argument
  @Locked('order:<3>')
  async index(_order: Order, _amount: number): Promise<void> {}

  // @ts-expect-error -- there is no such property
  @ReadLock('order:<0.ID>')
  async path(_order: Order): Promise<void> {}

  // @ts-expect-error -- the function wants something else
  @WriteLock((id: string) => id)
  async keyFunction(_order: Order): Promise<void> {}

  @Locked('order:<0.ID>' as string)
  async unknownTemplate(_order: Order): Promise<void> {}

  // onBusy
  @Locked('a', { onBusy: 'skip' })
  async skipVoid(): Promise<void> {}

  @Locked('a', { onBusy: 'skip' })
  async skipMaybe(): Promise<number | undefined> { return 1; }

  // @ts-expect-error -- the caller does not expect undefined
  @Locked('a', { onBusy: 'skip' })
  async skipNumber(): Promise<number> { return 1; }

  // @ts-expect-error -- null is not undefined
  @Locked('a', { onBusy: 'skip' })
  async skipNull(): Promise<number | null> { return 1; }

  @Locked('a', { returns: 'observable', onBusy: 'skip' })
  skipStream(): Observable<number> { return of(1); }

  @Locked('a:<0.id>', { onBusy: (order: Order) => order.id.length })
  async fallback(_order: Order): Promise<number> { return 1; }

  @Locked('a', { onBusy: async () => 1 })
  async asyncFallback(): Promise<number> {
    return 1;
  }

  @Locked('a', { onBusy: () => of(1), returns: 'observable' })
  streamFallback(): Observable<number> {
    return of(1);
  }

  // @ts-expect-error -- the fallback wants other arguments
  @Locked('a', { onBusy: (id: number) => id })
  async fallbackArguments(_order: Order): Promise<number> {
    return 1;
  }

  // @ts-expect-error -- the fallback gives something else
  @Locked('a', { onBusy: () => 'busy' })
  async fallbackResult(): Promise<number> {
    return 1;
  }

  // signal
  @Locked('a:<0.id>', { signal: (_order: Order, stop: AbortSignal) => stop })
  async stops(_order: Order, _stop: AbortSignal): Promise<void> {}

  @Locked('a:<0.id>', { signal: (_order: Order, stop?: AbortSignal) => stop, onBusy: 'skip' })
  async stopsPerhaps(_order: Order, _stop?: AbortSignal): Promise<void> {}

  @ReadLock('a:<0.id>', { signal: (order: Order) => signals.get(order.id), returns: 'observable' })
  stopsStream(_order: Order): Observable<number> {
    return of(1);
  }

  @WriteLock('a', { signal: AbortSignal.timeout(1) })
  async stopsAll(): Promise<void> {}

  @Locked('a', { signal: (stop: SdkSignal) => stop })
  async stopsByAnSdk(_stop: SdkSignal): Promise<void> {}

  @Locked('a', { signal: sdkSignal })
  async stopsAllByAnSdk(): Promise<void> {}

  // @ts-expect-error -- nobody can listen to it
  @Locked('a', { signal: { aborted: false } })
  async noListener(): Promise<void> {}

  // @ts-expect-error -- the function wants other arguments
  @Locked('a', { signal: (stop: AbortSignal) => stop })
  async signalArguments(_order: Order): Promise<void> {}

  // @ts-expect-error -- there is no second argument
  @ReadLock('a', { signal: (_order: Order, stop: AbortSignal) => stop })
  async signalOfNothing(_order: Order): Promise<void> {}

  // @ts-expect-error -- a number of ms stops nothing
  @Locked('a', { signal: 5_000 })
  async noSignal(): Promise<void> {}

  // @ts-expect-error -- nor does a promise
  @Locked('a', { signal: async () => AbortSignal.abort() })
  async lateSignal(): Promise<void> {}

  // this
  readonly tenant: string = 'a';
  private readonly hiddenTenant: string = 'a';

  @Locked(function (this: Methods, order: Order) {
    return `${this.tenant}:${this.hiddenTenant}:${order.id}`;
  })
  async keyOfObject(_order: Order): Promise<void> {}

  @ReadLock(['a:<0.id>', function (this: { readonly tenant: string }) {
    return this.tenant;
  }])
  async keyOfWhatHasATenant(_order: Order): Promise<void> {}

  @Locked('a', {
    onBusy(this: Methods) {
      return this.tenant.length;
    },
    signal(this: Methods) {
      return signals.get(this.tenant);
    },
  })
  async optionsOfObject(): Promise<number> {
    return 1;
  }

  // @ts-expect-error -- the objects of this class have no shop
  @Locked(function (this: { readonly shop: string }) {
    return this.shop;
  })
  async keyOfAnotherObject(): Promise<void> {}

  // @ts-expect-error -- nor as one of several keys
  @Locked(['a', function (this: { readonly shop: string }) {
    return this.shop;
  }])
  async keysOfAnotherObject(): Promise<void> {}

  // @ts-expect-error -- nor for the fallback
  @Locked('a', {
    onBusy(this: { readonly shop: number }) {
      return this.shop;
    },
  })
  async fallbackOfAnotherObject(): Promise<number> {
    return 1;
  }

  // @ts-expect-error -- nor for the signal
  @Locked('a', {
    signal(this: { readonly shop: AbortSignal }) {
      return this.shop;
    },
  })
  async signalOfAnotherObject(): Promise<void> {}

  // @ts-expect-error -- the arguments count beside this
  @Locked(function (this: Methods, order: Order) {
    return order.id;
  })
  async keyOfOtherArguments(_id: string): Promise<void> {}

  // Options are exact
  @Locked('a', { leaseMs: 5_000, waitMs: 0, renew: false, maxHoldMs: 60_000, onLost: 'ignore', instance: 'billing' })
  async options(): Promise<void> {}

  // @ts-expect-error -- a typing error is not an option
  @Locked('a', { leasMs: 5_000 })
  async typingError(): Promise<void> {}

  @Locked('a', { permits: 5, onBusy: 'skip' })
  @WriteLock('b', { permits: 5 })
  async permits(): Promise<void> {}

  // @ts-expect-error -- readers share a lock without a number
  @ReadLock('a', { permits: 5 })
  async permitsToRead(): Promise<void> {}

  // @ts-expect-error -- the name says the mode
  @ReadLock('a', { mode: 'write' })
  async twoModes(): Promise<void> {}

  @Locked('a', { mode: 'read' })
  async mode(): Promise<void> {}

  // Options that are only known as such are checked at run time
  @Locked('a', someOptions)
  async wide(): Promise<number> {
    return 1;
  }

  // @ts-expect-error -- still it must be one of the two
  @Locked('a', someOptions)
  wideSync(): number {
    return 1;
  }

  @applyDecorators(Locked('order:<0>'), HttpCode(202))
  async composed(_id: string): Promise<void> {}

  @Locked('a')
  private async hidden(): Promise<void> {}

  abstract use(): void;

  protected touch(): Promise<void> {
    return this.hidden();
  }
}

/** What depends on a type parameter of the class is checked at the call; all else is checked here as anywhere. */
export abstract class Records<T extends Order, Id extends string | number, Anything> {
  @Locked('record:<0.id>')
  async save(record: T): Promise<T> {
    return record;
  }

  @ReadLock('record:<0>:<1>')
  async find(_id: Id, _other: T['id']): Promise<T | undefined> {
    return undefined;
  }

  @WriteLock((record: Order) => record.id)
  async keyFunction(_record: T): Promise<void> {}

  @Locked('record', { onBusy: 'skip' })
  async skip(): Promise<Anything | undefined> {
    return undefined;
  }

  @Locked('record:<0.id>', { signal: (_record: Order, stop: AbortSignal) => stop })
  async stops(_record: T, _stop: AbortSignal): Promise<void> {}

  @Locked('record:<0>', { returns: 'observable' })
  watch(_id: string): Observable<Anything> {
    return of();
  }

  // @ts-expect-error -- there is no second argument
  @Locked('record:<1>')
  async index(_record: T): Promise<void> {}

  // @ts-expect-error -- it returns no Promise
  @Locked('record:<0.id>')
  sync(record: T): T[] {
    return [record];
  }

  // @ts-expect-error -- there is no such property
  @Locked('record:<0.ID>')
  async path(_record: Order, _other: T): Promise<void> {}
}

declare const someOptions: LockedOptions;
declare const signals: Map<string, AbortSignal>;

/** A signal as SDKs have it, such as AbortSignalLike of Azure: no `throwIfAborted`, and no `reason`. */
interface SdkSignal {
  readonly aborted: boolean;
  addEventListener(type: 'abort', listener: (this: SdkSignal, event: unknown) => unknown, options?: unknown): void;
  removeEventListener(type: 'abort', listener: (this: SdkSignal, event: unknown) => unknown, options?: unknown): void;
}
declare const sdkSignal: SdkSignal;
declare const locks: LockService;

// LockService
expectTypeOf(locks.withLock('a', () => 1)).resolves.toEqualTypeOf<number>();
expectTypeOf(locks.withLock(['a', 'b'], { waitMs: 0 }, async (lease) => lease.fences)).resolves.toEqualTypeOf<ReadonlyMap<string, number>>();
expectTypeOf(locks.acquire('a', { signal: sdkSignal })).resolves.toEqualTypeOf<Lease>();
expectTypeOf(locks.tryAcquire('a')).resolves.toEqualTypeOf<Lease | null>();
expectTypeOf<Lease['fence']>().toEqualTypeOf<number>();

// What is about one lock always names it
expectTypeOf<LockTimeoutError['key']>().toEqualTypeOf<string>();
expectTypeOf<LockLostError['key']>().toEqualTypeOf<string>();
expectTypeOf<LockStoreError['key']>().toEqualTypeOf<string | undefined>();

// Modules
LockModule.forRoot();
LockModule.forRoot({ redis: 'redis://localhost', name: 'billing', isGlobal: false });
LockModule.forRoot({ redis: { cluster: [{ host: 'a', port: 1 }] } });
LockModule.forRoot({ redis: ['redis://a', { host: 'b' }, 'redis://c'] });
LockModule.forRoot({ redis: { sentinels: [{ host: 'a', port: 1 }], name: 'main' } });
LockModule.forRootAsync({ inject: [], useFactory: async () => ({ redis: 'redis://localhost' }), name: 'billing' });
// @ts-expect-error -- a typing error is not an option
LockModule.forRoot({ ttl: 5 });
// @ts-expect-error -- nor is it behind a factory
LockModule.forRootAsync({ useFactory: () => ({ redis: 7 }) });
expectTypeOf<LockModuleOptions>().toHaveProperty('prefix');

// Routes
LockInterceptor.of('cart:<user.id>', { waitMs: 0 });
LockInterceptor.of((context) => `cart:${context.switchToHttp().getRequest().user.id}`);
LockInterceptor.of('cart', { signal: (context) => context.switchToHttp().getRequest().signal });
LockInterceptor.of('cart', { signal: (context) => context.switchToHttp().getRequest<{ signal: SdkSignal }>().signal });
// @ts-expect-error -- what the function gives is no signal
LockInterceptor.of('cart', { signal: (context) => context.getType() });
// @ts-expect-error -- a route answers with what its handler gives
LockInterceptor.of('cart:<user.id>', { onBusy: 'skip' });

// The tag for keys outside of decorators
declare const maybe: string | undefined;
expectTypeOf(lockKey`order:${'a'}:${7}:${7n}:${true}:${new Date()}`).toEqualTypeOf<string>();
// @ts-expect-error -- it may be undefined
void lockKey`order:${maybe}`;
// @ts-expect-error -- null is no id
void lockKey`order:${null}`;
// @ts-expect-error -- it is a tag
void lockKey('order:7');
