/** The checkout: requests lock orders, workers adopt the holds and pay; one worker crashes, and its order is free again in time. */
import { setTimeout as pause } from 'node:timers/promises';
import { PAID_WITHIN_MS } from '../payments/checkout.service.js';
import { instanceFor, request, send } from './request.js';
import type { Stop } from './stop.js';

const ORDERS = 8;
const LONGEST_WAIT_MS = 10_000;

interface OrderState {
  readonly paid: boolean;
  readonly busy: boolean;
}

export async function visitCheckout(urls: readonly string[]): Promise<Stop> {
  const first = Math.floor(Date.now() / 1_000) % 1_000_000;
  const orders = Array.from({ length: ORDERS }, (_, n) => first * 10 + n);
  await Promise.all(orders.map((order, n) => send('POST', `${instanceFor(urls, n)}/orders/${order}/checkout`)));
  const states = await Promise.all(orders.map((order, n) => until(`${instanceFor(urls, n + 1)}/orders/${order}`, ({ paid, busy }) => paid && !busy)));
  const paid = states.filter((state) => state.paid).length;
  const { refused, freeAfterMs, paidThen } = await crashOnce(urls, first * 10 + ORDERS);
  return {
    kept: paid === ORDERS && refused === 423 && paidThen && freeAfterMs >= PAID_WITHIN_MS,
    lines: [
      'Checkout: a request locks an order and hands the lock to the worker that takes the payment',
      `  ${paid} of ${ORDERS} orders paid under the lock that their request had taken`,
      `  a worker crashed: its order was refused with ${refused}, was free after ${Math.round(freeAfterMs)} ms (withinMs is ${PAID_WITHIN_MS}), and was paid then`,
    ],
  };
}

async function crashOnce(urls: readonly string[], order: number): Promise<{ refused: number; freeAfterMs: number; paidThen: boolean }> {
  const url = `${instanceFor(urls, 0)}/orders/${order}`;
  const since = performance.now();
  await send('POST', `${url}/checkout?crash=true`);
  const { status: refused } = await request('POST', `${url}/checkout`);
  await until(url, ({ busy }) => !busy);
  const freeAfterMs = performance.now() - since;
  await send('POST', `${url}/checkout`);
  return { refused, freeAfterMs, paidThen: (await until(url, ({ paid }) => paid)).paid };
}

async function until(url: string, isSo: (state: OrderState) => boolean): Promise<OrderState> {
  for (const limit = performance.now() + LONGEST_WAIT_MS; ; await pause(20)) {
    const state = await send<OrderState>('GET', url);
    if (isSo(state) || performance.now() > limit) return state;
  }
}
