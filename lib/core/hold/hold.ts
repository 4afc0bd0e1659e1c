/**
 * One caller's hold of one lock, or of several that were taken together. The caller gets it as a {@link Lease}.
 *
 *     held ──▶ draining ──▶ released      draining: nested calls that began before the end of the hold finish inside it
 *       ├──────────┴─────▶ lost
 *       └──▶ handed off ─▶ released       its locks go to a ticket, and are not this process's from then on
 */
import { Alarm } from '../lease/schedule.js';
import { type LossListener, StoreLease } from '../lease/store-lease.js';
import { type LockClosedError, type LockLostError, LockUsageError } from '../port/errors.js';
import { lostError, permitsError, renewalError, siblingBusyError, upgradeError } from '../port/hold-errors.js';
import type { Lease, LeaseFacts, ReleaseEnded, ReleaseOutcome } from '../port/lease.js';
import { covers, type HandOffOptions, type LockMode, type ResolvedOptions } from '../port/lock-options.js';
import { checkRenewal } from '../port/options.js';
import { type Call, type CallKeeper, CallLine } from '../queue/call.js';
import type { LockCalls } from './lock-calls.js';
import { type HandedLease, handedLeaseOf } from './tickets.js';

/** The name by which Node knows the method that says what is printed of an object. */
const INSPECTED = Symbol.for('nodejs.util.inspect.custom');

export class Hold implements Lease, LossListener {
  readonly startedAt: number;
  /** Whether nested calls may still come in. */
  isOpen = true;
  private outcome: ReleaseOutcome | undefined;
  private loss: LockLostError | undefined;
  private inside = 1;
  /** The holds that it re-entered, and those around them; undefined for most holds, which re-entered none. */
  private around: Set<Hold> | undefined;
  readonly parts: readonly HoldPart[];
  /** Whether its locks went to a ticket. */
  isHandedOff = false;
  /** Whether any code ran inside it. If not, `acquire` gave it out and its caller never used `run`. */
  hasRun = false;
  private partsLeft: number;
  private worst: ReleaseOutcome = 'released';
  private controller: AbortController | undefined;
  private whenEnded: readonly ReleaseEnded[] = [];
  private overdue: Alarm | undefined;

  constructor(
    readonly host: LockCalls,
    taken: readonly Taken[],
    readonly options: ResolvedOptions,
    /** The number of the call for which it was made. */
    readonly call: number,
  ) {
    const [first] = taken as readonly [Taken];
    this.startedAt = first instanceof HoldPart ? host.clock.now() : first.admittedAt;
    this.partsLeft = taken.length;
    this.parts = taken.length === 1 ? [new HoldPart(first, this)] : taken.map((each) => new HoldPart(each, this));
    if (options.maxHoldMs !== Infinity) {
      this.overdue = new Alarm(() => this.expire());
      host.watchdog.schedule.set(this.overdue, this.startedAt + options.maxHoldMs);
    }
    // Only a complete hold can be told of a loss, and a lease that is lost already tells it at once.
    for (const { lease } of this.parts) lease.onLoss(this);
  }

  get key(): string {
    return this.parts[0]!.key;
  }

  get keys(): readonly string[] {
    return this.parts.map(({ key }) => key);
  }

  /** `write` when all locks are held for writing. They can differ, because requests of an owner share the mode of its present hold. */
  get mode(): LockMode {
    return this.parts.every(({ mode }) => mode === 'write') ? 'write' : 'read';
  }

  get fence(): number {
    if (this.parts.length > 1) {
      throw new LockUsageError(`A lease of ${this.parts.length} locks has a fence for each: read lease.fences.get(key).`, { key: this.key });
    }
    return this.parts[0]!.fence;
  }

  get fences(): ReadonlyMap<string, number> {
    return new Map(this.parts.map(({ key, fence }) => [key, fence]));
  }

  get holdCount(): number {
    return this.inside;
  }

  get heldMs(): number {
    return this.host.clock.now() - this.startedAt;
  }

  get remainingMs(): number {
    const now = this.host.clock.now();
    this.host.watchdog.sleep.look(now);
    if (this.loss || this.isOver) return 0;
    return Math.max(0, Math.min(this.startedAt + this.options.maxHoldMs, ...this.parts.map(({ lease }) => lease.trustedUntil)) - now);
  }

  /** The signal is made when it is first read, because most callers never read it. */
  get signal(): AbortSignal {
    this.controller ??= new AbortController();
    if (this.loss && !this.controller.signal.aborted) this.controller.abort(this.loss);
    return this.controller.signal;
  }

  /** Whether it only re-entered other holds of this process, so that it has no lease of its own. */
  get isNested(): boolean {
    return this.parts.every(({ isNested }) => isNested);
  }

  get isLost(): boolean {
    return this.loss !== undefined;
  }

  /** Its part for this lock; undefined when it does not hold the lock. */
  partOf(key: string): HoldPart | undefined {
    return this.parts.find((part) => part.key === key);
  }

  /** Compares the clock with maxHoldMs and the trust of its leases now, and returns the loss, if there is one. */
  lossNow(now = this.host.clock.now()): LockLostError | undefined {
    if (this.loss || this.outcome) return this.loss;
    this.host.watchdog.sleep.look(now);
    if (now >= this.startedAt + this.options.maxHoldMs) this.expire();
    for (const { lease } of this.parts) if (now >= lease.trustedUntil) lease.endTrust();
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
    const states = await Promise.all(this.keys.map((key) => this.host.store.inspect(key)));
    return this.parts.every(({ lease }, index) => states[index]!.holders.some(({ id }) => id === lease.id));
  }

  run<T>(fn: () => T): T {
    this.assertHeld();
    return this.host.context.run(this, () => fn());
  }

  /** Renews all leases of the hold now. @throws LockLostError, LockStoreError, LockUsageError for a length that cannot be */
  async renew(leaseMs?: number): Promise<void> {
    const { host: { watchdog, defaults }, options, parts } = this;
    if (leaseMs !== undefined) checkRenewal(leaseMs, options.graceMs, defaults, this.key);
    this.assertHeld();
    for (const { key, lease } of parts) {
      const outcome = await watchdog.renewNow(lease, leaseMs ?? lease.lengthMs);
      if (outcome.kind === 'unknown') throw renewalError(key, outcome.cause);
    }
    this.assertHeld();
  }

  handOff(options?: HandOffOptions): Promise<string> {
    return this.host.tickets.handOff(this, options);
  }

  /** Ends the hold. It waits for nested calls that are still inside, but no longer than commandTimeoutMs. */
  release(): Promise<ReleaseOutcome> {
    const { clock, watchdog, defaults } = this.host;
    const now = clock.now();
    // The lease may be handed on now. If it was lost without notice, while the machine slept, it must not be.
    this.lossNow(now);
    const end = (done: ReleaseEnded): void => this.end(now, done);
    return this.hasNestedCalls || this.isHandedOff ? watchdog.schedule.within(defaults.commandTimeoutMs, 'unknown', end) : new Promise(end);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release();
  }

  toJSON(): LeaseFacts {
    const { key, keys, mode, holdCount, heldMs, remainingMs } = this;
    return { key, keys, mode, fences: Object.fromEntries(this.fences), holdCount, heldMs: Math.round(heldMs), remainingMs: Math.round(remainingMs) };
  }

  /** What `console.log` and Nest's logger write of it, which else would be the store and all behind it. */
  [INSPECTED](): LeaseFacts {
    return this.toJSON();
  }

  /** Lets no further call in, ends the hold once the nested calls have ended, and calls `done` with the outcome. */
  end(now: number, done: ReleaseEnded): void {
    if (this.outcome) return done(this.outcome);
    this.whenEnded = this.whenEnded.length === 0 ? [done] : [...this.whenEnded, done];
    if (!this.isOpen) return;
    this.isOpen = false;
    for (const part of this.parts) part.end(now, this.partEnded);
  }

  /** Ends it here, because its locks go to a ticket. How that ended is told to {@link finish}. */
  giveToTicket(now: number): HandedLease[] {
    this.isHandedOff = true;
    this.isOpen = false;
    return this.parts.map((part) => part.giveToTicket(now));
  }

  /** Whether nested calls are still inside. */
  get hasNestedCalls(): boolean {
    for (const { gate } of this.parts) if (gate && !gate.isEmpty) return true;
    return false;
  }

  /** Counts it in the hold that one of its parts re-entered, and in those around that one; in each once, whatever number of parts did. */
  nestsIn(outer: Hold): void {
    this.around ??= new Set();
    for (const hold of [outer, ...(outer.around ?? [])]) {
      if (!this.around.has(hold)) hold.inside += 1;
      this.around.add(hold);
    }
  }

  leaseLost(error: LockLostError): void {
    if (this.loss) return;
    this.loss = error;
    this.controller?.abort(error);
    for (const part of this.parts) part.lost(error);
    const { announcer, shutdown } = this.host;
    announcer.lost(this, error, !shutdown.holdLost(this));
  }

  /** Asks its work to end: the signal aborts, and the lock stays held until the work has ended. */
  recall(reason: LockClosedError): void {
    (this.controller ??= new AbortController()).abort(reason);
  }

  /** Whether it was released or is just being released, so that the next holder may be at work. */
  get isOver(): boolean {
    return !this.isOpen && !this.hasNestedCalls;
  }

  private readonly partEnded = (outcome: ReleaseOutcome): void => {
    if (outcome === 'lost' || this.worst === 'released') this.worst = outcome;
    this.partsLeft -= 1;
    if (this.partsLeft === 0) this.finish(this.worst);
  };

  /** Ends it, once, when all of its locks were given up. */
  finish(outcome: ReleaseOutcome): void {
    if (this.overdue) this.host.watchdog.schedule.cancel(this.overdue);
    this.around?.forEach((hold) => (hold.inside -= 1));
    const act = this.isHandedOff ? 'handed off' : 'released';
    if (outcome === 'lost' && !this.loss) this.leaseLost(lostError(this.key, 'gone', `the store no longer knew it when it was ${act}${this.options.awaitRelease ? '' : ', for which its call did not wait (awaitRelease: false)'}`));
    this.outcome = this.loss ? 'lost' : outcome;
    const { announcer, shutdown } = this.host;
    if (!this.loss) shutdown.holdEnded();
    if (announcer.events.observed) announcer.released(this, this.outcome);
    const { whenEnded } = this;
    // The callbacks are dropped, because their closures would keep the code around, and through that earlier holds, in memory.
    this.whenEnded = [];
    for (const done of whenEnded) done(this.outcome);
  }

  private expire(): void {
    // The work ended in time, and only the answer to the release is still to come.
    if (this.isOver) return;
    for (const part of this.parts) part.expire();
    this.leaseLost(lostError(this.key, 'max-hold', `it was held longer than maxHoldMs (${this.options.maxHoldMs} ms)`));
  }
}

/** What a caller was admitted to: a lease of this process, or a part of a hold that surrounds the caller. */
export type Taken = StoreLease | HoldPart;

/**
 * One lock of a hold, and the nested calls that re-enter the hold for this lock. Nested calls exclude each other, send nothing to
 * the store, and may outlive the hold's own work.
 *
 *     open ──(end)──▶ draining, until the calls inside have ended ──▶ the lease, or the part around, is left
 */
export class HoldPart {
  readonly lease: StoreLease;
  readonly fence: number;
  /** How this hold has the lock. A nested call may be for reading inside a hold that is for writing. */
  readonly mode: LockMode;
  /** The part of the hold around this one, which has the lease; undefined when this hold is not nested. */
  readonly outer: HoldPart | undefined;
  /** The nested calls. It is made for the first of them, because most holds have none. */
  gate: SiblingGate | undefined;
  private isOverdue = false;
  private hasLeft = false;
  /** Leaves the lease. It is set while this part waits for the nested calls inside to end. */
  private whenDrained: (() => void) | undefined;

  constructor(
    taken: Taken,
    readonly hold: Hold,
  ) {
    if (taken instanceof StoreLease) {
      this.lease = taken;
      this.mode = taken.mode;
    } else {
      this.lease = taken.lease;
      this.outer = taken;
      this.mode = hold.options.mode;
    }
    this.fence = this.outer?.fence ?? this.lease.fence;
    if (this.outer) hold.nestsIn(this.outer.hold);
  }

  get key(): string {
    return this.lease.key;
  }

  /** Whether it re-entered another hold of this process, so that it has no lease of its own. */
  get isNested(): boolean {
    return this.outer !== undefined;
  }

  get isLost(): boolean {
    return this.lease.isLost;
  }

  /** @throws LockUsageError when a call with these options, which this hold surrounds, could never have the lock that it wants */
  assertCovers({ mode, permits }: ResolvedOptions): void {
    const { hold, key } = this;
    if (hold.options.permits !== permits) throw permitsError(key, permits, hold.options.permits);
    if (!covers(this.mode, mode)) throw upgradeError(key);
  }

  /**
   * Lets a nested call into a hold that is open, when its siblings allow it. False when the hold ended meanwhile, so that the call must
   * ask for the lock anew.
   */
  async reenter(call: Call): Promise<boolean> {
    const { hold } = this;
    this.assertCovers(call.options);
    const lossBefore = hold.lossNow();
    if (lossBefore) throw lossBefore;
    // Whoever was just told of the loss of another lease may have ended this hold.
    if (!hold.isOpen) return false;
    const gate = (this.gate ??= new SiblingGate(this.lease));
    try {
      await new Promise<StoreLease>((resolve, reject) => {
        call.settlesBy(resolve, reject);
        gate.join(call);
      });
    } catch (reason) {
      if (reason === HOLD_ENDED) return false;
      throw reason;
    }
    const loss = hold.lossNow();
    if (loss) this.leaveInside(call.options.mode);
    if (loss) throw loss;
    return true;
  }

  /** Notes that a nested call has ended. */
  leaveInside(mode: LockMode): void {
    this.gate?.leave(mode);
    if (!this.gate || this.gate.isEmpty) this.whenDrained?.();
  }

  /** Lets no further call in, leaves the lease once the calls inside have ended, and calls `done` with how that ended. */
  end(now: number, done: ReleaseEnded): void {
    if (!this.gate || this.gate.isEmpty) return this.leave(now, done);
    this.gate.close();
    this.whenDrained = () => this.leave(this.hold.host.clock.now(), done);
    this.letReadersIn();
  }

  /** Gives its lock, with no call inside, to a ticket: from now on the lease is not this hold's, and without other readers not this process's. */
  giveToTicket(now: number): HandedLease {
    const { lease, hold } = this;
    const stays = lease.handOff(hold);
    return handedLeaseOf(lease, now, stays);
  }

  /** Refuses the nested calls that wait, because the hold was lost: they would wait for nothing. */
  lost(error: LockLostError): void {
    this.gate?.refuse(error);
  }

  /** Notes that the hold has gone on for longer than its maxHoldMs: the lease is not kept for this hold any longer. */
  expire(): void {
    if (this.isOverdue || this.outer || this.hasLeft) return;
    this.isOverdue = true;
    this.lease.addOverdue();
  }

  private leave(now: number, done: ReleaseEnded): void {
    const { lease, outer, hold } = this;
    this.hasLeft = true;
    if (!outer && this.isOverdue) lease.removeOverdue();
    if (!outer) return lease.leave(hold, now, done);
    lease.offLoss(hold);
    outer.leaveInside(this.mode);
    done(this.isLost ? 'lost' : 'released');
  }

  /** When only nested calls that read go on, the write lease becomes a read lease, so that readers of other processes need not wait. */
  private letReadersIn(): void {
    if (this.outer || !this.gate?.onlyReaders || this.mode === 'read') return;
    void this.downgrade();
  }

  private async downgrade(): Promise<void> {
    const { lease, hold } = this;
    lease.spend();
    try {
      if ((await hold.host.store.downgrade(lease)) === 'downgraded') lease.downgraded();
    } catch {
      // After a failure it stays a write lease, which excludes more callers than it must, and is released as one.
    }
  }
}

const NOBODY: LossListener = { leaseLost: () => {} };

export function leaseOf(taken: Taken): StoreLease {
  return taken instanceof StoreLease ? taken : taken.lease;
}

/** Whether one of the locks was lost since the call got it. */
export function isLost(taken: Taken | readonly Taken[]): boolean {
  return taken instanceof Array ? taken.some((one) => one.isLost) : taken.isLost;
}

/** Gives back a lock under which no work began. `mode`: how the call wanted it. */
export function abandon(taken: Taken, mode: LockMode, now: number, done: () => void): void {
  if (taken instanceof StoreLease) return taken.leave(NOBODY, now, done, true);
  taken.leaveInside(mode);
  done();
}

/** Why a call that waited inside a hold has to ask for the lock anew. */
const HOLD_ENDED = Symbol('the hold has ended');

/**
 * The nested calls that re-enter one hold for its lock. They exclude each other as calls of different processes do (readers share),
 * in the order in which they came, and none gets in after the hold has ended.
 */
class SiblingGate implements CallKeeper {
  private readonly line = new CallLine();
  private readers = 0;
  private writers = 0;
  private isOpen = true;

  constructor(private readonly lease: StoreLease) {}

  /** Whether no call is inside. */
  get isEmpty(): boolean {
    return this.readers + this.writers === 0;
  }

  get onlyReaders(): boolean {
    return this.writers === 0 && this.readers > 0;
  }

  /** Serves the call with the lease of the hold once it is inside; rejects it with {@link HOLD_ENDED} when the hold ended before. */
  join(call: Call): void {
    const { options } = call;
    if (!this.isOpen) return call.reject(HOLD_ENDED);
    if (options.waitMs === 0 && (this.line.size > 0 || !this.admits(options.mode))) return call.reject(busy(call));
    this.line.add(call);
    call.startWaiting(this);
    this.admitNext();
    if (this.line.has(call)) call.tellWaiting();
  }

  leave(mode: LockMode): void {
    if (mode === 'write') this.writers -= 1;
    else this.readers -= 1;
    this.admitNext();
  }

  close(): void {
    this.isOpen = false;
    this.refuse(HOLD_ENDED);
  }

  /** Rejects the calls that wait. Those inside go on. */
  refuse(reason: unknown): void {
    for (const call of this.line.all()) {
      this.line.remove(call);
      call.reject(reason);
    }
  }

  giveUp(call: Call, reason: unknown): void {
    if (!this.line.remove(call)) return;
    call.reject(reason === undefined ? busy(call) : reason);
    this.admitNext();
  }

  private admitNext(): void {
    for (let call = this.line.first; call && this.admits(call.options.mode); call = this.line.first) {
      this.line.remove(call);
      if (call.options.mode === 'write') this.writers += 1;
      else this.readers += 1;
      call.serve(this.lease);
    }
  }

  private admits(mode: LockMode): boolean {
    return this.writers === 0 && (mode === 'read' || this.readers === 0);
  }
}

function busy({ key, options }: Call): Error {
  return siblingBusyError(key, options.waitMs);
}
