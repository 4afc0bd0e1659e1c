/**
 * The lease that a process has of one lock, and who of its callers may be put on it next.
 */
import type { HeldLease } from './held-lease.js';
import type { ResolvedOptions } from '../port/lock-options.js';
import type { Grant } from '../port/lock-store.js';

/** While others wait, a process keeps a lock among its own callers for about this long. */
const SHARE_MS = 50;
/** Without news for this long the store is asked whether others wait: messages get lost. */
const NEWS_MS = 1_000;
/** A lease with less trust left than this (or a quarter of it) is not handed on: the next caller gets a fresh one. */
const LITTLE_MS = 500;

export class Holding {
  /** Callers that are on the lease now. */
  users = 0;
  /** Callers that have ever been. */
  turns = 0;
  /** Those of them that have been on it for longer than their maxHoldMs. */
  overdue = 0;
  /** Not to be handed on: its end in the store is bound to the hold that it was granted for. */
  spent = false;
  private nextFence: number;
  private readonly endFence: number;

  constructor(
    readonly lease: HeldLease,
    /** Of the caller that it was asked for. */
    readonly options: ResolvedOptions,
    private readonly grant: Grant,
    /** The readers that had come by this arrival waited when its phase began. */
    private readonly phase: number,
  ) {
    this.nextFence = grant.fence;
    this.endFence = grant.fence + grant.fences;
  }

  /** How many fences it had, when all of them were used. */
  get usedUp(): number {
    return this.nextFence < this.endFence ? 0 : this.grant.fences;
  }

  /**
   * Whether a caller with these options may be put on the lease now. When not, the store must be asked for it. `arrival`: of
   * a caller that waits.
   */
  admits(wanted: ResolvedOptions, now: number, handOn: number, arrival = Infinity): boolean {
    const { lease, options } = this;
    if (!lease.isTrusted(now) || !alike(options, wanted)) return false;
    if (this.turns === 0) return true;
    if (this.spent || !options.renew || wanted.minHoldMs > 0) return false;
    // A hung caller must not keep the lock for longer than it may: its lease has to end by then.
    if (lease.trustedUntil - now > wanted.maxHoldMs) return false;
    if (lease.trustedUntil - now < Math.min(options.leaseMs / 4, LITTLE_MS) || now - lease.heardAt >= NEWS_MS) return false;
    // Readers join side by side; while a writer waits anywhere, only those that its phase lets in.
    if (options.mode === 'read') return !lease.contended || arrival <= this.phase;
    if (this.users > 0 || handOn === 1 || this.nextFence >= this.endFence) return false;
    return !lease.contended || (this.turns < handOn && now - lease.grantedAt < SHARE_MS);
  }

  /** Puts a caller on the lease; gives its fence, which readers share. */
  begin({ maxHoldMs, minHoldMs }: ResolvedOptions, now: number): number {
    const until = now + maxHoldMs;
    this.lease.renewUntil = this.users === 0 ? until : Math.max(this.lease.renewUntil, until);
    this.users += 1;
    this.turns += 1;
    if (minHoldMs > 0) this.spent = true;
    // By what was asked for: a lease that is stronger has no more fences than were reserved.
    return this.options.mode === 'read' ? this.nextFence : this.nextFence++;
  }
}

/** Only callers whose requests to the store would be the same may take over a place in its queue from each other. */
export function asksAlike(a: ResolvedOptions, b: ResolvedOptions): boolean {
  const sameLease = Math.min(a.leaseMs, a.maxHoldMs) === Math.min(b.leaseMs, b.maxHoldMs);
  return alike(a, b) && sameLease && a.minHoldMs === b.minHoldMs;
}

/** Only callers that would have asked for the same thing may follow each other on a lease. */
function alike(a: ResolvedOptions, b: ResolvedOptions): boolean {
  return a.mode === b.mode && a.leaseMs === b.leaseMs && a.renew === b.renew && a.minReplicas === b.minReplicas && a.owner === b.owner;
}
