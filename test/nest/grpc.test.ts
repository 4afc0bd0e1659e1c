/** Calls of gRPC on @grpc/grpc-js: locked, streamed, and refused with the status codes of gRPC. */
import { writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { loadPackageDefinition, credentials, status, type Client, type ClientReadableStream, type ServiceError } from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';
import { Controller, UseFilters, UseInterceptors } from '@nestjs/common';
import { GrpcMethod, Transport } from '@nestjs/microservices';
import { Test } from '@nestjs/testing';
import { from, type Observable } from 'rxjs';
import { Locked, LockExceptionFilter, LockInterceptor, LockModule, LockService } from '../../lib/index.js';
import { freePort } from '../support/free-port.js';

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
