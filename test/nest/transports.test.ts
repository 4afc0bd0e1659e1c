/** What a busy lock is told as by handlers that are no HTTP routes, on the real packages. `matrix.test.ts` has their locks. */
import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { ApolloDriver, type ApolloDriverConfig } from '@nestjs/apollo';
import { Controller, Logger, UseFilters, UseInterceptors } from '@nestjs/common';
import { Args, GraphQLModule, Query, Resolver } from '@nestjs/graphql';
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

describe('A busy lock', () => {
  it('of a resolver is an error with a code, while another field is answered inside its lock', async () => {
    @Resolver()
    @UseFilters(LockExceptionFilter)
    class Orders {
      constructor(private readonly locks: LockService) {}

      @Locked('order:<0>', { waitMs: 0 })
      @Query(() => String)
      async pay(@Args('id') id: string): Promise<string> {
        return id;
      }

      @Query(() => String)
      @UseInterceptors(LockInterceptor.of('cart:<args.id>'))
      async cart(@Args('id') _id: string): Promise<string> {
        return String(this.locks.currentLease()?.key);
      }
    }
    const app = await startApp({ imports: [GraphQLModule.forRoot<ApolloDriverConfig>({ driver: ApolloDriver, autoSchemaFile: true })], providers: [Orders] });
    const ask = async (query: string) => (await request(app.getHttpServer()).post('/graphql').send({ query })).body;
    await using _held = await app.get(LockService).acquire('order:7');
    expect(await ask('{ cart(id: "8") }')).toEqual({ data: { cart: 'cart:8' } });
    expect(await ask('{ pay(id: "7") }')).toMatchObject({ errors: [{ extensions: { code: 'LOCK_TIMEOUT' } }] });
  });

  it('of a gateway is an exception', async () => {
    @WebSocketGateway()
    @UseFilters(LockExceptionFilter)
    class Orders {
      @Locked('order:<0>', { waitMs: 0 })
      @SubscribeMessage('pay')
      async pay(@MessageBody() id: string): Promise<object> {
        return { event: 'paid', data: id };
      }
    }
    const modules = { imports: [LockModule.forRoot({ embedded: true })], providers: [Orders] };
    const app = await startAlone(modules, (made) => made.useWebSocketAdapter(new WsAdapter(made)));
    await app.listen(0, '127.0.0.1');
    const socket = new WebSocket(`ws://127.0.0.1:${app.getHttpServer().address().port}`);
    try {
      await once(socket, 'open');
      await using _held = await app.get(LockService).acquire('order:7');
      const answer = once(socket, 'message');
      socket.send(JSON.stringify({ event: 'pay', data: '7' }));
      expect(JSON.parse(String((await answer)[0]))).toMatchObject({ event: 'exception', data: { code: 'LOCK_TIMEOUT' } });
    } finally {
      socket.terminate();
    }
  });

  it('of a message handler is an error, for a Promise and for an Observable', async () => {
    @Controller()
    @UseFilters(LockExceptionFilter)
    class Orders {
      @Locked('order:<0>', { waitMs: 0 })
      @MessagePattern('pay')
      async pay(@Payload() id: string): Promise<string> {
        return id;
      }

      @Locked('order:<0>', { returns: 'observable', waitMs: 0 })
      @MessagePattern('stream')
      stream(@Payload() id: string): Observable<string> {
        return of(id);
      }
    }
    const options = { host: '127.0.0.1', port: await freePort() };
    const app = await startAlone({ imports: [LockModule.forRoot({ embedded: true })], controllers: [Orders] });
    app.connectMicroservice({ transport: Transport.TCP, options }, { inheritAppConfig: true });
    await app.startAllMicroservices();
    const client = ClientProxyFactory.create({ transport: Transport.TCP, options });
    try {
      await using _held = await app.get(LockService).acquire('order:7');
      for (const pattern of ['pay', 'stream']) {
        await expect(firstValueFrom(client.send<unknown>(pattern, '7'))).rejects.toMatchObject({ status: 'error', code: 'LOCK_TIMEOUT' });
      }
    } finally {
      await client.close();
    }
  });
});
