/** The leader: asks every instance whether it builds the printed price list, and looks for two that do. */
import { setTimeout as pause } from 'node:timers/promises';
import type { PriceList } from '../prices/price-list.service.js';
import { send } from './request.js';
import type { Stop } from './stop.js';

const LISTS = 2;
const LONGEST_WAIT_MS = 12_000;

export async function visitLeader(urls: readonly string[]): Promise<Stop> {
  const answers = await untilBuilt(urls);
  const leaders = answers.filter(({ isLeader }) => isLeader).length;
  const builders = answers.filter(({ built }) => built > 0).length;
  const lists = answers.reduce((sum, { built }) => sum + built, 0);
  return {
    kept: leaders === 1 && builders === 1 && lists >= LISTS,
    lines: [
      'Leader: every instance stands for the role price-list, and the one that leads rebuilds the list',
      `  ${leaders} of ${urls.length} instances leads, and has built ${lists} lists; the others have built none`,
    ],
  };
}

async function untilBuilt(urls: readonly string[]): Promise<PriceList[]> {
  for (const until = performance.now() + LONGEST_WAIT_MS; ; await pause(50)) {
    const answers = await Promise.all(urls.map((url) => send<PriceList>('GET', `${url}/price-list`)));
    if (answers.some(({ built }) => built >= LISTS) || performance.now() > until) return answers;
  }
}
