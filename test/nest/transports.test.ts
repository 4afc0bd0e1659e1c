/** Handlers that are no HTTP routes, on the real packages: locked above and below their own decorators, and filtered. */
import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { ApolloDriver, type ApolloDriverConfig } from '@nestjs/apollo';
import { Controller, Injectable, Logger, UseFilters, UseGuards, UseInterceptors, type CanActivate, type Type } from '@nestjs/common';
import { Args, GraphQLModule, Mutation, Query, Resolver } from '@nestjs/graphql';
import { ClientProxyFactory, MessagePattern, Payload, Transport } from '@nestjs/microservices';
import { WsAdapter } from '@nestjs/platform-ws';
import { MessageBody, SubscribeMessage, WebSocketGateway } from '@nestjs/websockets';
import { once } from 'node:events';
import { firstValueFrom, of, type Observable } from 'rxjs';
import request from 'supertest';
import { WebSocket } from 'ws';
import { Locked, LockExceptionFilter, LockInterceptor, LockModule, LockService } from '../../lib/index.js';
import { freePort } from '../support/free-port.js';
import { startAlone, startApp } from './application.js';

beforeEach(() => void jest.spyOn(Logger.prototype, 'error').mockImplementation(() => undefined));
afterEach(() => void jest.restoreAllMocks());

@Injectable()
class Deny implements CanActivate {
  canActivate(): boolean {
    return false;
  }
}

const none: MethodDecorator = () => undefined;
const lock = Locked('order:<0>', { waitMs: 0 }) as MethodDecorator;
const orders: [string, MethodDecorator, MethodDecorator][] = [
  ['above', lock, none],
  ['below', none, lock],
];

describe.each(orders)('a resolver with the lock %s its other decorators', (_name, above, below) => {
  @Resolver()
  @UseFilters(LockExceptionFilter)
  class Orders {
    constructor(private readonly locks: LockService) {}

    @above
    @Query(() => String)
    @below
    async pay(@Args('id') _id: string): Promise<string> {
      return String(this.locks.currentLease()?.key);
    }

    @above
    @Mutation(() => String)
    @UseGuards(Deny)
    @below
    async guarded(@Args('id') id: string): Promise<string> {
      return id;
    }

    @Query(() => String)
    @UseInterceptors(LockInterceptor.of('cart:<args.id>'))
    async cart(@Args('id') _id: string): Promise<string> {
      return String(this.locks.currentLease()?.key);
    }
  }

  const start = () =>
    startApp({
      imports: [GraphQLModule.forRoot<ApolloDriverConfig>({ driver: ApolloDriver, autoSchemaFile: true })],
      providers: [Orders],
    });

  it('answers inside its lock, is guarded, and fails with a code when the lock is busy', async () => {
    const app = await start();
    const ask = async (query: string) => (await request(app.getHttpServer()).post('/graphql').send({ query })).body;
    expect(await ask('{ pay(id: "7") cart(id: "8") }')).toEqual({ data: { pay: 'order:7', cart: 'cart:8' } });
    expect(await ask('mutation { guarded(id: "7") }')).toMatchObject({ errors: [{ extensions: { code: 'FORBIDDEN' } }] });
    await using _held = await app.get(LockService).acquire('order:7');
    expect(await ask('{ pay(id: "7") }')).toMatchObject({ errors: [{ extensions: { code: 'LOCK_TIMEOUT' } }] });
  });
});

describe.each(orders)('a gateway with the lock %s its other decorators', (_name, above, below) => {
  @WebSocketGateway()
  @UseFilters(LockExceptionFilter)
  class Orders {
    constructor(private readonly locks: LockService) {}

    @above
    @SubscribeMessage('pay')
    @below
    async pay(@MessageBody() _id: string): Promise<object> {
      return { event: 'paid', data: this.locks.currentLease()?.key };
    }

    @above
    @SubscribeMessage('guarded')
    @UseGuards(Deny)
    @below
    async guarded(@MessageBody() id: string): Promise<object> {
      return { event: 'passed', data: id };
    }
  }

  it('answers inside its lock, is guarded, and sends an exception when the lock is busy', async () => {
    const modules = { imports: [LockModule.forRoot({ embedded: true })], providers: [Orders] };
    const app = await startAlone(modules, (made) => made.useWebSocketAdapter(new WsAdapter(made)));
    await app.listen(0, '127.0.0.1');
    const socket = new WebSocket(`ws://127.0.0.1:${app.getHttpServer().address().port}`);
    await once(socket, 'open');
    const ask = (event: string) => {
      const answer = once(socket, 'message');
      socket.send(JSON.stringify({ event, data: '7' }));
      return answer.then(([text]): unknown => JSON.parse(String(text)));
    };
    try {
      expect(await ask('pay')).toEqual({ event: 'paid', data: 'order:7' });
      expect(await ask('guarded')).toMatchObject({ event: 'exception' });
      await using _held = await app.get(LockService).acquire('order:7');
      expect(await ask('pay')).toMatchObject({ event: 'exception', data: { code: 'LOCK_TIMEOUT' } });
    } finally {
      socket.terminate();
    }
  });
});

function messagesController(above: MethodDecorator, below: MethodDecorator): Type {
  const stream = Locked('stream:<0>', { returns: 'observable', waitMs: 0 }) as MethodDecorator;

  @Controller()
  @UseFilters(LockExceptionFilter)
  class Orders {
    constructor(private readonly locks: LockService) {}

    @above
    @MessagePattern('pay')
    @below
    async pay(@Payload() _id: string): Promise<string> {
      return String(this.locks.currentLease()?.key);
    }

    @above
    @MessagePattern('guarded')
    @UseGuards(Deny)
    @below
    async guarded(@Payload() id: string): Promise<string> {
      return id;
    }

    @(above === none ? none : stream)
    @MessagePattern('stream')
    @(above === none ? stream : none)
    stream(@Payload() id: string): Observable<string> {
      return of(id);
    }
  }
  return Orders;
}

describe.each(orders)('a message handler with the lock %s its other decorators', (_name, above, below) => {
  it('answers inside its lock, is guarded, and answers with an error when the lock is busy', async () => {
    const port = await freePort();
    const app = await startAlone({ imports: [LockModule.forRoot({ embedded: true })], controllers: [messagesController(above, below)] });
    app.connectMicroservice({ transport: Transport.TCP, options: { host: '127.0.0.1', port } }, { inheritAppConfig: true });
    await app.startAllMicroservices();
    const client = ClientProxyFactory.create({ transport: Transport.TCP, options: { host: '127.0.0.1', port } });
    const ask = (pattern: string) => firstValueFrom(client.send<unknown>(pattern, '7'));
    try {
      expect(await ask('pay')).toBe('order:7');
      expect(await ask('stream')).toBe('7');
      await expect(ask('guarded')).rejects.toMatchObject({ status: 'error' });
      await using _held = await app.get(LockService).acquire(['order:7', 'stream:7']);
      await expect(ask('pay')).rejects.toMatchObject({ status: 'error', code: 'LOCK_TIMEOUT' });
      await expect(ask('stream')).rejects.toMatchObject({ status: 'error', code: 'LOCK_TIMEOUT' });
    } finally {
      await client.close();
    }
  });
});
