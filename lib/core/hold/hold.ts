/**
 * One caller's hold of one lock, or of several that were taken together. The caller gets it as a {@link Lease}.
 *
 *     held ──▶ draining ──▶ released      draining: nested calls that began before the end of the hold finish inside it
 *       ├──────────┴─────▶ lost
 *       └──▶ handed off ─▶ released       its locks go to a ticket, and are not this process's from then on
 */
import type { LossListener } from '../lease/lease-guard.js';
import { Alarm } from '../lease/appointment.js';
import { LockUsageError, type LockClosedError, type LockLostError } from '../port/errors.js';
import { lostError } from '../port/hold-errors.js';
import type { Lease, LeaseFacts, ReleaseEnded, ReleaseOutcome } from '../port/lease.js';
import type { LockMode } from '../port/lock-mode.js';
import type { ResolvedOptions } from '../port/lock-options.js';
import type { HandOffOptions } from '../port/ticket-options.js';
import type { HandedLease } from './handed-lease.js';
import type { HoldHost } from './hold-host.js';
import { HoldPart, type Taken } from './hold-part.js';
import { releaseHold, renewHold, verifyHold } from './hold-requests.js';

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
    readonly host: HoldHost,
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
    if (this.isOver) throw lostError(this.key, this.howItEnded);
  }

  private get howItEnded(): string {
    if (!this.isHandedOff) return 'it was released by this process';
    return this.outcome === 'unknown' ? 'its hand-off failed' : 'this process handed it off';
  }

  verify(): Promise<boolean> {
    return verifyHold(this);
  }

  run<T>(fn: () => T): T {
    this.assertHeld();
    return this.runInside(() => fn());
  }

  renew(leaseMs?: number): Promise<void> {
    return renewHold(this, leaseMs);
  }

  handOff(options?: HandOffOptions): Promise<string> {
    return this.host.handOff(this, options);
  }

  release(): Promise<ReleaseOutcome> {
    return releaseHold(this);
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

  /** Runs `fn` inside this hold, and gives it the hold. */
  runInside<T>(fn: (hold: Hold) => T): T {
    this.hasRun = true;
    return this.host.context.run(this, fn);
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
    for (const part of this.parts) if (!part.isEmpty) return true;
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
    this.host.lost(this, error);
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

  /** Called once, when all of its locks were given up. */
  finish(outcome: ReleaseOutcome): void {
    if (this.overdue) this.host.watchdog.schedule.cancel(this.overdue);
    this.around?.forEach((hold) => (hold.inside -= 1));
    const act = this.isHandedOff ? 'handed off' : 'released';
    if (outcome === 'lost' && !this.loss) this.leaseLost(lostError(this.key, `the store no longer knew it when it was ${act}`));
    this.outcome = this.loss ? 'lost' : outcome;
    this.host.ended(this, this.outcome);
    const { whenEnded } = this;
    // The callbacks are dropped, because their closures would keep the code around, and through that earlier holds, in memory.
    this.whenEnded = [];
    for (const done of whenEnded) done(this.outcome);
  }

  private expire(): void {
    // The work ended in time, and only the answer to the release is still to come.
    if (this.isOver) return;
    for (const part of this.parts) part.expire();
    this.leaseLost(lostError(this.key, `it was held longer than maxHoldMs (${this.options.maxHoldMs} ms)`));
  }
}
