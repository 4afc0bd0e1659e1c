/**
 * One caller's hold of one lock, or of several that were taken together. The caller gets it as a {@link Lease}.
 *
 *     open ──▶ ending ──▶ released      ending: nested calls that began before the end of the hold finish inside it (isOpen is false)
 *       ├────────┴──────▶ lost
 *       └──▶ handed off ▶ released      its locks go to a ticket, and are not this process's from then on
 */
import { Alarm } from '../lease/schedule.js';
import type { LeaseUser, StoreLease } from '../lease/store-lease.js';
import { type LockClosedError, type LockLostError, LockUsageError } from '../port/errors.js';
import { lostError, permitsError, renewalError, siblingBusyError, upgradeError } from '../port/hold-errors.js';
import type { Lease, LeaseFacts, ReleaseEnded, ReleaseOutcome } from '../port/lease.js';
import { covers, type HandOffOptions, type LockMode, type ResolvedOptions } from '../port/lock-options.js';
import { checkRenewal } from '../port/options.js';
import { type Call, CallLine, type Reentry } from '../queue/call.js';
import type { LockCore } from './lock-core.js';
import { type HandedLease, handedLeaseOf } from './tickets.js';

/** The name by which Node knows the method that says what is printed of an object. */
const INSPECTED = Symbol.for('nodejs.util.inspect.custom');

export class Hold implements Lease, LeaseUser {
  readonly startedAt: number;
  /** True if nested calls may still come in. */
  isOpen = true;
  /** Why it was lost; undefined while it was not. */
  loss: LockLostError | undefined;
  private outcome: ReleaseOutcome | undefined;
  /** Its fences, in the order of its locks: that of a lease changes when it is handed on. */
  private readonly fencesTaken = new Array<number>(this.leases.length);
  /** The nested calls, by the lease of the lock that they re-enter; undefined for most holds, which have none. */
  private nested: Map<StoreLease, NestedCalls> | undefined;
  /** How many nested calls are inside it. Only {@link NestedCalls} writes it. */
  nestedCalls = 0;
  /** True if its locks went to a ticket. */
  isHandedOff = false;
  /** True if any code ran inside it. If not, `acquire` gave it out and its caller never used `run`. */
  hasRun = false;
  /** True if it went on for longer than its maxHoldMs, so that its leases are not kept for it any longer. */
  private isOverdue = false;
  private locksLeft = this.leases.length;
  private worst: ReleaseOutcome = 'released';
  private controller: AbortController | undefined;
  private whenEnded: ReleaseEnded | undefined;
  private overdue: Alarm | undefined;

  constructor(
    readonly core: LockCore,
    /** The leases of its locks, in their order. */
    readonly leases: readonly StoreLease[],
    readonly options: ResolvedOptions,
    /** The number of the call for which it was made. */
    readonly call: number,
    /** What the call re-entered of the holds around it: of these locks the lease is another hold's. */
    private readonly reentered: ReadonlyMap<StoreLease, Reentry> | undefined,
  ) {
    this.startedAt = reentered?.has(leases[0]!) ? core.clock.now() : leases[0]!.admittedAt;
    this.loss = this.outcome = this.nested = this.controller = this.whenEnded = this.overdue = undefined;
    if (reentered) for (const place of reentered.values()) place.began(this);
    if (options.maxHoldMs !== Infinity) {
      this.overdue = new Alarm(() => this.expire());
      core.schedule.set(this.overdue, this.startedAt + options.maxHoldMs);
    }
    // Only a complete hold can be told of a loss.
    for (let n = 0; n < leases.length; n++) {
      this.fencesTaken[n] = leases[n]!.fence;
      leases[n]!.onLoss(this);
    }
  }

  get key(): string {
    return this.leases[0]!.key;
  }

  get keys(): readonly string[] {
    return this.leases.map(({ key }) => key);
  }

  /** `write` when all locks are held for writing. They can differ, because requests of an owner share the mode of its present hold. */
  get mode(): LockMode {
    return this.leases.every((lease) => this.modeIn(lease) === 'write') ? 'write' : 'read';
  }

  /** How it has this lock; undefined when it does not have it. */
  modeOf(key: string): LockMode | undefined {
    const lease = this.leases.find((each) => each.key === key);
    return lease && this.modeIn(lease);
  }

  /** A nested call may be for reading inside a hold that is for writing. */
  private modeIn(lease: StoreLease): LockMode {
    return this.reentered?.has(lease) ? this.options.mode : lease.mode;
  }

  get fence(): number {
    if (this.leases.length > 1) {
      throw new LockUsageError(`A lease of ${this.leases.length} locks has a fence for each: read lease.fences.get(key).`, { key: this.key });
    }
    return this.fencesTaken[0]!;
  }

  get fences(): ReadonlyMap<string, number> {
    return new Map(this.leases.map(({ key }, index) => [key, this.fencesTaken[index]!]));
  }

  get heldMs(): number {
    return this.core.clock.now() - this.startedAt;
  }

  get remainingMs(): number {
    const now = this.core.clock.now();
    this.core.watchdog.sleep.look(now);
    if (this.loss || this.isOver) return 0;
    return Math.max(0, Math.min(this.startedAt + this.options.maxHoldMs, ...this.leases.map(({ trustedUntil }) => trustedUntil)) - now);
  }

  /** The signal is made when it is first read, because most callers never read it. */
  get signal(): AbortSignal {
    this.controller ??= new AbortController();
    if (this.loss && !this.controller.signal.aborted) this.controller.abort(this.loss);
    return this.controller.signal;
  }

  /** True if it only re-entered other holds of this process, so that it has no lease of its own. */
  get isNested(): boolean {
    return this.reentered?.size === this.leases.length;
  }

  /** True if one of its locks at least is that of a hold around it. */
  get reentersOthers(): boolean {
    return (this.reentered?.size ?? 0) > 0;
  }

  /** How many holds there are of its locks: itself and those inside it. One inside counts once, however many of the locks it re-entered. */
  get holdCount(): number {
    return this.withInner().size;
  }

  private withInner(found = new Set<Hold>()): Set<Hold> {
    found.add(this);
    this.nested?.forEach(({ holds }) => holds.forEach((hold) => hold.withInner(found)));
    return found;
  }

  /**
   * Compares the clock with maxHoldMs and the trust of its leases now, and returns the loss, if there is one. As everywhere on the way of a
   * plain call, the leases are counted through: while code is cold, an iterator makes four objects for a hold of one lock.
   */
  lossNow(now = this.core.clock.now()): LockLostError | undefined {
    if (this.loss || this.outcome) return this.loss;
    this.core.watchdog.sleep.look(now);
    if (now >= this.startedAt + this.options.maxHoldMs) this.expire();
    for (let n = 0; n < this.leases.length; n++) if (now >= this.leases[n]!.trustedUntil) this.leases[n]!.endTrust();
    return this.loss;
  }

  assertHeld(): void {
    const loss = this.lossNow();
    if (loss) throw loss;
    if (this.isOver) throw lostError(this.key, 'ended', this.howItEnded);
  }

  private get howItEnded(): string {
    if (!this.isHandedOff) return 'it was released by this process';
    return this.outcome === 'unknown' ? 'its hand-off failed' : 'this process handed it off';
  }

  /** Asks the store whether it still knows all leases of the hold. @throws LockStoreError */
  async verify(): Promise<boolean> {
    if (this.lossNow() || this.isOver) return false;
    const states = await Promise.all(this.keys.map((key) => this.core.store.inspect(key)));
    return this.leases.every((lease, index) => states[index]!.holders.some(({ id }) => id === lease.id));
  }

  run<T>(fn: () => T): T {
    this.assertHeld();
    return this.core.context.run(this, (given) => given(), fn);
  }

  /** Renews all leases of the hold now. @throws LockLostError, LockStoreError, LockUsageError for a length that cannot be */
  async renew(leaseMs?: number): Promise<void> {
    const { core: { watchdog, defaults }, options } = this;
    if (leaseMs !== undefined) checkRenewal(leaseMs, options.graceMs, defaults, this.key);
    this.assertHeld();
    for (const lease of this.leases) {
      const outcome = await watchdog.renewNow(lease, leaseMs ?? lease.lengthMs);
      if (outcome.kind === 'unknown') throw renewalError(lease.key, outcome.cause);
    }
    this.assertHeld();
  }

  handOff(options?: HandOffOptions): Promise<string> {
    return this.core.tickets.handOff(this, options);
  }

  /** Ends the hold. It waits for nested calls that are still inside, but no longer than commandTimeoutMs. */
  release(): Promise<ReleaseOutcome> {
    const { clock, schedule, defaults } = this.core;
    const now = clock.now();
    // The lease may be handed on now. If it was lost without notice, while the machine slept, it must not be.
    this.lossNow(now);
    const end = (done: ReleaseEnded): void => this.end(now, done);
    return this.nestedCalls > 0 || this.isHandedOff ? schedule.within(defaults.commandTimeoutMs, 'unknown', end) : new Promise(end);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release();
  }

  toJSON(): LeaseFacts {
    const { key, keys, mode, holdCount, heldMs, remainingMs } = this;
    return { key, keys, mode, fences: Object.fromEntries(this.fences), holdCount, heldMs: Math.round(heldMs), remainingMs: Math.round(remainingMs) };
  }

  /** What `console.log` and Nest's logger print of it. Without this they would print the store and all behind it. */
  [INSPECTED](): LeaseFacts {
    return this.toJSON();
  }

  /**
   * Lets no further call in, leaves each lock once the nested calls in it have ended, and calls `done` with the outcome. When only calls
   * that read go on under a write lease, it becomes a read lease, so that readers of other processes need not wait; but not that of an
   * owner, whose other holds may write.
   */
  end(now: number, done: ReleaseEnded): void {
    if (this.outcome) return done(this.outcome);
    const { whenEnded } = this;
    this.whenEnded = whenEnded
      ? (outcome) => {
          whenEnded(outcome);
          done(outcome);
        }
      : done;
    if (!this.isOpen) return;
    this.isOpen = false;
    for (let n = 0; n < this.leases.length; n++) {
      const lease = this.leases[n]!;
      const nested = this.nested?.get(lease);
      if (!nested || nested.isEmpty) this.leave(lease, now);
      else {
        nested.close(() => this.leave(lease, this.core.clock.now()));
        if (nested.writers === 0 && lease.mode === 'write' && lease.options.owner === undefined && !this.reentered?.has(lease)) void this.downgrade(lease);
      }
    }
  }

  private leave(lease: StoreLease, now: number): void {
    const outer = this.reentered?.get(lease);
    if (!outer) return lease.leave(this, now);
    lease.offLoss(this);
    outer.ended(this.options.mode, this);
    this.leaseReleased(lease.state === 'lost' ? 'lost' : 'released');
  }

  /** One of its locks was given up. With the last one it ends. */
  leaseReleased(outcome: ReleaseOutcome): void {
    if (outcome === 'lost' || this.worst === 'released') this.worst = outcome;
    this.locksLeft -= 1;
    if (this.locksLeft > 0) return;
    if (this.overdue) this.core.schedule.cancel(this.overdue);
    if (this.worst === 'lost' && !this.loss && !this.ranOutSince()) {
      const act = this.isHandedOff ? 'handed off' : 'released';
      const unawaited = this.options.awaitRelease ? '' : ', for which its call did not wait (awaitRelease: false)';
      this.leaseLost(lostError(this.key, 'gone', `the store no longer knew it when it was ${act}${unawaited}`));
    }
    this.outcome = this.loss ? 'lost' : this.worst;
    const { announcer, shutdown } = this.core;
    if (!this.loss) shutdown.holdEnded();
    if (announcer.events.observed) announcer.released(this, this.outcome);
    const { whenEnded } = this;
    // The callback is dropped, because its closure would keep the code around, and through that earlier holds, in memory.
    this.whenEnded = undefined;
    whenEnded?.(this.outcome);
  }

  /**
   * True if its leases ran out while the release was on its way. That the store does not know them any more says nothing about the work then,
   * which had ended in time.
   */
  private ranOutSince(): boolean {
    const { clock, watchdog } = this.core;
    const now = clock.now();
    return !this.isHandedOff && this.leases.every((lease) => now >= lease.trustedUntil && !watchdog.mayBeForgotten(lease));
  }

  private async downgrade(lease: StoreLease): Promise<void> {
    try {
      const answered = this.core.store.downgrade(lease);
      lease.downgrade();
      await answered;
    } catch {
      // After a failure the store may keep it as one for writing, which excludes more callers than it must, until it is released.
    }
  }

  /** Ends it here, because its locks go to a ticket: from now on no lease is this hold's. How that ended is told to {@link leaseReleased} for each. */
  giveToTicket(now: number): HandedLease[] {
    this.isHandedOff = true;
    this.isOpen = false;
    return this.leases.map((lease) => handedLeaseOf(lease, now, lease.handOff(this)));
  }

  /** @throws LockUsageError when a call for this lock with these options, which this hold surrounds, could never have what it wants */
  assertCovers(key: string, { mode, permits }: ResolvedOptions): void {
    if (this.options.permits !== permits) throw permitsError(key, permits, this.options.permits);
    if (!covers(this.modeOf(key)!, mode)) throw upgradeError(key);
  }

  /**
   * Lets a nested call in, when its siblings allow it, and resolves with the lease. Undefined when the hold ended meanwhile, so that the call must
   * ask for the lock anew.
   */
  async reenter(call: Call): Promise<readonly StoreLease[] | undefined> {
    const { key, options } = call;
    this.assertCovers(key, options);
    const lossBefore = this.lossNow();
    if (lossBefore) throw lossBefore;
    // Whoever was just told of the loss of another lease may have ended this hold.
    if (!this.isOpen) return undefined;
    const nested = this.nestedIn(key);
    try {
      await call.waitIn(nested, call.since);
    } catch (reason) {
      if (reason === HOLD_ENDED) return undefined;
      throw reason;
    }
    const loss = this.lossNow();
    if (loss) {
      nested.ended(options.mode);
      throw loss;
    }
    (call.reentered ??= new Map()).set(nested.lease, nested);
    return [nested.lease];
  }

  private nestedIn(key: string): NestedCalls {
    this.nested ??= new Map();
    const lease = this.leases.find((one) => one.key === key)!;
    let nested = this.nested.get(lease);
    if (!nested) this.nested.set(lease, (nested = new NestedCalls(this, lease)));
    return nested;
  }

  leaseLost(error: LockLostError): void {
    if (this.loss) return;
    this.loss = error;
    this.controller?.abort(error);
    // The nested calls that wait would wait for nothing.
    this.nested?.forEach((nested) => nested.refuse(error));
    this.core.shutdown.holdEnded();
    this.core.announcer.lost(this, error);
  }

  /** Asks its work to end: the signal aborts, and the lock stays held until the work has ended. */
  askToEnd(reason: LockClosedError): void {
    (this.controller ??= new AbortController()).abort(reason);
  }

  /** True if it was released or is just being released, so that the next holder may be at work. */
  get isOver(): boolean {
    return !this.isOpen && this.nestedCalls === 0;
  }

  isOverdueOn(lease: StoreLease): boolean {
    return this.isOverdue && !this.reentered?.has(lease);
  }

  private expire(): void {
    // The work ended in time, and only the answer to the release is still to come.
    if (this.isOver) return;
    this.isOverdue = true;
    for (const lease of this.leases) lease.loseIfOverdue();
    this.leaseLost(lostError(this.key, 'max-hold', `it was held longer than maxHoldMs (${this.options.maxHoldMs} ms)`));
  }
}

/** Why a call that waited inside a hold has to ask for the lock anew. */
const HOLD_ENDED = Symbol('the hold has ended');

/**
 * The nested calls that re-enter a hold for one of its locks. They exclude each other as calls of different processes do (readers share), in
 * the order in which they came, send nothing to the store, and may outlive the hold's own work; but none gets in after the hold has ended.
 */
class NestedCalls extends CallLine implements Reentry {
  /** The holds of those that are inside. */
  readonly holds = new Set<Hold>();
  private readers = 0;
  /** How many calls that write are inside. Only this class changes the number. */
  writers = 0;
  /** Is called when the last call inside has ended, once the hold waits for that. */
  private whenEmpty: (() => void) | undefined;

  constructor(private readonly hold: Hold, readonly lease: StoreLease) {
    super();
  }

  /** True if no call is inside. */
  get isEmpty(): boolean {
    return this.readers + this.writers === 0;
  }

  /** Serves the call with the lease of the hold, which is open, once it is inside; rejects it with {@link HOLD_ENDED} when the hold ends before. */
  join(call: Call): void {
    const { options } = call;
    if (options.waitMs === 0 && (this.size > 0 || !this.admits(options.mode))) return call.rejectNextTurn(busy(call));
    this.add(call);
    this.admitNext();
    call.tellWaiting();
  }

  began(hold: Hold): void {
    this.holds.add(hold);
  }

  ended(mode: LockMode, hold?: Hold): void {
    if (hold) this.holds.delete(hold);
    this.hold.nestedCalls -= 1;
    if (mode === 'write') this.writers -= 1;
    else this.readers -= 1;
    this.admitNext();
    if (this.isEmpty) this.whenEmpty?.();
  }

  /** Lets no further call in, because the hold ends, and calls `whenEmpty` when those inside have ended. */
  close(whenEmpty: () => void): void {
    this.whenEmpty = whenEmpty;
    this.refuse(HOLD_ENDED);
  }

  /** Rejects the calls that wait. Those inside go on. */
  refuse(reason: unknown): void {
    for (const call of this.calls()) {
      this.remove(call);
      call.reject(reason);
    }
  }

  giveUp(call: Call, reason: unknown): void {
    if (!this.remove(call)) return;
    call.reject(reason === undefined ? busy(call) : reason);
    this.admitNext();
  }

  private admitNext(): void {
    for (let call = this.first; call && this.admits(call.options.mode); call = this.first) {
      this.remove(call);
      this.hold.nestedCalls += 1;
      if (call.options.mode === 'write') this.writers += 1;
      else this.readers += 1;
      call.serve(this.lease.alone);
    }
  }

  private admits(mode: LockMode): boolean {
    return this.writers === 0 && (mode === 'read' || this.readers === 0);
  }
}

function busy({ key, options }: Call): Error {
  return siblingBusyError(key, options.waitMs);
}
