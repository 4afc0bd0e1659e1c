/**
 * Boots over HTTP on Express, or with PLATFORM=fastify on Fastify, with `lenient` on one that ignores a slash at the end. Asks itself,
 * prints what it saw as JSON, and ends by itself.
 */
import { once } from 'node:events';
import { get, type IncomingMessage } from 'node:http';
import { NestFactory } from '@nestjs/core';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { LockService } from 'nestjs-holdfast';
import { AppModule } from './app.module.js';
import { OrderService } from './order.service.js';

const platform = process.env.PLATFORM ?? 'express';
const ignoreTrailingSlash = platform === 'lenient fastify';
const app = await (platform === 'express'
  ? NestFactory.create(AppModule, { logger: ['error'] })
  : NestFactory.create(AppModule, new FastifyAdapter({ routerOptions: { ignoreTrailingSlash } }), { logger: ['error'] }));
await app.listen(0, '127.0.0.1');
const url = await app.getUrl();
const locks = app.get(LockService);
const post = (path: string, init: RequestInit = {}) => fetch(`${url}/${path}`, { ...init, method: 'POST' });
const many = <T>(count: number, ask: () => Promise<T>): Promise<T[]> => Promise.all(Array.from({ length: count }, ask));

const paid = await many(20, () => post('orders/1'));
const carts = await many(20, async () => Number(await (await post('carts/1')).text()));
const busy = await post('busy/1');
const orders = app.get(OrderService);

console.log(
  JSON.stringify({
    platform,
    paid: paid.filter(({ status }) => status === 202).length,
    atOnce: orders.atOnce,
    fencesRise: orders.fencesRise(20),
    carts: new Set(carts).size,
    busy: [busy.status, busy.headers.has('retry-after')],
    filledAfterOneLeft: await leftByItsClient(),
    boards: [await board('/locks'), await board('/locks/'), await board('/locks/?of=night')],
    events: await firstEvent(),
  }),
);
await app.close();

/** A request that waits for a cart is left by its client. What the next one finds: 1, if the handler did not run for the first. */
async function leftByItsClient(): Promise<number> {
  const lease = await locks.acquire('cart:2');
  const client = new AbortController();
  const waits = heard('waiting');
  const left = post('carts/2', { signal: client.signal }).catch(() => undefined);
  await waits;
  const stopped = heard('cancelled');
  client.abort();
  await Promise.all([left, stopped]);
  await lease.release();
  return Number(await (await post('carts/2')).text());
}

/** Resolves at the next event of this type. */
function heard(type: string): Promise<void> {
  return new Promise((resolve) => {
    const events = locks.events.subscribe((event) => {
      if (event.type !== type) return;
      events.unsubscribe();
      resolve();
    });
  });
}

/** The status of the page at this address, and of the files that it loads. */
async function board(address: string): Promise<number[]> {
  const page = await fetch(url + address);
  const files = [...(await page.text()).matchAll(/(?:src|href)="([^"]+)"/g)].map(([, file]) => new URL(file ?? '', page.url));
  const statuses = await Promise.all(files.map(async (file) => (await fetch(file)).status));
  return [page.status, ...statuses];
}

/** Whether the board tells its page of the locks. Not by fetch, which leaves a fresh connection behind when it is given up. */
async function firstEvent(): Promise<boolean> {
  const request = get(`${url}/locks/events`);
  const [response] = (await once(request, 'response')) as [IncomingMessage];
  let text = '';
  for await (const chunk of response) {
    text += String(chunk);
    if (text.includes('data: ')) break;
  }
  request.destroy();
  return text.includes('data: ');
}
