/**
 * What the callers of each process do in most fault runs: short and long holds, readers beside writers, two locks at once,
 * a fixed lease, and callers that do not wait, on keys that all processes share.
 */
import type { CallerPlan } from './stay-record.js';

export function usualPlans(process: number, leaseMs: number): CallerPlan[] {
  const short = { leaseMs, waitMs: [800, 2_500], holdMs: [5, 60], restMs: [5, 60], caution: 'asks' } as const;
  const listening = { ...short, caution: 'listens' } as const;
  return [
    { ...short, key: 'hot', mode: 'write' },
    { ...listening, key: 'hot', mode: 'write' },
    { ...short, key: 'hot', mode: 'write', waitMs: [0, 0] },
    { ...short, key: 'mixed', mode: process % 2 === 0 ? 'write' : 'read' },
    { ...listening, key: 'mixed', mode: 'read' },
    // Alone in their process on their keys, so that each call asks the store.
    { ...short, key: 'tried', mode: 'write', waitMs: [0, 0], restMs: [20, 80] },
    { ...short, key: 'brief', mode: 'write', waitMs: [20, 200] },
    { ...short, key: ['one', 'two'], mode: 'write', holdMs: [5, 30] },
    { ...short, key: 'fixed', mode: 'write', renew: false, holdMs: [5, 80] },
    // Held across the fault by one process, while the others wait for it.
    { ...(process === 0 ? short : listening), key: 'long', mode: 'write', holdMs: [1_500, 3_000], waitMs: [500, 6_000] },
    { ...short, key: `own-${process}`, mode: 'write', holdMs: [2_000, 4_000], caution: process === 1 ? 'listens' : 'asks' },
  ];
}
