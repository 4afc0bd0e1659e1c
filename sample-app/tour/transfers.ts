/** Transfers: money goes round between a few wallets in both directions; in the end each must hold the right sum. */
import { instanceFor, send } from './request.js';
import type { Comparison, Stop } from './stop.js';

const WALLETS = [1, 2, 3, 4];
const TRANSFERS = 100;
const START_CENTS = 10_000;

export async function visitTransfers(urls: readonly string[]): Promise<Stop> {
  const { withoutLock, withLock } = await compareTransfers(urls);
  return {
    kept: withLock === 0,
    lines: [
      `Transfers: ${TRANSFERS} at once between ${WALLETS.length} wallets, two locks each, in both directions`,
      `  without locks                               ${withoutLock} of ${WALLETS.length} wallets hold a wrong sum`,
      `  with @Locked(['wallet:<0>', 'wallet:<1>'])  ${withLock} of ${WALLETS.length} wallets hold a wrong sum`,
    ],
  };
}

/** How many wallets hold a wrong sum in the end. */
export async function compareTransfers(urls: readonly string[]): Promise<Comparison<number>> {
  return {
    withoutLock: await moveMoney(urls, 'transfers-without-lock'),
    withLock: await moveMoney(urls, 'transfers'),
  };
}

async function moveMoney(urls: readonly string[], path: string): Promise<number> {
  const right = new Map(WALLETS.map((wallet) => [wallet, START_CENTS]));
  for (const wallet of WALLETS) await send('PUT', `${urls[0]}/wallets/${wallet}`, { cents: START_CENTS });
  const transfers = Array.from({ length: TRANSFERS }, (_, n) => {
    const [from, to] = direction(n);
    const cents = 10 + n;
    right.set(from, (right.get(from) ?? 0) - cents);
    right.set(to, (right.get(to) ?? 0) + cents);
    return send('POST', `${instanceFor(urls, n)}/wallets/${from}/${path}`, { to, cents });
  });
  await Promise.all(transfers);
  let wrong = 0;
  for (const wallet of WALLETS) {
    const { cents } = await send<{ cents: number }>('GET', `${urls[0]}/wallets/${wallet}`);
    if (cents !== right.get(wallet)) wrong += 1;
  }
  return wrong;
}

/** Round the wallets, every second transfer the other way round. */
function direction(n: number): [from: number, to: number] {
  const here = WALLETS[n % WALLETS.length] ?? 0;
  const next = WALLETS[(n + 1) % WALLETS.length] ?? 0;
  return n % 2 === 0 ? [here, next] : [next, here];
}
