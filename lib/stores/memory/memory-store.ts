/**
 * The embedded store: locks inside one process, for tests, for development, and for an application that runs once. It runs the lock
 * machine on the clock of the process, which the holders use too: so a lease is trusted to its last instant, and no outcome is
 * unknown.
 */
import { randomBytes } from 'node:crypto';
import type { Clock, Timer } from '../../core/port/clock.js';
import { LockStoreError } from '../../core/port/errors.js';
import { lateError } from '../../core/port/hold-errors.js';
import type { ListOptions, LockState } from '../../core/port/lock-state.js';
import type {
  AcquireOutcome,
  AcquireRequest,
  HolderRef,
  LockStore,
  ReleaseRequest,
  RenewOutcome,
  RenewRequest,
  StoreCapabilities,
  Wake,
} from '../../core/port/lock-store.js';
import { LockMachine, type Instant } from './lock-machine.js';

/** Locks whose leases ended without a release are looked for at most this often, in ms. */
const COLLECT_EVERY_MS = 1_000;

export class MemoryStore implements LockStore {
  readonly capabilities: StoreCapabilities = { queue: true, replicas: false, permits: true };
  /** A ticket is of use in this process only, so its home has a name that no other process has. */
  readonly ticketHome = `embedded ${randomBytes(6).toString('base64url')}`;
  /** Wakes are delivered in a later microtask, because a listener that asks the store again must not find it in the middle of a command. */
  private readonly machine = new LockMachine((wake) => void Promise.resolve().then(() => this.listener?.(wake)));
  private listener: ((wake: Wake) => void) | undefined;
  /** Set while any lock has a record, so that a lock whose holder never releases it does not stay in memory. */
  private collector: Timer | undefined;
  private closed = false;

  constructor(private readonly clock: Clock) {}

  /** How many locks have a record: they are taken, or have ended and were not settled since. */
  get size(): number {
    return this.machine.locks.size;
  }

  async open(): Promise<void> {}

  onWake(listener: (wake: Wake) => void): void {
    this.listener = listener;
  }

  async acquire(request: AcquireRequest): Promise<AcquireOutcome> {
    const { key, minReplicas, notAfter } = request;
    if (this.closed) throw new LockStoreError(`Lock '${key}': the embedded store is closed.`, { key, retryable: false });
    if (this.clock.now() > notAfter) throw lateError(key);
    if (minReplicas > 0) throw new LockStoreError(`Lock '${key}': minReplicas is ${minReplicas}, but the embedded store has no replicas.`, { key, retryable: false });
    return this.command((at) => this.machine.acquire(request, at));
  }

  async renew(request: RenewRequest): Promise<RenewOutcome> {
    return this.command((at) => this.machine.renew(request, at));
  }

  async release(request: ReleaseRequest): Promise<'released' | 'lost'> {
    return this.command((at) => this.machine.release(request, at));
  }

  async downgrade(holder: HolderRef): Promise<'downgraded' | 'lost'> {
    return this.command((at) => this.machine.downgrade(holder, at));
  }

  async inspect(key: string): Promise<LockState> {
    return this.command((at) => this.machine.inspect(key, at));
  }

  async *list({ startsWith = '' }: ListOptions = {}): AsyncIterable<LockState> {
    // The keys are copied, because a reader that is slow would otherwise meet every lock that is taken meanwhile, without end.
    for (const key of [...this.machine.locks.keys()]) {
      if (!key.startsWith(startsWith)) continue;
      const state = this.machine.inspect(key, this.instant());
      if (state.holders.length + state.waiters.length > 0) yield state;
    }
  }

  async forceRelease(key: string, fence?: number): Promise<boolean> {
    return this.command((at) => this.machine.forceRelease(key, fence, at));
  }

  async tryOut(): Promise<void> {
    // There is no server that could refuse a lock.
  }

  async close(): Promise<void> {
    this.closed = true;
    this.listener = undefined;
    this.stopCollecting();
  }

  private instant(): Instant {
    return { ms: this.clock.now(), us: Math.floor(this.clock.wallNow() * 1_000) };
  }

  /** Gives a command the time. Whatever it did, leases that end without a release are looked for from now on, or no longer. */
  private command<Answer>(act: (at: Instant) => Answer): Answer {
    const answer = act(this.instant());
    if (this.size === 0) this.stopCollecting();
    else if (!this.closed) this.collector ??= this.clock.setTimer(() => this.collect(), COLLECT_EVERY_MS);
    return answer;
  }

  private collect(): void {
    const at = this.instant();
    const nextEnd = this.machine.collect(at);
    this.collector = nextEnd === Infinity ? undefined : this.clock.setTimer(() => this.collect(), Math.max(COLLECT_EVERY_MS, nextEnd - at.ms + 1));
  }

  private stopCollecting(): void {
    this.clock.clearTimer(this.collector);
    this.collector = undefined;
  }
}
