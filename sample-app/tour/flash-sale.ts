/** The flash sale, twice: the same burst on the same stock, first without a lock, then with `@Locked`. */
import { burst, percentile, type BurstResult } from './burst.js';
import { send } from './request.js';
import type { Comparison, Stop } from './stop.js';

const ITEM = 1;
const PIECES = 40;
const BUYERS = 300;

export interface SaleSize {
  readonly pieces: number;
  readonly buyers: number;
}

export interface SaleOutcome extends BurstResult {
  /** Orders beyond the pieces that there were. */
  readonly oversold: number;
}

export async function visitFlashSale(urls: readonly string[]): Promise<Stop> {
  const { withoutLock, withLock } = await compareSales(urls, { pieces: PIECES, buyers: BUYERS });
  return {
    kept: withLock.sold === PIECES && withLock.failed === 0,
    lines: [
      `Flash sale: ${BUYERS} buyers order at once, ${PIECES} pieces are in stock`,
      '                     sold   oversold   sold out   failed   waited p50      p95      max',
      `  without a lock ${row(withoutLock)}`,
      `  with @Locked   ${row(withLock)}`,
    ],
  };
}

export async function compareSales(urls: readonly string[], size: SaleSize): Promise<Comparison<SaleOutcome>> {
  // Once for nothing, so that neither row pays for opening connections and compiling code.
  await sell(urls, 'orders', { ...size, pieces: 0 });
  return {
    withoutLock: await sell(urls, 'orders-without-lock', size),
    withLock: await sell(urls, 'orders', size),
  };
}

async function sell(urls: readonly string[], path: string, { pieces, buyers }: SaleSize): Promise<SaleOutcome> {
  await send('PUT', `${urls[0]}/items/${ITEM}/stock`, { pieces });
  const result = await burst(urls, `/items/${ITEM}/${path}`, buyers);
  return { ...result, oversold: Math.max(0, result.sold - pieces) };
}

function row({ sold, oversold, soldOut, failed, waitedMs }: SaleOutcome): string {
  const ms = (share: number): string => `${percentile(waitedMs, share).toFixed(0)} ms`;
  const cells: [value: string | number, width: number][] = [
    [sold, 8],
    [oversold, 11],
    [soldOut, 11],
    [failed, 9],
    [ms(0.5), 13],
    [ms(0.95), 9],
    [ms(1), 9],
  ];
  return cells.map(([value, width]) => String(value).padStart(width)).join('');
}
