/**
 * Judges how long something takes on real servers. A machine that has other work lets nobody run for a while, and that is not late by
 * anybody's fault: the bound is longer by what this process stood still, for itself, for the server and for the way between them.
 */
import { watchLoop } from '../faults/crew/late-turns.js';

const SIDES = 3;

export async function within<T>(boundMs: number, act: () => T | PromiseLike<T>): Promise<T> {
  const turns = watchLoop();
  try {
    const since = performance.now();
    const result = await act();
    const tookMs = performance.now() - since;
    const stoodStillMs = turns.stop().reduce((sum, [, ms]) => sum + ms, 0);
    if (tookMs <= boundMs + SIDES * stoodStillMs) return result;
    throw new Error(`It took ${tookMs.toFixed(0)} ms and may take ${boundMs}; the machine let this process stand still for ${stoodStillMs.toFixed(0)} ms of it.`);
  } finally {
    turns.stop();
  }
}
