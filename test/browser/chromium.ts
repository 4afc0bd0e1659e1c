/** A real Chromium without a window, with a profile of its own that is gone afterwards. */
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { chromium, type BrowserContext, type BrowserContextOptions, type Page } from 'playwright-core';

const PLACES = [process.env['CHROMIUM'], '/usr/bin/chromium', '/usr/bin/chromium-headless-shell', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];
const ARGS = [
  '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync',
];

export interface OpenBrowser {
  /** A page, and what it complained of on its console or failed to load, as far as nothing was expected. */
  page(options?: BrowserContextOptions): Promise<{ readonly page: Page; readonly complaints: readonly string[] }>;
  close(): Promise<void>;
}

export async function openChromium(): Promise<OpenBrowser> {
  const executablePath = PLACES.find((path) => path !== undefined && existsSync(path));
  if (executablePath === undefined) {
    throw new Error('These tests need Chromium: apt-get install -y chromium, or name the program in the environment variable CHROMIUM.');
  }
  const home = await mkdtemp(join(tmpdir(), 'holdfast-chromium-'));
  const browser = await chromium.launch({ executablePath, headless: true, args: ARGS, env: { ...process.env, HOME: home } as Record<string, string> });
  const contexts: BrowserContext[] = [];
  return {
    async page(options) {
      const context = await browser.newContext(options);
      contexts.push(context);
      const page = await context.newPage();
      const complaints: string[] = [];
      page.on('console', (message) => message.type() === 'error' && complaints.push(message.text()));
      page.on('pageerror', (error) => complaints.push(String(error)));
      page.on('request', (request) => !/^(https?:\/\/127\.0\.0\.1[:/]|data:)/.test(request.url()) && complaints.push(`outside request: ${request.url()}`));
      return { page, complaints };
    },
    async close() {
      for (const context of contexts) await context.close();
      await browser.close();
      await rm(home, { recursive: true, force: true });
    },
  };
}
