/** What is left of a hold, as it is shown: of its lease, and after that of its grace. */
import type { HolderState } from './lock-state.js';

/** `leftMs`: how long the lock stays taken unless it is renewed or released, `graceMs` at the end of it included. */
export function untilFree(leftMs: number, graceMs: number): Pick<HolderState, 'remainingMs' | 'graceMs'> {
  if (graceMs === 0) return { remainingMs: leftMs };
  return { remainingMs: Math.max(0, leftMs - graceMs), graceMs: Math.min(leftMs, graceMs) };
}
