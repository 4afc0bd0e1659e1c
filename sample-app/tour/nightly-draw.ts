/** The nightly draw: asks every instance what it has drawn, and looks for a night that was drawn twice. */
import { setTimeout as pause } from 'node:timers/promises';
import type { Draw } from '../draw/draw.service.js';
import { send } from './request.js';
import type { Stop } from './stop.js';

const NIGHTS = 2;
const LONGEST_WAIT_MS = 12_000;

export async function visitNightlyDraw(urls: readonly string[]): Promise<Stop> {
  const draws = await untilDrawn(urls);
  const nights = new Set(draws.map((draw) => draw.night)).size;
  const instances = new Set(draws.map((draw) => draw.drawnBy)).size;
  return {
    kept: nights >= NIGHTS && draws.length === nights,
    lines: [
      `Nightly draw: the clock strikes every three seconds on every instance; one of them draws`,
      `  ${nights} nights, ${draws.length} draws, made by ${instances} of ${urls.length} instances`,
    ],
  };
}

async function untilDrawn(urls: readonly string[]): Promise<Draw[]> {
  for (const until = performance.now() + LONGEST_WAIT_MS; ; await pause(50)) {
    const draws = (await Promise.all(urls.map((url) => send<Draw[]>('GET', `${url}/draws`)))).flat();
    if (new Set(draws.map((draw) => draw.night)).size >= NIGHTS || performance.now() > until) return draws;
  }
}
