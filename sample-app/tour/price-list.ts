/**
 * The price list: customers read it while one price for everything is set again and again. A list with two prices on it
 * is half-changed.
 */
import { instanceFor, send } from './request.js';
import type { Comparison, Stop } from './stop.js';

const CUSTOMERS = 10;
const CHANGES = 8;

export interface Reading {
  readonly lists: number;
  readonly halfChanged: number;
}

export async function visitPriceList(urls: readonly string[]): Promise<Stop> {
  const { withoutLock, withLock } = await comparePriceLists(urls);
  return {
    kept: withLock.halfChanged === 0,
    lines: [
      `Price list: ${CUSTOMERS} customers read it again and again while all prices change ${CHANGES} times`,
      `  without a lock                 ${describe(withoutLock)}`,
      `  with @ReadLock and @WriteLock  ${describe(withLock)}`,
    ],
  };
}

export async function comparePriceLists(urls: readonly string[]): Promise<Comparison<Reading>> {
  return {
    withoutLock: await readDuringChanges(urls, '/prices-without-lock'),
    withLock: await readDuringChanges(urls, '/prices'),
  };
}

async function readDuringChanges(urls: readonly string[], path: string): Promise<Reading> {
  await setPrices(urls, 0);
  const day = { over: false };
  const reading = Array.from({ length: CUSTOMERS }, (_, n) => readUntil(day, instanceFor(urls, n) + path));
  try {
    for (let n = 1; n <= CHANGES; n += 1) await setPrices(urls, n);
  } finally {
    day.over = true;
  }
  const lists = (await Promise.all(reading)).flat();
  return { lists: lists.length, halfChanged: lists.filter((prices) => new Set(prices).size > 1).length };
}

async function readUntil(day: { readonly over: boolean }, url: string): Promise<number[][]> {
  const lists: number[][] = [];
  while (!day.over) lists.push(await send<number[]>('GET', url));
  return lists;
}

async function setPrices(urls: readonly string[], n: number): Promise<void> {
  await send('PUT', `${instanceFor(urls, n)}/prices`, { cents: 1000 - n * 100 });
}

function describe({ lists, halfChanged }: Reading): string {
  return `${halfChanged} of ${lists} lists were half-changed`;
}
