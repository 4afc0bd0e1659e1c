/** A stale holder: sleeps through the end of its lease, a piece is sold meanwhile, and then it writes its old count. */
import { setTimeout as pause } from 'node:timers/promises';
import { instanceFor, request, send } from './request.js';
import type { Stop } from './stop.js';

const ITEM = 2;
const PIECES = 10;

export async function visitStaleHolder(urls: readonly string[]): Promise<Stop> {
  const item = `/items/${ITEM}`;
  await send('PUT', `${urls[0]}${item}/stock`, { pieces: PIECES });
  const asleep = request('POST', `${urls[0]}${item}/stocktake-asleep`);
  await untilBusy(`${urls[0]}${item}/stock`);
  // Waits for the lock until the lease of the sleeper has ended.
  await send('POST', `${instanceFor(urls, 1)}${item}/orders`);
  const { status, body } = await asleep;
  const { pieces } = await send<{ pieces: number }>('GET', `${urls[0]}${item}/stock`);
  return {
    kept: status === 409 && pieces === PIECES - 1,
    lines: [
      `Stale holder: it counts ${PIECES} pieces, sleeps through the end of its lease, one is sold, it writes ${PIECES}`,
      `  its write answers ${status}: ${(body as { message?: string }).message}`,
      `  stock afterwards: ${pieces}`,
    ],
  };
}

/** Waits until somebody has the lock of an item, for two seconds at most. */
export async function untilBusy(stockUrl: string): Promise<void> {
  for (let tries = 0; tries < 1_000; tries += 1) {
    if ((await send<{ busy: boolean }>('GET', stockUrl)).busy) return;
    await pause(2);
  }
  throw new Error(`nobody took the lock: ${stockUrl}`);
}
