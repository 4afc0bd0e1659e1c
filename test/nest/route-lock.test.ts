import { describe, expect, it } from '@jest/globals';
import {
  Controller, Get, HttpException, Injectable, Param, Res, StreamableFile, UseGuards, UseInterceptors, type CanActivate, type ExecutionContext,
} from '@nestjs/common';
import type { ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { ExecutionContextHost } from '@nestjs/core/helpers/execution-context-host.js';
import { lastValueFrom, of } from 'rxjs';
import request from 'supertest';
import { LockInterceptor, LockKeyError, LockModule, LockService, LockUsageError, type RouteKey } from '../../lib/index.js';
import type { KeyOfCall } from '../../lib/nest/call-key.js';
import { Gate, startApp, until } from './application.js';

@Injectable()
class LogIn implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    const asked = context.switchToHttp().getRequest();
    asked.user = asked.headers['x-user'] ? { id: asked.headers['x-user'] } : undefined;
    return asked.headers['x-user'] !== 'thief';
  }
}

@Controller('cart')
@UseGuards(LogIn)
class Cart {
  inside = 0;
  most = 0;
  readonly gate = new Gate();

  constructor(readonly locks: LockService) {}

  @Get()
  @UseInterceptors(LockInterceptor.of('cart:<user.id>', { waitMs: 30_000 }))
  async show(): Promise<{ key: string | undefined }> {
    this.most = Math.max(this.most, (this.inside += 1));
    await this.gate.opened;
    this.inside -= 1;
    return { key: this.locks.currentLease()?.key };
  }

  @Get('items/:id')
  @UseInterceptors(LockInterceptor.of('cart:<user.id>:<params.id>'))
  item(@Param('id') _id: string): string {
    return String(this.locks.currentLease()?.key);
  }

  @Get('by-function')
  @UseInterceptors(LockInterceptor.of((context) => ['a', `cart:${context.switchToHttp().getRequest().user.id}`]))
  byFunction(): string {
    return String(this.locks.currentLease()?.keys);
  }

  @Get('labelled')
  @UseInterceptors(LockInterceptor.of('cart:<user.id>', { label: 'the cart' }))
  async labelled(): Promise<unknown> {
    return (await this.locks.inspect('cart:ann')).holders.map(({ label }) => label);
  }

  @Get('unlabelled')
  @UseInterceptors(LockInterceptor.of('cart:<user.id>'))
  async unlabelled(): Promise<unknown> {
    return (await this.locks.inspect('cart:ann')).holders.map(({ label }) => label);
  }

  @Get('file')
  @UseInterceptors(LockInterceptor.of('cart:<user.id>'))
  file(): StreamableFile {
    return new StreamableFile(Readable.from(['long']));
  }

  @Get('written')
  @UseInterceptors(LockInterceptor.of('cart:<user.id>'))
  async written(@Res() response: ServerResponse): Promise<void> {
    const held = (): Promise<boolean> => this.locks.isLocked('cart:ann');
    await pipeline(Readable.from((async function* () { yield String(await held()); })()), response);
  }

  @Get('failing')
  @UseInterceptors(LockInterceptor.of('cart:<user.id>'))
  failing(): never {
    throw new HttpException('no cart', 410);
  }

  @Get('busy')
  @UseInterceptors(LockInterceptor.of('busy', { waitMs: 0 }))
  busy(): string {
    return 'free';
  }

  @Get('billing')
  @UseInterceptors(LockInterceptor.of('cart:<user.id>', { instance: 'billing' }))
  billing(): string {
    return String(this.locks.currentLease()?.key);
  }
}

async function start() {
  const app = await startApp({ controllers: [Cart], imports: [LockModule.forRoot({ embedded: true, name: 'billing' })] });
  await app.listen(0, '127.0.0.1');
  const get = (path: string, user?: string) => {
    const asked = request(app.getHttpServer()).get(path);
    return user === undefined ? asked : asked.set('x-user', user);
  };
  return { get, cart: app.get(Cart), locks: app.get(LockService) };
}

describe('a locked route', () => {
  it('runs one request at a time for its key, inside the lease', async () => {
    const { get, cart, locks } = await start();
    const served = Promise.all(['ann', 'ann', 'ann', 'bob'].map((user) => get('/cart', user).expect(200, { key: `cart:${user}` })));
    await until(async () => cart.inside === 2 && (await locks.inspect('cart:ann')).waiters.length > 0, 'a request of each user inside, others waiting');
    cart.gate.release();
    await served;
    expect(cart.most).toBe(2);
  });

  it('makes its key of several parts of the request, escaped where they would not be told apart', async () => {
    const { get } = await start();
    await get('/cart/items/7', 'a:b').expect(200, 'cart:a%3Ab:7');
  });

  it('makes its keys by a function of the execution context', async () => {
    const { get } = await start();
    await get('/cart/by-function', 'ann').expect(200, 'a,cart:ann');
  });

  it('says of itself what its label says', async () => {
    const { get } = await start();
    await get('/cart/labelled', 'ann').expect(200, ['the cart']);
    await get('/cart/unlabelled', 'ann').expect(200, ['Cart.unlabelled']);
  });

  it('is locked only after its guards let the request in', async () => {
    const { get, locks } = await start();
    await using _held = await locks.acquire('cart:thief');
    await get('/cart', 'thief').expect(403);
  });

  it('is not given back while its response is being written: a stream that Nest would send later is refused', async () => {
    const { get } = await start();
    const refused = await get('/cart/file', 'ann').expect(500);
    expect(refused.text).not.toContain('long');
    await get('/cart/written', 'ann').expect(200, 'true');
  });

  it('passes the error of its handler on, and gives the lock back', async () => {
    const { get, locks } = await start();
    await get('/cart/failing', 'ann').expect(410);
    expect(await locks.isLocked('cart:ann')).toBe(false);
  });

  it('that is busy is an error', async () => {
    const { get, locks } = await start();
    await get('/cart/busy').expect(200, 'free');
    await using _held = await locks.acquire('busy');
    await get('/cart/busy').expect(500);
  });

  it('may be kept by a named module', async () => {
    const { get } = await start();
    await get('/cart/billing', 'ann').expect(200, 'undefined');
  });
});

describe('what the placeholders of a route look into', () => {
  /** The key that a route makes of the arguments that its handler would get from this transport. */
  async function keyOf(key: RouteKey, type: string, args: unknown[]): Promise<unknown> {
    const seen: unknown[] = [];
    const stand = { isInterceptor: true, observed: ({ call, args }: { call: { keyOf: KeyOfCall }; args: readonly unknown[] }) => (seen.push(call.keyOf(args)), of(1)) };
    const Route = LockInterceptor.of(key) as unknown as new (interceptor: typeof stand) => InstanceType<ReturnType<typeof LockInterceptor.of>>;
    const context = new ExecutionContextHost(args, Cart, Cart.prototype.show);
    context.setType(type);
    await lastValueFrom(await new Route(stand).intercept(context, { handle: () => of(1) }));
    return seen[0];
  }

  it('is the request, for GraphQL together with args', async () => {
    class Request {
      readonly user = { id: 7 };
      get ip() {
        return '::1';
      }
    }
    const args = [undefined, { id: 'x' }, { req: new Request() }, undefined];
    expect(await keyOf('<user.id>-<args.id>-<ip>', 'graphql', args)).toBe('7-x-::1');
  });

  it('is args alone for GraphQL without a request', async () => {
    for (const shared of [undefined, {}]) expect(await keyOf('<args.id>', 'graphql', [undefined, { id: 'x' }, shared])).toBe('x');
  });

  it('is client and data of a WebSocket message', async () => {
    expect(await keyOf('<client.id>:<data.room>', 'ws', [{ id: 'c' }, { room: 'r' }])).toBe('c:r');
  });

  it('is context and data of a message of a microservice', async () => {
    expect(await keyOf('<context.subject>:<data.id>', 'rpc', [{ id: 1 }, { subject: 's' }])).toBe('s:1');
  });

  it('is missing from the request: the error names route and placeholder', async () => {
    const refused = keyOf('cart:<user.id>', 'http', [{}]);
    await expect(refused).rejects.toBeInstanceOf(LockKeyError);
    await expect(refused).rejects.toThrow(/^Cart\.show: LockInterceptor\.of\('cart:<user\.id>'\).*<user\.id> of the request is undefined/);
  });

  it('is that of an interceptor made with new: an error says so', () => {
    const RouteLock = LockInterceptor.of('cart') as new () => unknown;
    expect(() => new RouteLock()).toThrow(
      new LockUsageError("LockInterceptor.of('cart') locks a route, but its object was made with new, so it has no lock module. Give the class itself to @UseInterceptors, or provide it as APP_INTERCEPTOR."),
    );
  });

  it('is what a function makes of the context: its errors name the route', async () => {
    await expect(keyOf(() => '', 'http', [{}])).rejects.toThrow(/^Cart\.show: LockInterceptor\.of\(a function\): /);
  });

  it('is malformed: the error comes when the route is defined', () => expect(() => LockInterceptor.of('cart:<user..id>')).toThrow(LockKeyError));
});
