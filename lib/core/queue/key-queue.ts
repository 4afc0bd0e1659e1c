/**
 * The callers of this process that want one lock: one of them asks the store, and the lease is handed on among them.
 *
 *     IDLE ──▶ ASKING ──▶ HELD ──▶ hand on, hand on, … ──▶ yield (release and ask in one step) or release
 *                           └──(lost)──▶ ASKING, if anybody still waits
 *
 * Only callers with like terms follow each other on a lease. Readers share one lease side by side.
 */
import type { Caller } from './caller.js';
import type { Desk } from './desk.js';
import { FenceDemand } from '../lease/fence-demand.js';
import { HeldLease } from '../lease/held-lease.js';
import { busyError, ownerUpgradeError } from '../port/hold-errors.js';
import { asksAlike, Holding } from '../lease/holding.js';
import { LeaseTurn } from './lease-turn.js';
import type { ReleaseOutcome } from '../port/lease.js';
import type { ResolvedOptions } from '../port/lock-options.js';
import { withPhase } from './phase.js';
import type { Turn } from './turn.js';
import { Question } from './waiting.js';
import { wantOf, type Answer } from './want.js';

/** Hand-overs without a turn of the event loop in between; timers and sockets must get their chance. */
const BURST = 64;

export class KeyQueue {
  private callers: Caller<Turn>[] = [];
  /** How many have ever come. */
  private arrivals = 0;
  private holding: Holding | undefined;
  /** The question to the store, the caller whose options it carries, and how many had come by then. */
  private asking: { readonly question: Question; readonly asker: Caller<Turn>; readonly arrivals: number } | undefined;
  private resting = false;
  private readonly demand: FenceDemand;

  constructor(
    private readonly key: string,
    readonly desk: Desk,
    private readonly handOn: number,
    private readonly onIdle: () => void,
  ) {
    this.demand = new FenceDemand(handOn);
  }

  /** Queues the caller, or rejects it at once when it does not want to wait. */
  enter(caller: Caller<Turn>): void {
    if (caller.options.waitMs === 0 && !this.mayServeAtOnce(caller.options)) return caller.reject(this.refusedNow(caller));
    caller.arrival = this.arrivals += 1;
    this.callers.push(caller);
    caller.startWaiting((reason) => this.giveUp(caller, reason));
    this.pump();
    if (this.asking?.asker !== caller) caller.tellWaiting();
  }

  /** Readers wait here that could not share a lease with this one: behind them it would miss the phase that lets them in. */
  parts(options: ResolvedOptions): boolean {
    const other = options.mode === 'read' && this.callers.findLast((caller) => caller.options.mode === 'read');
    return other ? options.minHoldMs > 0 || !asksAlike(other.options, options) : false;
  }

  private mayServeAtOnce(options: ResolvedOptions): boolean {
    const alone = this.callers.length === 0 && !this.asking;
    if (alone && (!this.holding || this.holding.admits(options, this.desk.clock.now(), this.handOn))) return true;
    // Readers share: the answer to one that asks serves the others too, and a further lease may be had beside one at hand.
    if (options.mode === 'write' || this.holding?.lease.mode === 'write' || this.asking?.question.refused) return false;
    return this.callers.every((caller) => caller.options.mode === 'read');
  }

  /**
   * Somebody began to wait elsewhere, or a lease changed: look again. If that gives the lease at hand back together with a
   * new question, `replaced` is told what became of it.
   */
  pump(replaced?: (outcome: ReleaseOutcome) => void): void {
    while (!this.resting) {
      const [head] = this.callers;
      if (!head) return this.tidy();
      const now = this.desk.clock.now();
      if (!this.holding?.admits(head.options, now, this.handOn, head.arrival)) return this.ask(head, replaced);
      this.admitFirst(this.holding, now);
    }
  }

  /** Whether the store is asked for the lock under this id. */
  asksFor(id: string): boolean {
    return this.asking?.question.id === id;
  }

  /** Rejects every caller that still waits and for whom `reasonFor` has a reason. */
  rejectWaiting(reasonFor: (key: string, insideHold: boolean) => Error | undefined): void {
    for (const caller of [...this.callers]) {
      const reason = reasonFor(this.key, caller.insideHold);
      if (reason) this.giveUp(caller, reason);
    }
  }

  /** Puts the first in line on the lease; after many of them the others wait for the next turn of the event loop. */
  private admitFirst(holding: Holding, now: number): void {
    const caller = this.callers.shift()!;
    const fence = holding.begin(caller.options, now);
    caller.resolve(new LeaseTurn(this, holding, fence, caller.options));
    if (holding.turns % BURST > 0 || this.callers.length === 0) return;
    this.resting = true;
    this.desk.clock.nextTurn(() => {
      this.resting = false;
      this.pump();
    });
  }

  /** @see Turn.end */
  endTurn(holding: Holding, isOverdue: boolean, abandoned: boolean, done: (outcome: ReleaseOutcome) => void): void {
    const { lease } = holding;
    holding.users -= 1;
    lease.abandoned = abandoned;
    if (isOverdue) holding.overdue -= 1;
    if (!lease.isTrusted(this.desk.clock.now())) this.desk.watchdog.lose(lease);
    if (lease.state === 'lost') {
      // By the clock it is lost; what the store may still keep of it is taken back, so that others need not wait for its end.
      if (holding.users === 0 && !lease.goneFromStore) this.desk.background.release(lease, lease.terms.leaseMs);
      return done('lost');
    }
    if (holding.users > 0) {
      done('released');
      // Afterwards: whoever leaves lost nothing.
      return this.loseOverdue(holding);
    }
    // A read lease beside which a newer one was taken is nobody's next turn.
    const noNext = holding !== this.holding || this.callers.length === 0 || this.asking;
    // A yield cannot say `abandoned`: whoever followed by one would wait for a minHoldMs that nobody owes.
    if (noNext || (abandoned && holding.spent)) return this.giveBack(holding, done);
    this.pump(done);
    // It was handed on, or is about to be.
    if (lease.state !== 'released') done('released');
  }

  private giveBack(holding: Holding, done: (outcome: ReleaseOutcome) => void): void {
    const { lease } = holding;
    this.letGo(holding);
    const released = this.desk.store.release(lease);
    this.pump();
    const { background } = this.desk;
    released.then(
      (outcome) => (background.releaseLate(lease), done(outcome)),
      () => (background.release(lease, lease.terms.leaseMs), done('unknown')),
    );
  }

  /** @see Turn.expire */
  expire(holding: Holding): void {
    holding.overdue += 1;
    this.loseOverdue(holding);
  }

  /** Nobody is on the lease but those who have been for too long: it is not kept for them. */
  private loseOverdue({ lease, users, overdue }: Holding): void {
    if (overdue > 0 && overdue === users) this.desk.watchdog.lose(lease, 'it was held longer than maxHoldMs');
  }

  /** From here on the lease is not ours any more, whatever the store answers. */
  private letGo(holding: Holding): void {
    this.desk.watchdog.forget(holding.lease);
    holding.lease.state = 'released';
    this.demand.ended(holding);
    if (this.holding === holding) this.holding = undefined;
  }

  /** @see pump */
  private ask(head: Caller<Turn>, replaced?: (outcome: ReleaseOutcome) => void): void {
    const { holding } = this;
    // Beside this process's own readers a place in the queue is taken at once, so that nobody who comes later is served
    // first; behind its own writer there is nothing to ask before that one has ended.
    if (holding && holding.users > 0 && holding.lease.mode === 'write') return;
    if (this.asking) {
      if (asksAlike(this.asking.asker.options, head.options)) return;
      this.dropQuestion();
    }
    const replaces = holding && holding.users === 0 ? holding.lease : undefined;
    if (replaces !== undefined) this.letGo(holding!);
    const want = wantOf(this.key, head.options, this.demand.of(head.options, this.callers.length), replaces);
    const told = replaces === undefined ? undefined : replaced;
    const question = new Question(this.desk, want, (answer) => this.answered(answer, head), () => this.delayed(), told);
    this.asking = { asker: head, question, arrivals: this.arrivals };
  }

  /** The store did not grant at once. */
  private delayed(): void {
    for (const caller of [...this.callers]) {
      if (caller.options.waitMs === 0) this.giveUp(caller, this.refusedNow(caller));
      else caller.tellWaiting();
    }
  }

  private answered(answer: Answer, asker: Caller<Turn>): void {
    const { asking } = this;
    this.asking = undefined;
    // Whoever is let in at once begins a phase with those that were there when it asked.
    if (answer.kind === 'granted') this.take(answer, asker.options, asking!.question.refused ? this.arrivals : asking!.arrivals);
    else if (this.remove(asker)) asker.reject(this.refusal(answer, asker));
    this.pump();
  }

  /** The first `waited` that came are let in with it, if it is for reading. */
  private take({ id, grant, lateUntil }: Extract<Answer, { kind: 'granted' }>, options: ResolvedOptions, waited: number): void {
    const { holding } = this;
    // The store would not have granted this beside our own lease: that one has ended there, and nobody told us yet.
    if (holding && (grant.mode === 'write' || holding.lease.mode === 'write')) {
      this.desk.watchdog.lose(holding.lease, 'the store granted the lock anew');
    }
    const lease = new HeldLease(this.key, id, options, grant, this.desk.clock.now(), { leaseLost: () => this.lost(lease) });
    lease.lateUntil = lateUntil;
    this.desk.watchdog.watch(lease);
    this.holding = new Holding(lease, options, grant, waited);
    if (options.mode === 'read') this.callers = withPhase(this.callers, (caller) => asksAlike(caller.options, options) && caller.arrival <= waited);
  }

  private lost(lease: HeldLease): void {
    if (this.holding?.lease !== lease) return;
    this.holding = undefined;
    this.pump();
  }

  private refusal(answer: Exclude<Answer, { kind: 'granted' }>, { options }: Caller<Turn>): Error {
    if (answer.kind === 'failed') return answer.error;
    return answer.kind === 'upgrade' ? ownerUpgradeError(this.key, options.owner) : busyError(this.key, options.waitMs, false);
  }

  private giveUp(caller: Caller<Turn>, reason?: unknown): void {
    if (!this.remove(caller)) return;
    caller.reject(reason === undefined ? (this.asking?.question.storeFailure(caller.options.waitMs) ?? this.busy(caller)) : reason);
    // The place in the queue stays with the others of this process, unless it is of no use to the next of them.
    const [next] = this.callers;
    if (this.asking?.asker === caller && !(next && asksAlike(next.options, caller.options))) this.dropQuestion();
    this.pump();
  }

  private remove(caller: Caller<Turn>): boolean {
    const at = this.callers.indexOf(caller);
    return at >= 0 && this.callers.splice(at, 1).length > 0;
  }

  private dropQuestion(): void {
    this.asking?.question.cancel();
    this.asking = undefined;
  }

  private tidy(): void {
    this.dropQuestion();
    if (!this.holding) return this.onIdle();
    if (this.holding.users === 0) this.giveBack(this.holding, () => {});
  }

  /** For who does not wait: that the lock is busy is more than we know while the store cannot be asked. */
  private refusedNow(caller: Caller<Turn>): Error {
    return this.asking?.question.lastFailure(0) ?? this.busy(caller);
  }

  private busy({ options }: Caller<Turn>): Error {
    return busyError(this.key, options.waitMs, this.holding !== undefined);
  }
}
