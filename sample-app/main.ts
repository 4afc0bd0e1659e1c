/**
 * What `npm start` runs: opens the shop, makes a tour through its features, prints what was seen and keeps serving.
 * `npm start -- --once` ends after the tour, with exit code 1 if a lock did not keep its promise. Settings come from
 * the environment or a .env file: REDIS_URL for several processes on one Redis, PORT for a fixed address.
 */
import { once } from 'node:events';
import { openInstance, openProcesses, type Shop } from './open-shop.js';
import { visitCheckout } from './tour/checkout.js';
import { visitFlashSale } from './tour/flash-sale.js';
import { visitLeader } from './tour/leader.js';
import { visitNightlyDraw } from './tour/nightly-draw.js';
import { visitPriceList } from './tour/price-list.js';
import { visitStaleHolder } from './tour/stale-holder.js';
import { visitTransfers } from './tour/transfers.js';

const PROCESSES = 3;
const TOUR = [visitFlashSale, visitPriceList, visitTransfers, visitStaleHolder, visitNightlyDraw, visitLeader, visitCheckout];

const shop = await openShop();
try {
  for (const visit of TOUR) {
    const { kept, lines } = await visit(shop.urls);
    print(lines);
    if (!kept) process.exitCode = 1;
  }
  if (!process.argv.includes('--once')) {
    print(whereToLook(shop));
    await Promise.race([once(process, 'SIGINT'), once(process, 'SIGTERM')]);
  }
} finally {
  await shop.close();
}

async function openShop(): Promise<Shop> {
  const port = Number(process.env['PORT'] ?? 0);
  if (process.env['REDIS_URL']) {
    print([`Holdfast sample shop: ${PROCESSES} processes, locks and stock in Redis`]);
    return openProcesses(PROCESSES, port);
  }
  print(['Holdfast sample shop: 1 process, locks and stock in memory (set REDIS_URL for 3 processes on one Redis)']);
  return openInstance(port);
}

function whereToLook({ urls }: Shop): string[] {
  const [url] = urls;
  return [
    `The shop is open: ${urls.join('  ')}`,
    `  buy                   curl -X POST ${url}/items/2/orders`,
    `  hold an item for 20s  curl -X POST '${url}/items/2/stocktake?seconds=20'`,
    `  is it held            curl ${url}/items/2/stock`,
    `  pay an order          curl -X POST ${url}/orders/5/checkout; curl ${url}/orders/5`,
    `  prices, draws         curl ${url}/prices    curl ${url}/draws`,
    `  who leads             curl ${url}/price-list`,
    `  who holds what        ${url}/locks    (user operator, password holdfast, or BOARD_PASSWORD)`,
    'The code: sample-app/sale, payments, prices, wallets, stocktake, draw, board. Ctrl-C closes the shop.',
  ];
}

function print(lines: readonly string[]): void {
  console.log(`${lines.join('\n')}\n`);
}
