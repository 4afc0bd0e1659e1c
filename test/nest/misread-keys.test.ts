import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { Controller, Get, Injectable, Logger, UseInterceptors } from '@nestjs/common';
import { Locked, LockInterceptor, LockModule, LockUsageError, ReadLock } from '../../lib/index.js';
import { startAlone } from './application.js';

let warned: unknown[];

beforeEach(() => {
  warned = [];
  jest.spyOn(Logger.prototype, 'warn').mockImplementation((line: unknown) => void warned.push(line));
});
afterEach(() => void jest.restoreAllMocks());

const start = (metadata: object, options = {}) => startAlone({ imports: [LockModule.forRoot({ embedded: true, ...options })], ...metadata });

describe('a key that is the same for every call though it looks otherwise', () => {
  it('is one warning at boot that says how it is meant, and no reason to stop', async () => {
    @Injectable()
    class Orders {
      @Locked('order:{0}')
      async pay(_id: string): Promise<void> {}

      @ReadLock(['order:<0>', 'audit:$0'])
      async look(_id: string): Promise<void> {}

      @Locked(() => 'order:{0}')
      async meant(_id: string): Promise<void> {}

      @Locked('{reports}')
      async report(): Promise<void> {}
    }
    @Injectable()
    class MoreOrders extends Orders {}
    await start({ providers: [Orders, MoreOrders] }, { strictOverrides: true });
    expect(warned).toEqual([
      `Orders.pay: '{0}' in its key 'order:{0}' is text, the same for every call. A placeholder is <0> for the first argument, <0.id> for a property ` +
        `of it, and of a route a path into the request, such as <params.id>. If the text itself is meant, give a function: () => 'order:{0}'.`,
      expect.stringContaining(`Orders.look: '$0' in its key 'audit:$0' is text, the same for every call.`),
    ]);
  });

  it('is told of a route as well', async () => {
    @Controller()
    class Carts {
      @Get()
      @UseInterceptors(LockInterceptor.of('cart:{user.id}'))
      show(): void {}
    }
    await start({ controllers: [Carts] });
    expect(warned).toEqual([expect.stringContaining(`LockInterceptor.of('cart:{user.id}'): '{user.id}' in its key 'cart:{user.id}' is text`)]);
  });
});

describe('a route', () => {
  it('whose options cannot work with those of its module fails the boot, as a method does', async () => {
    @Controller()
    class Slow {
      @Get()
      @UseInterceptors(LockInterceptor.of('slow', { leaseMs: 120_000 }))
      show(): void {}
    }
    const refused = start({ controllers: [Slow] });
    await expect(refused).rejects.toBeInstanceOf(LockUsageError);
    await expect(refused).rejects.toThrow(/LockInterceptor\.of\('slow'\).*expected leaseMs/);
  });
});
