import { describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import { Observable } from 'rxjs';
import { LockClosedError, Locked, lockKey, LockKeyError, LockModule, LockService, LockTimeoutError, LockUsageError, ReadLock, WriteLock } from '../../lib/index.js';
import { Gate, startApp, until } from './application.js';

interface Order {
  id?: string;
}

@Injectable()
class OrderService {
  readonly seen: string[] = [];
  inside = 0;
  most = 0;
  gate: Gate | undefined;

  constructor(readonly locks: LockService) {}

  @Locked('order:<0.id>')
  async pay(order: Order, amount: number = 1): Promise<string> {
    return this.work(`${order.id}:${amount}`);
  }

  @ReadLock('catalog')
  async look(): Promise<string> {
    return this.work('look');
  }

  @Locked('catalog', { mode: 'read' })
  async browse(): Promise<string> {
    return this.work('browse');
  }

  @WriteLock('catalog')
  async change(): Promise<string> {
    return this.work('change');
  }

  @Locked(['stock:<0>', (sku: string) => `audit:${sku}`])
  async both(_sku: string): Promise<readonly string[]> {
    return this.locks.currentLease()?.keys ?? [];
  }

  @Locked((orders: Order[]) => orders.map(({ id }) => `order:${id}`))
  async all(orders: Order[]): Promise<readonly string[]> {
    return orders.length > 0 ? (this.locks.currentLease()?.keys ?? []) : [];
  }

  @Locked((order: Order) => `order:${order.id}`)
  async byFunction(order: Order): Promise<number> {
    return this.locks.assertLocked(`order:${order.id}`).fence;
  }

  @Locked('order:<0>', { onBusy: 'skip' })
  async skipping(_id: string): Promise<string | undefined> {
    return this.work('skipping');
  }

  @Locked('order:<0>', { onBusy: (id: string) => `busy ${id}` })
  async falling(_id: string): Promise<string> {
    return this.work('falling');
  }

  @Locked('order:<0>', { onBusy: 'skip' })
  async skippingButInside(id: string): Promise<void> {
    await this.locks.withLock(`inner:${id}`, { waitMs: 0 }, () => undefined);
  }

  @Locked('order:<0>')
  async failing(_id: string): Promise<never> {
    throw new RangeError('no money');
  }

  @Locked('outer:<0>')
  @ReadLock('inner:<0>')
  async twice(id: string): Promise<string[]> {
    return [this.locks.assertLocked(`outer:${id}`).mode, this.locks.assertLocked(`inner:${id}`, 'read').mode];
  }

  @Locked('line:<0>:<1>', { waitMs: 0 })
  async keyOfLine(_shop: string, _id: string): Promise<string | undefined> {
    return this.locks.currentLease()?.key;
  }

  @Locked('order:<0>', { label: 'payment of the web shop' })
  async labelled(id: string): Promise<(string | undefined)[]> {
    return (await this.locks.inspect(`order:${id}`)).holders.map(({ label }) => label);
  }

  private async work(result: string): Promise<string> {
    this.inside += 1;
    this.most = Math.max(this.most, this.inside);
    await (this.gate?.opened ?? new Promise(setImmediate));
    this.inside -= 1;
    return result;
  }
}

async function start() {
  const app = await startApp({ providers: [OrderService] });
  return { app, orders: app.get(OrderService), locks: app.get(LockService) };
}

describe('a decorated method', () => {
  it('runs one call at a time for its key, and gives its result', async () => {
    const { orders } = await start();
    const results = await Promise.all([1, 2, 3].map((amount) => orders.pay({ id: 'a' }, amount)));
    expect(results).toEqual(['a:1', 'a:2', 'a:3']);
    expect(orders.most).toBe(1);
  });

  it('runs beside calls for other keys', async () => {
    const { orders } = await start();
    await Promise.all(['a', 'b', 'c'].map((id) => orders.pay({ id })));
    expect(orders.most).toBe(3);
  });

  it('gives its lock back when it is done, and when it fails', async () => {
    const { orders, locks } = await start();
    await orders.pay({ id: 'a' });
    expect(await locks.isLocked('order:a')).toBe(false);
    await expect(orders.failing('a')).rejects.toThrow(new RangeError('no money'));
    expect(await locks.isLocked('order:a')).toBe(false);
  });

  it('holds the lock that LockService means by the rendered key, and says who it is', async () => {
    const { orders, locks } = await start();
    orders.gate = new Gate();
    const paid = orders.pay({ id: 'a:b' });
    await until(() => orders.inside === 1);
    const { mode, holders } = await locks.inspect('order:a:b');
    expect({ mode, labels: holders.map(({ label }) => label) }).toEqual({ mode: 'write', labels: ['OrderService.pay'] });
    orders.gate.release();
    await paid;
  });

  it.each(['a:b', '50%', 'urn:isbn:0451450523', '::1', '{a}', 'a%3Ab', 'a\nb'])('of the template order:<0> and withLock of the string order:%s exclude each other', async (id) => {
    const { orders, locks } = await start();
    await locks.withLock(`order:${id}`, async (lease) => {
      const beside = await locks.detached(() => orders.skipping(id));
      expect([beside, lease.key]).toEqual([undefined, `order:${id}`]);
    });
    expect(await orders.skipping(id)).toBe('skipping');
  });

  it('of several placeholders holds the lock that lockKey names', async () => {
    const { orders, locks } = await start();
    for (const [shop, id] of [['a:b', 'c'], ['a', 'b:c'], ['a%3Ab', '{c}']] as const) {
      expect(await orders.keyOfLine(shop, id)).toBe(lockKey`line:${shop}:${id}`);
      await using _held = await locks.acquire(lockKey`line:${shop}:${id}`);
      await expect(locks.detached(() => orders.keyOfLine(shop, id))).rejects.toThrow(LockTimeoutError);
    }
  });

  it.each([true, false])('says of itself what its label says, with describeHolders: %s', async (describeHolders) => {
    const app = await startApp({ providers: [OrderService] }, LockModule.forRoot({ embedded: true, describeHolders }));
    expect(await app.get(OrderService).labelled('a')).toEqual(['payment of the web shop']);
  });

  it('of readers runs many calls at a time, of writers one', async () => {
    const { orders } = await start();
    await Promise.all([orders.look(), orders.look(), orders.look()]);
    expect(orders.most).toBe(3);
    orders.most = 0;
    await Promise.all([orders.browse(), orders.look()]);
    expect(orders.most).toBe(2);
    orders.most = 0;
    await Promise.all([orders.change(), orders.change()]);
    expect(orders.most).toBe(1);
  });

  it('takes all of several keys', async () => {
    const { orders } = await start();
    expect(await orders.both('7')).toEqual(['audit:7', 'stock:7']);
    expect(await orders.all([{ id: 'b' }, { id: 'a' }, { id: 'b' }])).toEqual(['order:a', 'order:b']);
    await expect(orders.all([])).rejects.toBeInstanceOf(LockKeyError);
  });

  it('sees its lease, its fence rising from call to call', async () => {
    const { orders } = await start();
    const first = await orders.byFunction({ id: 'a' });
    expect(await orders.byFunction({ id: 'a' })).toBeGreaterThan(first);
  });

  it('may have two locks of different modes', async () => {
    const { orders } = await start();
    expect(await orders.twice('a')).toEqual(['write', 'read']);
  });

  it('keeps its name and its length', () => {
    expect(OrderService.prototype.pay.name).toBe('pay');
    expect(OrderService.prototype.pay.length).toBe(1);
  });

  it('leaves no visible trace on its object', async () => {
    const { orders } = await start();
    expect(Object.keys(orders).sort()).toEqual(['inside', 'locks', 'most', 'seen']);
    expect(Object.getOwnPropertySymbols({ ...orders })).toEqual([]);
  });

  it('leaves its object and its class to a Proxy that hides symbols', async () => {
    const { orders } = await start();
    const hiding = (target: object) => new Proxy(target, { ownKeys: (of) => Reflect.ownKeys(of).filter((key) => typeof key === 'string') });
    expect(Object.keys(hiding(orders))).toContain('seen');
    expect(Object.keys(hiding(OrderService.prototype))).toEqual([]);
  });
});

describe('a key that cannot be made', () => {
  it('rejects with the method, the placeholder and the argument, and the method does not run', async () => {
    const { orders } = await start();
    const refused = orders.pay({});
    await expect(refused).rejects.toBeInstanceOf(LockKeyError);
    await expect(refused).rejects.toThrow(/OrderService\.pay.*<0\.id> \(argument 0\) is undefined/);
    expect(orders.most).toBe(0);
  });

  it.each([[undefined], [NaN], [{}], [Promise.resolve('a')]])('by a function of %s rejects as well', async (id) => {
    const { orders } = await start();
    await expect(orders.byFunction({ id } as never)).rejects.toThrow(/OrderService\.byFunction: its key function made/);
  });
});

describe('a key function that names no lock', () => {
  it('is an error that names its method', async () => {
    class Orders {
      @Locked((ids: string[]) => ids)
      async all(_ids: string[]): Promise<void> {}
    }
    const app = await startApp({ providers: [Orders] });
    await expect(app.get(Orders).all([])).rejects.toThrow('Orders.all: its key function must name at least one lock, got [].');
  });
});

describe('a busy lock', () => {
  it('is an error of its own that has nothing to do with HTTP', async () => {
    const { orders, locks } = await start();
    await locks.withLock('order:a', async () => {
      await expect(locks.detached(() => locks.withLock('order:a', { waitMs: 0 }, () => 1))).rejects.toBeInstanceOf(LockTimeoutError);
    });
    expect(orders.inside).toBe(0);
  });

  it('is skipped at once by a method that says so', async () => {
    const { orders, locks } = await start();
    await using _held = await locks.acquire('order:a');
    expect(await orders.skipping('a')).toBeUndefined();
    expect(await orders.skipping('b')).toBe('skipping');
  });

  it('is answered by the fallback with the arguments of the call', async () => {
    const { orders, locks } = await start();
    await using _held = await locks.acquire('order:a');
    expect(await orders.falling('a')).toBe('busy a');
    expect(await orders.falling('b')).toBe('falling');
  });

  it('is not what a call meets that has no key, or comes after the shutdown: those are errors', async () => {
    const { app, orders } = await start();
    for (const call of [(id: string) => orders.skipping(id), (id: string) => orders.falling(id)]) {
      await expect(call(undefined as never)).rejects.toBeInstanceOf(LockKeyError);
    }
    await app.close();
    await expect(orders.skipping('a')).rejects.toBeInstanceOf(LockClosedError);
  });

  it('that the method itself asked for is not skipped: it is the error of the method', async () => {
    const { orders, locks } = await start();
    await using _held = await locks.acquire('inner:a');
    await expect(orders.skippingButInside('a')).rejects.toBeInstanceOf(LockTimeoutError);
  });
});

describe('an object that Nest did not make', () => {
  it('rejects with a sentence that says so', async () => {
    const { locks } = await start();
    const alone = new OrderService(locks);
    const refused = alone.pay({ id: 'a' });
    await expect(refused).rejects.toBeInstanceOf(LockUsageError);
    await expect(refused).rejects.toThrow(/OrderService\.pay is locked, but its object was not made by Nest/);
  });

  it('or whose constructor calls the method rejects with a sentence that says that as well', async () => {
    @Injectable()
    class Hasty {
      readonly warmed: Promise<void>;

      constructor() {
        this.warmed = this.warm();
        this.warmed.catch(() => undefined);
      }

      @Locked('warm')
      async warm(): Promise<void> {}
    }
    const hasty = (await startApp({ providers: [Hasty] })).get(Hasty);
    await expect(hasty.warmed).rejects.toThrow(/^Hasty\.warm is locked, but .* or its constructor called it: so it has no lock module\. /);
    await hasty.warm();
  });

  it('is told apart from a method called without its object', async () => {
    const { orders } = await start();
    const { pay } = orders;
    await expect(pay({ id: 'a' })).rejects.toThrow(/called without its object \(this is undefined\)/);
    await expect(pay.call(null as never, { id: 'a' })).rejects.toThrow(/called without its object/);
    expect(await pay.call(orders, { id: 'a' })).toBe('a:1');
  });
});

describe('what is no method of an object', () => {
  it('is refused when the class is defined', () => {
    const decorate = Locked('a') as MethodDecorator;
    class Shop {
      static open() {}
      get size() {
        return 1;
      }
    }
    const member = (target: object, name: string) => decorate(target, name, Object.getOwnPropertyDescriptor(target, name)!);
    expect(() => member(Shop, 'open')).toThrow(/Shop\.open is static/);
    expect(() => member(Shop.prototype, 'size')).toThrow(/Shop\.size is no method/);
    expect(() => (decorate as PropertyDecorator)(Shop.prototype, 'name')).toThrow(/^Shop\.name is a property, and @Locked decorates methods/);
    expect(() => (decorate as PropertyDecorator)(Shop.prototype, Symbol('name'))).toThrow(/^Shop\.Symbol\(name\) is a property/);
  });

  it.each<[string, unknown[]]>([
    ['a class', [class Shop {}]],
    ['a method by the decorators of the standard', [() => undefined, { kind: 'method', name: 'open' }]],
  ])('is told of the decorators that Nest needs when it is %s', (_what, given) => {
    expect(() => Reflect.apply(Locked('a') as CallableFunction, undefined, given)).toThrow(
      new LockUsageError('@Locked decorates methods, with "experimentalDecorators" switched on as Nest needs it.'),
    );
  });

  it('a malformed template names class and method when the class is defined', () => {
    expect(() => {
      class Shop {
        @Locked('order:<0' as string)
        async pay(_id: string) {}
      }
      return Shop;
    }).toThrow(/^Shop\.pay: the key template 'order:<0' is malformed/);
  });
});

@Injectable()
class MailService {
  inside = 0;
  most = 0;
  gate: Gate | undefined;

  constructor(readonly locks: LockService) {}

  @Locked('smtp', { permits: 3 })
  async send(): Promise<number> {
    return this.work();
  }

  @Locked('smtp', { permits: 3, onBusy: 'skip' })
  async sendIfFree(): Promise<number | undefined> {
    return this.work();
  }

  @Locked('smtp', { permits: 3, returns: 'observable' })
  stream(): Observable<number> {
    return new Observable((subscriber) => {
      this.inside += 1;
      subscriber.next(this.inside);
      return () => (this.inside -= 1);
    });
  }

  private async work(): Promise<number> {
    this.inside += 1;
    this.most = Math.max(this.most, this.inside);
    await this.gate?.opened;
    await new Promise((resolve) => setImmediate(resolve));
    this.inside -= 1;
    return 1;
  }
}

const embedded = { providers: [MailService] };

describe('A method with permits', () => {
  it('runs that many times at once, and no more', async () => {
    const mail = (await startApp(embedded)).get(MailService);
    mail.gate = new Gate();
    const calls = Array.from({ length: 8 }, () => mail.send());
    await until(() => mail.inside === 3);
    expect(await mail.locks.inspect('smtp')).toMatchObject({ mode: 'write', permits: 3, holders: [{ label: 'MailService.send' }, {}, {}] });
    expect(await mail.sendIfFree()).toBeUndefined();
    mail.gate.release();
    expect(await Promise.all(calls)).toEqual(new Array(8).fill(1));
    expect(mail.most).toBe(3);
    expect(await mail.sendIfFree()).toBe(1);
    expect(await mail.locks.inspect('smtp')).toMatchObject({ mode: null, holders: [] });
  });

  it('and a stream keeps its permit from subscription to unsubscription', async () => {
    const mail = (await startApp(embedded)).get(MailService);
    const subscriptions = Array.from({ length: 5 }, () => mail.stream().subscribe());
    await until(() => mail.inside === 3);
    for (const subscription of subscriptions.slice(0, 3)) subscription.unsubscribe();
    await until(() => mail.inside === 2);
    for (const subscription of subscriptions) subscription.unsubscribe();
    await until(async () => !(await mail.locks.isLocked('smtp')));
  });
});

describe('An application boots only where permits can be kept', () => {
  const app = (decorate: MethodDecorator): Promise<unknown> => {
    @Injectable()
    class Shop {
      async pay(): Promise<void> {}
    }
    decorate(Shop.prototype, 'pay', Object.getOwnPropertyDescriptor(Shop.prototype, 'pay')!);
    return startApp({ providers: [Shop] });
  };

  it.each<[string, MethodDecorator, RegExp]>([
    ['for readers', ReadLock('k', { permits: 3 } as object), /Shop\.pay.*permits do not go with mode 'read'/],
    ['for several keys', Locked(['a', 'b'], { permits: 3 }), /Shop\.pay.*permits \(3\) are those of one lock, and this call is for 2/],
    ['for an owner', Locked('k', { permits: 3, owner: 'me' }), /permits do not go with owner/],
    ['in such a number', Locked('k', { permits: 20_000 }), /permits to be a whole number from 1 to 10000, got 20000/],
  ])('and not %s', async (_what, decorate, words) => {
    const booted = app(decorate);
    await expect(booted).rejects.toBeInstanceOf(LockUsageError);
    await expect(booted).rejects.toThrow(words);
  });
});
