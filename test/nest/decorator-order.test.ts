/** What decorators below and above a lock, and agents that wrap providers, find at the method. That its metadata, guards and answers are those without a lock shows `matrix.test.ts`. */
import { afterEach, describe, expect, it } from '@jest/globals';
import { Injectable, SetMetadata } from '@nestjs/common';
import { Locked, LockService } from '../../lib/index.js';
import { startApp } from './application.js';

describe('metadata of a locked method', () => {
  const own = Symbol('own');
  const late = Symbol('late');
  let original: object | undefined;

  const remember: MethodDecorator = (_target, _property, descriptor) => {
    original = descriptor.value as object;
  };

  class Shop {
    @Locked('shop')
    @SetMetadata(own, 'own')
    @remember
    async pay(): Promise<void> {}
  }

  afterEach(() => void Reflect.deleteMetadata(late, original!));

  it('is own metadata, for those who ask for that', () => {
    expect(Reflect.getOwnMetadata(own, Shop.prototype.pay)).toBe('own');
    expect(Reflect.getMetadataKeys(Shop.prototype.pay)).toContain(own);
  });

  it('is found as well when a decorator below adds it to the function only later', () => {
    Reflect.defineMetadata(late, 'late', original!);
    expect(Reflect.getMetadata(late, Shop.prototype.pay)).toBe('late');
  });
});

describe('a decorator above the lock that looks at the function', () => {
  /** The names of the parameters, read from the source as murlock reads them. */
  function parameterNames(method: object): string[] {
    const source = method.toString();
    return source.slice(source.indexOf('(') + 1, source.indexOf(')')).split(',').map((name) => name.trim());
  }

  const seen: { name: string; length: number; parameters: string[] }[] = [];
  const look: MethodDecorator = (_target, _property, { value }) => {
    const method = value as CallableFunction;
    seen.push({ name: method.name, length: method.length, parameters: parameterNames(method) });
  };
  const ownText: MethodDecorator = (_target, _property, { value }) => void Object.assign(value as object, { toString: () => 'own(text)' });

  afterEach(() => void seen.splice(0));

  it('sees its name, its length and its source, also above several locks', () => {
    class Shop {
      @look
      @Locked('shop:<0>')
      async pay(order: string, amount: number): Promise<string> {
        return `${order}:${amount}`;
      }

      @look
      @Locked('shop')
      @Locked('till')
      async close(till: string): Promise<string> {
        return till;
      }
    }
    expect(seen).toEqual([{ name: 'pay', length: 2, parameters: ['order', 'amount'] }, { name: 'close', length: 1, parameters: ['till'] }]);
    expect(String(Shop.prototype.pay)).toContain('${order}:${amount}');
  });

  it('sees the text that the method has of its own', () => {
    class Shop {
      @look
      @Locked('shop')
      @ownText
      async pay(order: string): Promise<string> {
        return order;
      }
    }
    expect(seen).toEqual([{ name: 'pay', length: 1, parameters: ['text'] }]);
    expect(String(Shop.prototype.pay)).toBe('own(text)');
  });

  it('may freeze it: the application boots, and the metadata from below the lock is still found', async () => {
    const own = Symbol('own');
    const freeze: MethodDecorator = (_target, _property, { value }) => void Object.freeze(value);

    @Injectable()
    class Shop {
      constructor(readonly locks: LockService) {}

      @freeze
      @Locked('shop')
      @SetMetadata(own, 'own')
      async pay(): Promise<string | undefined> {
        return this.locks.currentLease()?.key;
      }
    }
    const app = await startApp({ providers: [Shop] });
    expect(await app.get(Shop).pay()).toBe('shop');
    expect(Reflect.getMetadata(own, Shop.prototype.pay)).toBe('own');
    expect(Object.getPrototypeOf(Shop.prototype.pay)).toBe(Object.getPrototypeOf(async () => undefined));
  });

  it('may bind it to its object at the first look: the boot does not read it of the class', async () => {
    const bind: MethodDecorator = (_target, property, { value }) => ({
      get(this: object) {
        const bound = (value as unknown as CallableFunction).bind(this) as never;
        Object.defineProperty(this, property, { value: bound });
        return bound;
      },
    });

    @Injectable()
    class Shop {
      constructor(readonly locks: LockService) {}

      @bind
      @Locked('shop')
      async pay(): Promise<string | undefined> {
        return this.locks.currentLease()?.key;
      }
    }
    expect(await (await startApp({ providers: [Shop] })).get(Shop).pay()).toBe('shop');
  });
});

const spans: string[] = [];
/** A function of another prototype, or with properties of its own, is an object that can be called: a model, a client. An agent leaves it alone. */
const METHODS: readonly unknown[] = [Function.prototype, Object.getPrototypeOf(async () => undefined)];

/** As an APM agent does it: a Proxy around each provider, and a span around each of its methods (@nestjs/observe). */
function traced<T extends object>(provider: T): T {
  return new Proxy(provider, {
    get(target, name, receiver) {
      const value: unknown = Reflect.get(target, name);
      if (typeof value !== 'function' || name === 'constructor' || !METHODS.includes(Object.getPrototypeOf(value)) || Object.keys(value).length > 0) return value;
      return (...args: unknown[]): unknown => {
        spans.push(`${target.constructor.name}.${value.name}`);
        return Reflect.apply(value, receiver, args);
      };
    },
  });
}

@Injectable()
class Orders {
  inside = 0;
  most = 0;

  constructor(private readonly locks: LockService) {}

  @Locked('order:<0>')
  async pay(id: string): Promise<string | undefined> {
    this.most = Math.max(this.most, (this.inside += 1));
    await this.check(id);
    this.inside -= 1;
    return this.locks.currentLease()?.key;
  }

  private async check(_id: string): Promise<void> {
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
}

it.each([
  ['after Nest has made it', { providers: [Orders] }],
  ['in a factory', { providers: [{ provide: Orders, inject: [LockService], useFactory: (locks: LockService) => traced(new Orders(locks)) }] }],
])('A locked method is locked and has a span where the agent wraps its provider %s', async (_name, metadata) => {
  const app = await startApp(metadata);
  const made = app.get(Orders);
  const orders = 'useFactory' in metadata.providers[0]! ? made : traced(made);
  spans.length = 0;
  expect(await Promise.all([orders.pay('7'), orders.pay('7')])).toEqual(['order:7', 'order:7']);
  expect(orders.most).toBe(1);
  expect(spans.sort()).toEqual(['Orders.check', 'Orders.check', 'Orders.pay', 'Orders.pay']);
});
