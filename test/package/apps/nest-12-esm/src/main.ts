/** Boots, pays one order many times at once, prints what was seen as JSON, and ends by itself. */
import 'reflect-metadata';
import { createRequire } from 'node:module';
import { NestFactory } from '@nestjs/core';
import { lastValueFrom, toArray } from 'rxjs';
import { LockService, LockTimeoutError } from 'nestjs-holdfast';
import { AppModule } from './app.module.js';
import { OrderService } from './order.service.js';

const app = await NestFactory.createApplicationContext(AppModule, { logger: ['error'] });
const orders = app.get(OrderService);
const locks = app.get(LockService);

const paid = await Promise.all(Array.from({ length: 20 }, () => orders.pay({ id: '1' })));
const steps = await lastValueFrom(orders.steps('2').pipe(toArray()));
const lease = await locks.acquire('order:3');
const busy: unknown = await locks.acquire('order:3', { waitMs: 0 }).catch((error: unknown) => error);
const released = await lease.release();
const leftOver = await locks.isLocked('order:1');
await app.close();

const required = createRequire(import.meta.url)('nestjs-holdfast') as { LockTimeoutError: new () => Error };
console.log(
  JSON.stringify({
    paid: paid.length,
    steps,
    atOnce: orders.atOnce,
    fencesRise: orders.fencesRise(20),
    busy: busy instanceof LockTimeoutError,
    oneCopy: busy instanceof required.LockTimeoutError,
    released,
    leftOver,
  }),
);
