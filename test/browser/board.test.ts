/** The board in a real browser, against the running sample of three processes: what an operator at night can see and do. */
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { Page } from 'playwright-core';
import { Test } from '@nestjs/testing';
import { LockModule, LockService } from '../../lib/index.js';
import { startRedis, type RedisServer } from '../support/redis-server.js';
import { openChromium, type OpenBrowser } from './chromium.js';
import { runSample, type RunningSample } from './running-sample.js';

const OPERATOR = { username: 'operator', password: 'holdfast' };
const SOON = { timeout: 5_000 };

let redis: RedisServer;
let sample: RunningSample;
let browser: OpenBrowser;

beforeAll(async () => {
  browser = await openChromium();
  redis = await startRedis();
  sample = await runSample(redis.url);
});

afterAll(async () => {
  await browser?.close();
  await sample?.stop();
  await redis?.stop();
});

/** Somebody counts the item in the first process for so long. */
function stocktake(item: number, seconds: number): Promise<Response> {
  return fetch(`${sample.urls[0]}/items/${item}/stocktake?seconds=${seconds}`, { method: 'POST' });
}

const order = (item: number, process: number): Promise<Response> => fetch(`${sample.urls[process]}/items/${item}/orders`, { method: 'POST' });

async function board(options: Parameters<OpenBrowser['page']>[0] = {}) {
  const opened = await browser.page({ httpCredentials: OPERATOR, ...options });
  await opened.page.goto(`${sample.urls[0]}/locks`);
  await opened.page.locator('#status[data-state=live]').waitFor(SOON);
  return opened;
}

/** So many locks, `many:0` and on, of a process beside the sample. */
async function heldOrders(count: number) {
  const made = await Test.createTestingModule({ imports: [LockModule.forRoot({ redis: redis.url })] }).compile();
  await made.init();
  const locks = made.get(LockService);
  const leases = await Promise.all(Array.from({ length: count }, (_, n) => locks.acquire(`many:${n}`, { label: 'MassService.hold' })));
  const beside = await Test.createTestingModule({ imports: [LockModule.forRoot({ redis: redis.url })] }).compile();
  await beside.init();
  return {
    waitFor: (key: string) => beside.get(LockService).withLock(key, () => undefined),
    release: () => Promise.all(leases.map((lease) => lease.release())),
    close: async () => {
      await Promise.all(leases.map((lease) => lease.release()));
      await Promise.all([made.close(), beside.close()]);
    },
  };
}

function lock(page: Page, key: string) {
  return page.locator('.lock', { has: page.getByRole('heading', { name: key, exact: true }) });
}

async function takenAway(page: Page): Promise<void> {
  await page.getByText('was taken away; its holder is told').waitFor(SOON);
}

describe('the board in a browser', () => {
  it('shows a hold and its waiters within a second, with method, host and process, and complains of nothing', async () => {
    const { page, complaints } = await board();
    const [startedAt, counted] = [performance.now(), stocktake(1, 8)];
    const row = lock(page, 'item:1');
    await row.locator('.holders').getByText('StocktakeService.count').waitFor({ timeout: 1_000 });
    const orders = [order(1, 1), order(1, 2), order(1, 0)];
    await row.getByText('2 processes wait for StocktakeService.count to end').waitFor({ timeout: 1_000 });
    const shownMs = performance.now() - startedAt;
    expect(shownMs).toBeLessThan(2_000);
    expect(await row.getByRole('listitem').filter({ hasText: 'write: OrderService.buy' }).count()).toBe(2);
    await row.getByText(/Calls in the process that serves this page: 1 × OrderService\.buy \(write, for \d/).waitFor({ timeout: 1_000 });
    expect(await row.innerText()).toMatch(/, pid \d+[\s\S]*held for about \d[\s\S]*lease ends in \d+ s unless renewed[\s\S]*fence \d{16}/);
    await row.getByRole('button', { name: /Force release item:1/ }).click();
    await page.getByRole('button', { name: 'Take it away' }).click();
    await takenAway(page);
    await Promise.all([counted, ...orders]);
    expect(complaints).toEqual([]);
  });

  it('shows who leads a role since when, and who stands for it', async () => {
    const { page, complaints } = await board();
    const row = lock(page, 'price-list');
    await row.getByText('2 stand for election').waitFor(SOON);
    expect(await row.innerText()).toMatch(/PriceListService\.rebuild on .*, pid \d+[\s\S]*leads since .*, for about \d/);
    expect(await row.getByRole('listitem').filter({ hasText: 'PriceListService.rebuild' }).count()).toBe(3);
    expect(complaints).toEqual([]);
  });

  it('takes a lock away only after a confirmation, and the method of its holder is told', async () => {
    const { page, complaints } = await board();
    const counted = stocktake(2, 15);
    const force = lock(page, 'item:2').getByRole('button', { name: /Force release/ });
    await force.click();
    await page.getByRole('button', { name: 'Leave it' }).click();
    expect(await lock(page, 'item:2').locator('.holders').getByText('StocktakeService.count').count()).toBe(1);
    await force.click();
    await page.getByRole('dialog').getByText('item:2 is held by StocktakeService.count').waitFor(SOON);
    await page.getByRole('button', { name: 'Take it away' }).click();
    await takenAway(page);
    const answer = await counted;
    expect(answer.status).toBe(500);
    expect(await answer.json()).toMatchObject({ code: 'LOCK_LOST' });
    await page.locator('.incidents', { hasText: 'lost item:2 StocktakeService.count' }).waitFor(SOON);
    expect(complaints).toEqual([]);
  });

  it('is usable at 400 px width: nothing is cut off or needs scrolling sideways', async () => {
    const { page, complaints } = await board({ viewport: { width: 400, height: 800 } });
    const [counted, waited] = [stocktake(1, 10), order(1, 1)];
    const row = lock(page, 'item:1');
    await row.getByText('1 process waits for StocktakeService.count to end').waitFor(SOON);
    const overflow = await page.evaluate('document.documentElement.scrollWidth - document.documentElement.clientWidth');
    expect(overflow).toBeLessThanOrEqual(0);
    const button = await row.getByRole('button').boundingBox();
    expect(button && button.x >= 0 && button.x + button.width <= 400 && button.height >= 24).toBe(true);
    await row.getByRole('button').click();
    const dialog = await page.getByRole('dialog').boundingBox();
    expect(dialog && dialog.x >= 0 && dialog.x + dialog.width <= 400).toBe(true);
    await page.getByRole('button', { name: 'Take it away' }).click();
    await takenAway(page);
    await Promise.all([counted, waited]);
    expect(complaints).toEqual([]);
  });

  it('is usable with the keyboard alone, and keeps the focus while it redraws', async () => {
    const { page, complaints } = await board();
    const counted = stocktake(1, 15);
    const focused = () => page.evaluate("document.activeElement?.getAttribute('aria-label') ?? document.activeElement?.id");
    await lock(page, 'item:1').waitFor(SOON);
    await page.keyboard.press('Tab');
    expect(await focused()).toBe('filter');
    await page.keyboard.type('stocktake');
    await page.keyboard.press('Tab');
    expect(await focused()).toBe('only-waited');
    await page.keyboard.press('Tab');
    expect(await focused()).toBe('compact');
    await page.keyboard.press('Tab');
    expect(await focused()).toMatch(/^Force release item:1 from StocktakeService\.count on /);
    // A waiter comes: the row is drawn anew under the focus.
    const waited = order(1, 1);
    await lock(page, 'item:1').getByText('1 process waits for').waitFor(SOON);
    expect(await focused()).toMatch(/^Force release item:1/);
    await page.keyboard.press('Enter');
    expect(await focused()).toBe('release-cancel');
    await page.keyboard.press('Escape');
    expect(await focused()).toMatch(/^Force release item:1/);
    await page.keyboard.press('Enter');
    await page.keyboard.press('Tab');
    expect(await focused()).toBe('release-confirm');
    await page.keyboard.press('Enter');
    await takenAway(page);
    expect((await counted).status).toBe(500);
    await waited;
    expect(complaints).toEqual([]);
  });

  it('gives each lock one line where there are many, with its details at a press, and keeps them open while it redraws', async () => {
    const { page, complaints } = await board();
    const held = await heldOrders(495);
    try {
      const row = lock(page, 'many:7');
      await page.locator('.lock').nth(494).waitFor(SOON);
      const heights = (await page.evaluate(HEIGHTS_OF_LOCKS)) as number[];
      expect(heights.length).toBeGreaterThanOrEqual(495);
      expect(Math.max(...heights)).toBeLessThan(50);
      const details = row.getByText(/^lease ends in/);
      expect(await details.isVisible()).toBe(false);
      await row.getByRole('button', { name: 'Details of many:7' }).click();
      await details.waitFor(SOON);
      const waited = held.waitFor('many:7');
      await row.getByText('1 process waits for').waitFor(SOON);
      expect(await details.isVisible()).toBe(true);
      await page.getByLabel('One line for each lock').uncheck();
      await lock(page, 'many:8').getByText(/^lease ends in/).waitFor(SOON);
      await held.release();
      await waited;
    } finally {
      await held.close();
    }
    expect(complaints).toEqual([]);
  });

  it('shows the text in enough contrast by day and by night', async () => {
    for (const colorScheme of ['light', 'dark'] as const) {
      const { page } = await board({ colorScheme });
      const ratio = (await page.evaluate(CONTRAST_OF_QUIET_TEXT)) as number;
      expect(ratio).toBeGreaterThanOrEqual(4.5);
    }
  });

  it('filters by method and by what is waited for', async () => {
    const { page } = await board();
    const [counted, row] = [stocktake(1, 10), lock(page, 'item:1')];
    await row.waitFor(SOON);
    await page.getByLabel('Key, label or host').fill('nobody.at.all');
    await row.waitFor({ state: 'detached', ...SOON });
    await page.getByLabel('Key, label or host').fill('stocktakeservice');
    await row.waitFor(SOON);
    await page.getByLabel('Only what is waited for').check();
    await row.waitFor({ state: 'detached', ...SOON });
    const waited = order(1, 2);
    await row.waitFor(SOON);
    await row.getByRole('button').click();
    await page.getByRole('button', { name: 'Take it away' }).click();
    await takenAway(page);
    await Promise.all([counted, waited]);
  });
});

const HEIGHTS_OF_LOCKS = `[...document.querySelectorAll('.lock')].map((row) => row.getBoundingClientRect().height)`;

/** WCAG's ratio of the quietest text to the ground it stands on. */
const CONTRAST_OF_QUIET_TEXT = `(() => {
  const light = (color) => {
    const [r, g, b] = color.match(/[\\d.]+/g).slice(0, 3).map((part) => part / 255).map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const text = light(getComputedStyle(document.querySelector('#status')).color);
  const ground = light(getComputedStyle(document.body).backgroundColor);
  return (Math.max(text, ground) + 0.05) / (Math.min(text, ground) + 0.05);
})()`;
