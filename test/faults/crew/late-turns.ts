/** Turns of this process's event loop that came late: whatever passes through it was late by as much. */
import type { Lag } from './stay-record.js';

const TICK_MS = 5;
const LATE_MS = 15;

/** Milliseconds of CLOCK_MONOTONIC, which every process of a machine shares. */
export function monotonicNow(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

export function watchLoop(): { stop(): readonly Lag[] } {
  const lags: Lag[] = [];
  let last = monotonicNow();
  const ticker = setInterval(() => {
    const at = monotonicNow();
    if (at - last > TICK_MS + LATE_MS) lags.push([at, at - last]);
    last = at;
  }, TICK_MS);
  return {
    stop: () => {
      clearInterval(ticker);
      return lags;
    },
  };
}
