/** The leases that this process has of one lock: mostly one. There are more when readers took a new lease beside an earlier read lease. */
import type { GuardedLease } from '../lease/guarded-lease.js';
import type { StoreLease } from '../lease/store-lease.js';
import type { LockMode } from '../port/lock-mode.js';

const NONE: readonly StoreLease[] = [];

export class KeyLeases {
  /** The lease to which callers are admitted. */
  current: StoreLease | undefined;
  /** Earlier read leases: the readers on them go on, and no further caller is admitted. */
  private earlier: readonly StoreLease[] = NONE;
  /** How many there are. Only this object writes it. */
  count = 0;

  /** The lease that is held under this id. */
  find(id: string): StoreLease | undefined {
    return this.current?.id === id ? this.current : this.earlier.find((lease) => lease.id === id);
  }

  /** Whether a caller of this process has the lock. */
  get isUsed(): boolean {
    return (this.current?.users ?? 0) > 0;
  }

  add(lease: StoreLease): void {
    if (this.current) this.earlier = [...this.earlier, this.current];
    this.current = lease;
    this.count += 1;
  }

  /**
   * Takes out the leases that have ended in the store, although no answer has said so: a grant to write ends all before it, and a grant
   * to read one that wrote, because the store grants no writer beside another lease.
   */
  takeEndedBy(granted: LockMode): StoreLease[] {
    const all = this.current ? [...this.earlier, this.current] : this.earlier;
    const ended = all.filter(({ mode }) => granted === 'write' || mode === 'write');
    for (const lease of ended) this.remove(lease);
    return ended;
  }

  remove(lease: GuardedLease): void {
    if (this.current === lease) this.current = undefined;
    else this.earlier = this.earlier.filter((one) => one !== lease);
    this.count = this.earlier.length + (this.current ? 1 : 0);
  }
}
