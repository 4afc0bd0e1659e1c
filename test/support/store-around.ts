/** A store that passes everything on to another one: what stands between a test and its store changes only what it is about. */
import type { ListOptions, LockState } from '../../lib/core/port/lock-state.js';
import type {
  AcquireOutcome, AcquireRequest, HeldLease, HolderRef, LockStore, ReleaseRequest, RenewOutcome, RenewRequest, StoreCapabilities,
  Wake,
} from '../../lib/core/port/lock-store.js';

export class StoreAround implements LockStore {
  readonly capabilities: StoreCapabilities;
  readonly ticketHome: string | undefined;

  constructor(protected readonly store: LockStore, capabilities: Partial<StoreCapabilities> = {}) {
    this.capabilities = { ...store.capabilities, ...capabilities };
    this.ticketHome = store.ticketHome;
  }

  open(): Promise<void> {
    return this.store.open();
  }

  close(): Promise<void> {
    return this.store.close();
  }

  onWake(listener: (wake: Wake) => void): void {
    this.store.onWake(listener);
  }

  onDoubt(...listeners: Parameters<NonNullable<LockStore['onDoubt']>>): void {
    this.store.onDoubt?.(...listeners);
  }

  memoryOf(key: string): string | undefined {
    return this.store.memoryOf?.(key);
  }
  mayHaveForgotten(lease: HolderRef & HeldLease): boolean {
    return this.store.mayHaveForgotten?.(lease) === true;
  }

  acquire(request: AcquireRequest): Promise<AcquireOutcome> {
    return this.store.acquire(request);
  }

  renew(request: RenewRequest): Promise<RenewOutcome> {
    return this.store.renew(request);
  }

  release(request: ReleaseRequest): Promise<'released' | 'lost'> {
    return this.store.release(request);
  }

  downgrade(holder: HolderRef): Promise<'downgraded' | 'lost'> {
    return this.store.downgrade(holder);
  }

  inspect(key: string): Promise<LockState> {
    return this.store.inspect(key);
  }

  list(options?: ListOptions): AsyncIterable<LockState> {
    return this.store.list(options);
  }

  forceRelease(key: string, fence?: number): Promise<boolean> {
    return this.store.forceRelease(key, fence);
  }

  tryOut(): Promise<void> {
    return this.store.tryOut();
  }
}
