/**
 * Everything that Nest keeps at a method works with a lock, whatever the order of the decorators: each controller below
 * exists three times, without a lock, with the lock above and with the lock below the others.
 */
import { afterEach, describe, expect, it } from '@jest/globals';
import {
  Controller,
  Get,
  HttpCode,
  Injectable,
  Param,
  SetMetadata,
  UseGuards,
  applyDecorators,
  type CanActivate,
  type ExecutionContext,
  type Type,
} from '@nestjs/common';
import { Reflector } from '@nestjs/core';
import { ApiOperation, DocumentBuilder, SwaggerModule } from '@nestjs/swagger';
import request from 'supertest';
import { Locked, LockService } from '../../lib/index.js';
import { startApp } from './application.js';

@Injectable()
class NeedsRole implements CanActivate {
  constructor(private readonly reflector: Reflector) {}

  canActivate(context: ExecutionContext): boolean {
    return this.reflector.get<string>('role', context.getHandler()) === context.switchToHttp().getRequest().headers['x-role'];
  }
}

/** Checks that the handler really runs inside its lock, unless the variant has none. */
function inside(locks: LockService | undefined, key: string): void {
  locks?.assertLocked(key);
}

const noLock: MethodDecorator = () => undefined;

function variant(above: MethodDecorator, below: MethodDecorator, locked: boolean): Type {
  @Controller('shop')
  class Shop {
    private readonly held: LockService | undefined;

    constructor(locks: LockService) {
      this.held = locked ? locks : undefined;
    }

    @above
    @SetMetadata('role', 'clerk')
    @UseGuards(NeedsRole)
    @Get('role/:id')
    @below
    async role(@Param('id') id: string): Promise<string> {
      inside(this.held, `order:${id}`);
      return id;
    }

    @above
    @applyDecorators(Get('composed/:id'), HttpCode(203), UseGuards(NeedsRole), SetMetadata('role', undefined))
    @below
    async composed(@Param('id') id: string): Promise<string> {
      inside(this.held, `order:${id}`);
      return id;
    }

    @above
    @ApiOperation({ summary: 'described' })
    @Get('described/:id')
    @below
    async described(@Param('id') id: string): Promise<string> {
      return id;
    }
  }
  return Shop;
}

const lock = Locked('order:<0>') as MethodDecorator;
const variants: [string, Type][] = [
  ['without a lock', variant(noLock, noLock, false)],
  ['with the lock above the other decorators', variant(lock, noLock, true)],
  ['with the lock below the other decorators', variant(noLock, lock, true)],
  ['with the lock composed by applyDecorators', variant(applyDecorators(lock), noLock, true)],
];

describe.each(variants)('a controller %s', (_name, controller) => {
  const start = async () => (await startApp({ controllers: [controller] })).getHttpServer();

  it('asks its guard about the metadata of the handler', async () => {
    const server = await start();
    await request(server).get('/shop/role/7').set('x-role', 'clerk').expect(200, '7');
    await request(server).get('/shop/role/7').set('x-role', 'thief').expect(403);
  });

  it('keeps what composed decorators say', async () => {
    const server = await start();
    await request(server).get('/shop/composed/7').expect(203, '7');
    await request(server).get('/shop/composed/7').set('x-role', 'clerk').expect(403);
  });

  it('keeps its description for swagger', async () => {
    const app = await startApp({ controllers: [controller] });
    const document = SwaggerModule.createDocument(app, new DocumentBuilder().build());
    expect(document.paths['/shop/described/{id}']?.get?.summary).toBe('described');
  });
});

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
