/** The sample's tour on a small scale: what is true with a lock, and that it is not true without one. */
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { openInstance, type Shop } from '../../sample-app/open-shop.js';
import { compareSales } from '../../sample-app/tour/flash-sale.js';
import { visitCheckout } from '../../sample-app/tour/checkout.js';
import { visitLeader } from '../../sample-app/tour/leader.js';
import { visitNightlyDraw } from '../../sample-app/tour/nightly-draw.js';
import { comparePriceLists } from '../../sample-app/tour/price-list.js';
import { send } from '../../sample-app/tour/request.js';
import { untilBusy, visitStaleHolder } from '../../sample-app/tour/stale-holder.js';
import { compareTransfers } from '../../sample-app/tour/transfers.js';

describe('the sample shop in one process', () => {
  const given = process.env['REDIS_URL'];
  let shop: Shop;

  beforeAll(async () => {
    delete process.env['REDIS_URL'];
    shop = await openInstance();
  });

  afterAll(async () => {
    await shop.close();
    if (given !== undefined) process.env['REDIS_URL'] = given;
  });

  it('sells every piece once with the lock, and too many without', async () => {
    const { withLock, withoutLock } = await compareSales(shop.urls, { pieces: 5, buyers: 40 });
    expect(withLock).toMatchObject({ sold: 5, oversold: 0, soldOut: 35, failed: 0 });
    expect(withoutLock.oversold).toBeGreaterThan(0);
  });

  it('pays for three orders at a time, however many come', async () => {
    const board = `${shop.urls[0]}/locks/lock?instance=default&key=payment-provider`;
    const payments = async (): Promise<{ permits?: number; holders: unknown[]; moreHolders: number }> =>
      (await fetch(board, { headers: { authorization: `Basic ${btoa('operator:holdfast')}` } })).json() as never;
    await send('PUT', `${shop.urls[0]}/items/7/stock`, { pieces: 100_000 });
    let enough = false;
    const customers = Array.from({ length: 20 }, async () => {
      while (!enough) await send('POST', `${shop.urls[0]}/items/7/orders-without-lock`);
    });
    const seen = new Set<number>();
    try {
      while (!seen.has(3)) {
        const { permits, holders, moreHolders } = await payments();
        if (permits === undefined) continue;
        expect(permits).toBe(3);
        seen.add(holders.length + moreHolders);
      }
    } finally {
      enough = true;
      await Promise.all(customers);
    }
    expect(Math.max(...seen)).toBe(3);
  });

  it('never shows a half-changed price list to a reader who holds the read lock', async () => {
    const { withLock, withoutLock } = await comparePriceLists(shop.urls);
    expect(withLock.lists).toBeGreaterThan(0);
    expect(withLock.halfChanged).toBe(0);
    expect(withoutLock.halfChanged).toBeGreaterThan(0);
  });

  it('leaves the right sum in every wallet with two locks a transfer, and wrong ones without', async () => {
    const { withLock, withoutLock } = await compareTransfers(shop.urls);
    expect(withLock).toBe(0);
    expect(withoutLock).toBeGreaterThan(0);
  });

  it('refuses the write of a holder whose lease has ended', async () => expect(await visitStaleHolder(shop.urls)).toMatchObject({ kept: true }));

  it('draws once a night', async () => expect(await visitNightlyDraw(shop.urls)).toMatchObject({ kept: true }));

  it('rebuilds the printed price list on the instance that leads', async () => {
    expect(await visitLeader(shop.urls)).toMatchObject({ kept: true });
    const board = await fetch(`${shop.urls[0]}/locks/lock?instance=default&key=leader:price-list`, { headers: { authorization: `Basic ${btoa('operator:holdfast')}` } });
    expect(await board.json()).toMatchObject({ role: 'price-list', holders: [{ label: 'PriceListService.rebuild', pid: process.pid }] });
  });

  it('pays an order under the lock that its request took, and frees the order of a worker that crashed in time', async () => {
    expect(await visitCheckout(shop.urls)).toMatchObject({ kept: true });
  });

  it('keeps an item for a counter who takes long, and the order waits for the count', async () => {
    const item = `${shop.urls[0]}/items/3`;
    await send('PUT', `${item}/stock`, { pieces: 7 });
    const counted = send<{ pieces: number }>('POST', `${item}/stocktake?seconds=1`);
    await untilBusy(`${item}/stock`);
    const ordered = send<{ left: number }>('POST', `${item}/orders`);
    expect(await counted).toEqual({ pieces: 7 });
    expect(await ordered).toEqual({ left: 6 });
  });
});
