/**
 * The leases that this process made of tickets. Each belongs to one hold: no other caller of the process is put on it, and when its
 * hold has ended it is given back to the store, which lets in whose turn it is.
 */
import type { BackgroundRelease } from '../lease/background-release.js';
import { StoreLease, type LeaseKeeper } from '../lease/store-lease.js';
import type { Watchdog } from '../lease/watchdog.js';
import type { ReleaseEnded } from '../port/lease.js';
import type { ResolvedOptions } from '../port/lock-options.js';
import type { Grant, HolderRef } from '../port/lock-store.js';

export class AdoptedLeases implements LeaseKeeper {
  private readonly leases = new Map<string, StoreLease>();

  constructor(
    private readonly watchdog: Watchdog,
    private readonly background: BackgroundRelease,
  ) {}

  get size(): number {
    return this.leases.size;
  }

  /** Makes a lease of what the store granted, guards it, and puts its only caller on it. `lateUntil`: until when a request for it that got no answer may act. */
  add({ key, id }: HolderRef, ticketId: string, options: ResolvedOptions, grant: Grant, at: number, lateUntil: number): StoreLease {
    const lease = new StoreLease({ key, id, options, lateUntil, ticketId }, grant, at, this, this.watchdog, 0);
    this.leases.set(id, lease);
    this.watchdog.watch(lease, at);
    lease.admit(options, at);
    return lease;
  }

  find(key: string, id: string): StoreLease | undefined {
    const lease = this.leases.get(id);
    return lease?.key === key ? lease : undefined;
  }

  callerLeft(lease: StoreLease, done: ReleaseEnded): void {
    this.leases.delete(lease.id);
    if (lease.isLost) {
      this.background.releaseLost(lease);
      return done('lost');
    }
    lease.letGo();
    this.background.releaseAndTell(lease, done);
  }

  leaseHandedOff(lease: StoreLease): void {
    this.leases.delete(lease.id);
  }

  leaseLost(): void {
    // Its only caller is told by the lease itself, and leaves it then.
  }

  leaseChanged(): void {
    // Nobody waits for it here.
  }
}
