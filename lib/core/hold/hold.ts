/**
 * One caller's hold of one lock, or of several taken together: what the library hands out as a {@link Lease}.
 *
 *     held ──▶ draining ──▶ released      calls that came in before the end of the hold may still finish inside it
 *       └──────────┴─────▶ lost
 */
import type { Clock } from '../port/clock.js';
import { LockUsageError, type LockLostError } from '../port/errors.js';
import type { LossListener } from '../lease/held-lease.js';
import type { HoldContext } from './hold-context.js';
import { lostError, renewalError } from '../port/hold-errors.js';
import { HoldPart, type SurroundingHold } from './hold-part.js';
import type { Lease, ReleaseOutcome } from '../port/lease.js';
import type { LockMode } from '../port/lock-mode.js';
import { checkLeaseMs, type ResolvedDefaults, type ResolvedOptions } from '../port/lock-options.js';
import type { LockStore } from '../port/lock-store.js';
import { Alarm, type Schedule } from '../lease/schedule.js';
import type { Turn } from '../queue/turn.js';
import type { Watchdog } from '../lease/watchdog.js';

/** What all holds of a service share. */
export interface HoldHost {
  readonly store: LockStore;
  readonly clock: Clock;
  readonly watchdog: Watchdog;
  readonly context: HoldContext;
  readonly defaults: ResolvedDefaults;
  lost(hold: Hold, error: LockLostError): void;
  ended(hold: Hold, outcome: ReleaseOutcome): void;
}

export class Hold implements Lease, SurroundingHold, LossListener {
  readonly clock: Clock;
  readonly schedule: Schedule;
  readonly startedAt: number;
  /** Nested calls may come in. */
  isOpen = true;
  private outcome: ReleaseOutcome | undefined;
  private loss: LockLostError | undefined;
  private inside = 1;
  private readonly parts: readonly HoldPart[];
  private controller: AbortController | undefined;
  private whenEnded: readonly ((outcome: ReleaseOutcome) => void)[] = [];
  private readonly overdue: Alarm | undefined;

  constructor(
    private readonly host: HoldHost,
    turns: readonly Turn[],
    readonly options: ResolvedOptions,
  ) {
    this.clock = host.clock;
    this.schedule = host.watchdog.schedule;
    this.startedAt = host.clock.now();
    this.parts = turns.map((turn) => new HoldPart(turn, this));
    for (const turn of turns) {
      turn.lease.onLoss(this);
      turn.count(1);
    }
    if (options.maxHoldMs !== Infinity) {
      this.overdue = new Alarm(() => this.expire());
      this.schedule.set(this.overdue, this.startedAt + options.maxHoldMs);
    }
  }

  get key(): string {
    return this.parts[0]!.key;
  }

  get keys(): readonly string[] {
    return this.parts.map(({ key }) => key);
  }

  /** Requests of one owner take the mode they find, so several locks may be held each in its own: the weakest counts. */
  get mode(): LockMode {
    return this.parts.every(({ turn }) => turn.mode === 'write') ? 'write' : 'read';
  }

  get fence(): number {
    if (this.parts.length > 1) {
      throw new LockUsageError(`A lease of ${this.parts.length} locks has a fence for each: read lease.fences.get(key).`, { key: this.key });
    }
    return this.parts[0]!.turn.fence;
  }

  get fences(): ReadonlyMap<string, number> {
    return new Map(this.parts.map(({ key, turn }) => [key, turn.fence]));
  }

  get holdCount(): number {
    return this.inside;
  }

  get heldMs(): number {
    return this.host.clock.now() - this.startedAt;
  }

  get remainingMs(): number {
    if (this.loss || this.isOver) return 0;
    const end = Math.min(this.startedAt + this.options.maxHoldMs, ...this.parts.map(({ turn }) => turn.lease.trustedUntil));
    return Math.max(0, end - this.host.clock.now());
  }

  /** Made when first read: most holds never look at it. */
  get signal(): AbortSignal {
    this.controller ??= new AbortController();
    if (this.loss && !this.controller.signal.aborted) this.controller.abort(this.loss);
    return this.controller.signal;
  }

  /** Inside other holds of this process, and nothing of its own in the store. */
  get nested(): boolean {
    return this.parts.every(({ turn }) => turn.nested);
  }

  /** Its loss was told. */
  get isLost(): boolean {
    return this.loss !== undefined;
  }

  /** In which mode it holds this lock; undefined when it does not. */
  modeOf(key: string): LockMode | undefined {
    return this.parts.find((part) => part.key === key)?.turn.mode;
  }

  /** Compares the clock now. */
  lossNow(): LockLostError | undefined {
    if (this.loss || this.outcome) return this.loss;
    const now = this.clock.now();
    this.host.watchdog.noticeJumps(now);
    if (now >= this.startedAt + this.options.maxHoldMs) this.expire();
    for (const { turn } of this.parts) if (!turn.lease.isTrusted(now)) this.host.watchdog.lose(turn.lease);
    return this.loss;
  }

  assertHeld(): void {
    const loss = this.lossNow();
    if (loss) throw loss;
    if (this.isOver) throw lostError(this.key, 'it was released by this process');
  }

  async verify(): Promise<boolean> {
    if (this.lossNow() || this.isOver) return false;
    const states = await Promise.all(this.keys.map((key) => this.host.store.inspect(key)));
    return this.parts.every(({ turn }, index) => states[index]!.holders.some(({ id }) => id === turn.lease.id));
  }

  run<T>(fn: () => T): T {
    this.assertHeld();
    return this.host.context.run(this, fn);
  }

  async renew(leaseMs?: number): Promise<void> {
    if (leaseMs !== undefined) checkLeaseMs(leaseMs, this.host.defaults, this.key);
    this.assertHeld();
    for (const { key, turn } of this.parts) {
      const outcome = await this.host.watchdog.renewNow(turn.lease, leaseMs);
      if (outcome.kind === 'unknown') throw renewalError(key, outcome.cause);
    }
    this.assertHeld();
  }

  /** Waits for calls that are still inside, but no longer than a command to the store may take. */
  release(): Promise<ReleaseOutcome> {
    return new Promise((resolve) => {
      const patience = new Alarm(() => resolve('unknown'));
      if (this.outlived) this.schedule.set(patience, this.clock.now() + this.host.defaults.commandTimeoutMs);
      this.end((outcome) => {
        this.schedule.cancel(patience);
        resolve(outcome);
      });
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release();
  }

  /** Ends the hold once the calls inside it have ended; nobody comes in any more. */
  end(done: (outcome: ReleaseOutcome) => void): void {
    if (this.outcome) return done(this.outcome);
    this.whenEnded = [...this.whenEnded, done];
    if (!this.isOpen) return;
    this.isOpen = false;
    let left = this.parts.length;
    let worst: ReleaseOutcome = 'released';
    for (const part of this.parts) {
      part.end((outcome) => {
        part.turn.lease.offLoss(this);
        if (outcome === 'lost' || worst === 'released') worst = outcome;
        left -= 1;
        if (left === 0) this.finish(worst);
      });
    }
  }

  /** Released, or about to be: the next holder may be at work. */
  private get isOver(): boolean {
    return !this.isOpen && !this.outlived;
  }

  /** The calls inside outlive the hold's own work. */
  get outlived(): boolean {
    return this.parts.some(({ empty }) => !empty);
  }

  /** Lets a nested call in, after its siblings. Undefined when the hold ended meanwhile: then it must ask for the lock anew. */
  enter(key: string, options: ResolvedOptions, until: number, onWaiting: () => void): Promise<Turn | undefined> {
    return this.parts.find((part) => part.key === key)!.enter(options, until, onWaiting);
  }

  /** Counts a nested call in or out, here and in the holds around. */
  count(change: number): void {
    this.inside += change;
    for (const { turn } of this.parts) turn.count(change);
  }

  private finish(outcome: ReleaseOutcome): void {
    if (this.overdue) this.schedule.cancel(this.overdue);
    if (outcome === 'lost' && !this.loss) this.leaseLost(lostError(this.key, 'the store no longer knew it when it was released'));
    this.outcome = this.loss ? 'lost' : outcome;
    this.host.ended(this, this.outcome);
    const { whenEnded } = this;
    // Whoever was told leads to the code around, and that may lead to the hold before.
    this.whenEnded = [];
    for (const done of whenEnded) done(this.outcome);
  }

  private expire(): void {
    // The work ended in time, and only the answer to its release is still out.
    if (this.isOver) return;
    const reason = `it was held longer than maxHoldMs (${this.options.maxHoldMs} ms)`;
    for (const { turn } of this.parts) turn.expire();
    this.leaseLost(lostError(this.key, reason));
  }

  leaseLost(error: LockLostError): void {
    if (this.loss) return;
    this.loss = error;
    this.controller?.abort(error);
    this.host.lost(this, error);
  }
}
