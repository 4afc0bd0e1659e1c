/** What decorators below and above a lock find at the method. That its metadata, guards and answers are those without a lock shows `matrix.test.ts`. */
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
    expect(seen).toEqual([
      { name: 'pay', length: 2, parameters: ['order', 'amount'] },
      { name: 'close', length: 1, parameters: ['till'] },
    ]);
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
});
