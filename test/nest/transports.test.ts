/** What a busy lock is told as by handlers that are no HTTP routes, on the real packages. `matrix.test.ts` has their locks. */
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Client, type ClientReadableStream, credentials, loadPackageDefinition, type ServiceError, status } from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { ApolloDriver, type ApolloDriverConfig } from '@nestjs/apollo';
import { Controller, Logger, UseFilters, UseInterceptors } from '@nestjs/common';
import { Args, GraphQLModule, Query, Resolver } from '@nestjs/graphql';
import { ClientProxyFactory, GrpcMethod, MessagePattern, Payload, Transport } from '@nestjs/microservices';
import { WsAdapter } from '@nestjs/platform-ws';
import { Test } from '@nestjs/testing';
import { MessageBody, SubscribeMessage, WebSocketGateway } from '@nestjs/websockets';
import { firstValueFrom, from, type Observable, of } from 'rxjs';
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
    expect(await ask('{ pay(id: "7") }')).toMatchObject({ errors: [{ extensions: { code: 'LOCK_TIMEOUT', statusCode: 423 } }] });
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

/** Calls of gRPC on @grpc/grpc-js: locked, streamed, and refused with the status codes of gRPC. */

const PROTO = `syntax = "proto3";
package shop;
message Order { string id = 1; }
message Answer { string key = 1; }
service Orders {
  rpc Pay (Order) returns (Answer);
  rpc Cart (Order) returns (Answer);
  rpc Watch (Order) returns (stream Answer);
}`;

@Controller()
@UseFilters(LockExceptionFilter)
class Orders {
  constructor(private readonly locks: LockService) {}

  @GrpcMethod('Orders', 'Pay')
  @Locked('order:<0.id>', { waitMs: 0 })
  async pay(_order: { id: string }): Promise<{ key: string | undefined }> {
    return { key: this.locks.currentLease()?.key };
  }

  @GrpcMethod('Orders', 'Cart')
  @UseInterceptors(LockInterceptor.of('cart:<data.id>', { waitMs: 0 }))
  async cart(_order: { id: string }): Promise<{ key: string | undefined }> {
    return { key: this.locks.currentLease()?.key };
  }

  @GrpcMethod('Orders', 'Watch')
  @Locked('watch:<0.id>', { waitMs: 0, returns: 'observable' })
  watch({ id }: { id: string }): Observable<{ key: string | undefined }> {
    return from([1, 2].map((n) => ({ key: `${this.locks.currentLease()?.key} ${id} ${n}` })));
  }
}

interface OrdersClient extends Client {
  pay(order: { id: string }, done: (error: ServiceError | null, answer?: { key: string }) => void): void;
  cart(order: { id: string }, done: (error: ServiceError | null, answer?: { key: string }) => void): void;
  watch(order: { id: string }): ClientReadableStream<{ key: string }>;
}

let folder: string;
let client: OrdersClient;
let locks: LockService;
let close: () => Promise<void>;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'holdfast-grpc-'));
  const protoPath = join(folder, 'shop.proto');
  writeFileSync(protoPath, PROTO);
  const url = `127.0.0.1:${await freePort()}`;
  const module = await Test.createTestingModule({ imports: [LockModule.forRoot({ embedded: true })], controllers: [Orders] }).compile();
  const app = module.createNestMicroservice({ transport: Transport.GRPC, options: { package: 'shop', protoPath, url }, logger: false } as never);
  await app.listen();
  locks = module.get(LockService);
  const { shop } = loadPackageDefinition(loadSync(protoPath)) as unknown as { shop: { Orders: new (url: string, how: unknown) => OrdersClient } };
  client = new shop.Orders(url, credentials.createInsecure());
  close = () => app.close();
});

afterAll(async () => {
  client.close();
  await close();
  await rm(folder, { recursive: true });
});

type Told = { readonly key: string } | { readonly code: number; readonly details: string };

function unary(method: 'pay' | 'cart', id: string): Promise<Told> {
  return new Promise((resolve) => client[method]({ id }, (error, answer) => resolve(error ? { code: error.code, details: error.details } : answer!)));
}

function streamed(id: string): Promise<Told[]> {
  return new Promise((resolve) => {
    const told: Told[] = [];
    const stream = client.watch({ id });
    stream.on('data', (answer: { key: string }) => told.push(answer));
    stream.on('error', (error: ServiceError) => resolve([...told, { code: error.code, details: error.details }]));
    stream.on('end', () => resolve(told));
  });
}

describe('a call of gRPC', () => {
  it.each([['pay', 'order:7'], ['cart', 'cart:7']] as const)('of %s runs under its lock, and a busy one is ABORTED', async (method, key) => {
    expect(await unary(method, '7')).toEqual({ key });
    await using _ = await locks.acquire(key);
    expect(await unary(method, '7')).toEqual({ code: status.ABORTED, details: 'Somebody else is working on this. Try again in a moment.' });
  });

  it('that streams runs under its lock, and a busy one is ABORTED', async () => {
    expect(await streamed('7')).toEqual([{ key: 'watch:7 7 1' }, { key: 'watch:7 7 2' }]);
    await using _ = await locks.acquire('watch:7');
    expect(await streamed('7')).toMatchObject([{ code: status.ABORTED }]);
  });

  it('that names nothing is an INVALID_ARGUMENT', async () => {
    expect(await unary('pay', '')).toMatchObject({ code: status.INVALID_ARGUMENT });
    expect(await streamed('')).toMatchObject([{ code: status.INVALID_ARGUMENT }]);
  });
});
