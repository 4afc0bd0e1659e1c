/** A turn on a lease that this process holds in the store: what the queue of its key gives to a caller. */
import type { HeldLease } from '../lease/held-lease.js';
import type { Holding } from '../lease/holding.js';
import type { KeyQueue } from './key-queue.js';
import type { ReleaseOutcome } from '../port/lease.js';
import type { LockMode } from '../port/lock-mode.js';
import type { ResolvedOptions } from '../port/lock-options.js';
import type { Turn } from './turn.js';

export class LeaseTurn implements Turn {
  readonly lease: HeldLease;
  readonly mode: LockMode;
  readonly nested = false;
  private isOverdue = false;

  constructor(
    private readonly queue: KeyQueue,
    private readonly holding: Holding,
    readonly fence: number,
    readonly options: ResolvedOptions,
  ) {
    this.lease = holding.lease;
    this.mode = holding.lease.mode;
  }

  end(done: (outcome: ReleaseOutcome) => void, abandoned = false): void {
    this.queue.endTurn(this.holding, this.isOverdue, abandoned, done);
  }

  keep(): void {
    const { lease, holding, queue } = this;
    const { leaseMs, renew, maxHoldMs, minReplicas } = this.options;
    if ((renew && maxHoldMs === Infinity) || lease.state === 'lost') return;
    // A fixed lease is nobody else's; one that is shared by readers is renewed already.
    if (holding.users === 1) lease.terms = { leaseMs: Math.min(leaseMs, maxHoldMs), renew: true, minReplicas };
    lease.renewUntil = Infinity;
    queue.desk.watchdog.watch(lease);
  }

  begin(done: () => void): void {
    const { lease, holding, options, queue } = this;
    const { watchdog, clock } = queue.desk;
    lease.terms = options;
    if (holding.users === 1) lease.renewUntil = clock.now() + options.maxHoldMs;
    if (options.renew) done();
    else void watchdog.renewNow(lease).then(done);
  }

  async downgrade(): Promise<void> {
    const { lease, holding, queue } = this;
    holding.spent = true;
    try {
      if ((await queue.desk.store.downgrade(lease)) === 'lost') return;
    } catch {
      return; // it stays a write lease: stricter than it need be, and released as such
    }
    lease.mode = 'read';
    queue.pump();
  }

  expire(): void {
    if (this.isOverdue) return;
    this.isOverdue = true;
    this.queue.expire(this.holding);
  }

  /** There is no hold around it. */
  count(): void {}
}
