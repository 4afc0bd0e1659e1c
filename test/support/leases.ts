/** Leases without a store and without a queue: what a test reads is what a lease says of itself. */
import { StoreLease, type LeaseKeeper } from '../../lib/core/lease/store-lease.js';
import type { Watchdog } from '../../lib/core/lease/watchdog.js';
import type { LockOptions } from '../../lib/core/port/lock-options.js';
import type { Grant } from '../../lib/core/port/lock-store.js';
import { resolveDefaults, resolveOptions } from '../../lib/core/port/options.js';

/** What a lease was told to its keeper and its guard, in order. */
export interface Seen {
  readonly told: string[];
  readonly keeper: LeaseKeeper;
  readonly guard: Watchdog;
}

export function seen(): Seen {
  const told: string[] = [];
  const guard = {
    due: (_lease: StoreLease, now: number) => void told.push(`due at ${now}`),
    watch: (_lease: StoreLease, now: number) => void told.push(`watched at ${now}`),
    schedule: { cancel: () => void told.push('forgotten') },
  } as unknown as Watchdog;
  const keeper: LeaseKeeper = { userLeft: () => void told.push('user left'), leaseChanged: () => void told.push('changed') };
  return { told, keeper, guard };
}

/** A lease of the lock `k` that was granted at 1,000 and is trusted until 9,000, unless told otherwise. */
export function leaseWith(options: LockOptions = {}, grant: Partial<Grant> = {}, { keeper, guard }: Seen = seen(), phase = 0): StoreLease {
  const resolved = resolveOptions({ leaseMs: 8_000, ...options }, resolveDefaults());
  const whole: Grant = { fence: 1, fences: 16, mode: resolved.mode, trustedUntil: 9_000, contended: false, ...grant };
  return new StoreLease({ key: 'k', id: 'p.1', options: resolved, leaseMs: Math.min(resolved.leaseMs, resolved.maxHoldMs), lateUntil: -Infinity, isContended: false }, whole, 1_000, keeper, guard, phase);
}
