/**
 * The callers of this process that want a permit of one lock, with like options. Each permit that the process has or asks for is a
 * lane; there are at most as many lanes as permits. The callers stand in one line, and whichever lane is free first serves the first.
 *
 *     a lane:  ASKING ──▶ HELD ──▶ hand on, hand on, … ──▶ yield (release and ask in one step) or release
 *                            └──(lost)──▶ over; another lane asks, if a caller still waits
 *
 * Every hold of a permit needs a fence above all that other processes were granted before. So a permit is handed on here only while
 * this process has all of them. Else the store hands it on: one command gives it back and asks for the next caller, who gets it
 * before those who wait, within the limits of every lease that is handed on; beyond them it goes to whoever has waited longest. When
 * the reserved fences are used up, one lane asks for more, and the others, which would need some as well, pause until its answer.
 *
 * Processes that compete have all permits in turn: lanes give theirs to others together, so that their new places stand together.
 */
import { FenceDemand } from '../lease/fence-demand.js';
import { LatestFences, PermitLease } from '../lease/permit-lease.js';
import type { StoreLease } from '../lease/store-lease.js';
import type { ReleaseEnded } from '../port/lease.js';
import type { ResolvedOptions } from '../port/lock-options.js';
import type { Grant } from '../port/lock-store.js';
import type { Caller, CallerKeeper } from './caller.js';
import { CallerLine } from './caller-line.js';
import { LONGEST_BURST, type CallerQueue, type QueueParts, type ReasonToReject } from './caller-queue.js';
import { HeldPermits } from './held-permits.js';
import { LanePause } from './lane-pause.js';
import { PermitLane, type LaneKeeper } from './permit-lane.js';
import { PermitTurns } from './permit-turns.js';
import { refusal, refusedAtOnce, waitedInVain } from './refusal.js';
import { ReplacedLease } from './replaced-lease.js';
import type { Answer } from './request-parts.js';
import { StoreRequest } from './store-request.js';

export class PermitQueue implements CallerQueue, LaneKeeper, CallerKeeper<StoreLease> {
  private readonly line = new CallerLine<StoreLease>();
  /** The lanes that ask, by the id of their request, the oldest first. */
  private readonly asking = new Map<string, PermitLane>();
  private readonly held: HeldPermits;
  private readonly fences = new LatestFences();
  private readonly demand: FenceDemand;
  private readonly turns: PermitTurns;
  private served = 0;
  /** Whether a caller that does not want to wait may be in the line. */
  private hasImpatient = false;
  private readonly pause: LanePause;

  constructor(
    readonly key: string,
    private readonly parts: QueueParts,
    /** The options that its callers share. */
    readonly sharedOptions: ResolvedOptions,
    /** How many permits the lock has. */
    private readonly permits: number,
  ) {
    this.held = new HeldPermits(permits);
    // The turns on all permits take their fences from one block.
    this.demand = new FenceDemand(parts.handOn === 1 ? 1 : parts.handOn * permits);
    this.turns = new PermitTurns(parts.handOn);
    this.pause = new LanePause(parts.clock, parts.watchdog.sleep, (lane, now) => this.serve(lane, now, () => {}));
  }

  join(caller: Caller<StoreLease>, now: number): void {
    if (caller.options.waitMs === 0 && !this.mayServeAtOnce()) return caller.reject(refusedAtOnce(this.requestFor(caller), caller));
    this.line.add(caller);
    caller.startWaiting(this);
    if (!this.line.has(caller)) return;
    if (caller.options.waitMs === 0) this.hasImpatient = true;
    if (this.hasUncovered) this.ask(caller, now);
    else caller.tellWaiting();
  }

  leaseOf(id: string): StoreLease | undefined {
    return this.held.leaseOf(id);
  }

  requestOf(id: string): StoreRequest | undefined {
    return this.asking.get(id)?.request;
  }

  /** That somebody waits is told to one lease of each process, and concerns all of its permits. */
  heardOfWaiter(): void {
    this.held.heardOfWaiter();
  }

  rejectWaiting(reasonFor: ReasonToReject): void {
    this.line.reject(reasonFor);
  }

  giveUp(caller: Caller<StoreLease>, reason: unknown): void {
    if (!this.line.remove(caller)) return;
    caller.reject(reason === undefined ? waitedInVain(this.requestFor(caller), caller) : reason);
    // Any request serves any caller of the line, so those that stood in the store's queue for the shortest time are dropped.
    while (this.asking.size > this.line.size) this.drop([...this.asking.values()].at(-1)!);
    this.pump();
  }

  laneAnswered(lane: PermitLane, request: StoreRequest, answer: Answer): void {
    const { asker } = request;
    this.asking.delete(request.id);
    this.pause.answered(request);
    if (answer.kind === 'granted') this.take(lane, request, answer.grant, answer.at);
    else if (answer.kind !== 'gone' && this.line.remove(asker)) asker.reject(refusal(answer, asker));
    // Its permit may have served another caller.
    asker.tellWaiting();
    this.pause.goOn();
    this.pump();
  }

  /** The request of a lane was not granted at once: callers with waitMs 0 are rejected, the others begin to wait. */
  laneDelayed(request: StoreRequest): void {
    this.pause.answered(request);
    if (this.hasImpatient) this.refuseImpatient(request);
    request.asker.tellWaiting();
    this.pause.goOn();
  }

  laneLost({ id }: { readonly id: string }): void {
    this.held.remove(id);
    this.pump();
  }

  callerLeft(lane: PermitLane, lease: StoreLease, done: ReleaseEnded): void {
    if (lease.isLost) {
      this.parts.background.releaseLost(lease);
      return done('lost');
    }
    if (this.line.size === 0) return this.giveBack(lane, done);
    if (!this.pause.isOn) return this.serve(lane, this.parts.clock.now(), done);
    this.pause.add(lane);
    done('released');
  }

  private refuseImpatient(request: StoreRequest): void {
    this.hasImpatient = false;
    for (const caller of this.line.all()) if (caller.options.waitMs === 0) caller.giveUp(refusedAtOnce(request, caller));
  }

  /** Whether a caller waits for whom no lane asks, and one more may. */
  private get hasUncovered(): boolean {
    return this.asking.size < this.line.size && this.asking.size + this.held.size < this.permits;
  }

  /** Whether a permit may be free: this process asks for one more, and the store has not said that others wait. */
  private mayServeAtOnce(): boolean {
    if (this.asking.size + this.held.size >= this.permits) return false;
    for (const { request } of this.asking.values()) if (request!.wasRefused) return false;
    return true;
  }

  /** The request that was made for this caller, else the first, which serves it as well. */
  private requestFor(caller: Caller<StoreLease>): StoreRequest | undefined {
    let first: StoreRequest | undefined;
    for (const { request } of this.asking.values()) {
      if (request!.asker === caller) return request;
      first ??= request;
    }
    return first;
  }

  /** Asks for callers for whom no lane asks yet. Called whenever the line or a lane has changed. */
  private pump(): void {
    while (this.hasUncovered) this.ask(this.line.find(({ options }) => options.waitMs > 0) ?? this.line.first!, this.parts.clock.now());
    if (this.line.size + this.asking.size + this.held.size === 0) this.parts.queueIsIdle(this);
  }

  private ask(asker: Caller<StoreLease>, now: number, lane = new PermitLane(this), fences = 1, replaced?: ReplacedLease): void {
    const request = new StoreRequest(this.parts, asker, fences, lane, replaced);
    lane.request = request;
    if (fences > 1) this.pause.untilAnswered(request);
    this.asking.set(request.id, lane);
    request.ask(now);
  }

  private drop({ request }: PermitLane): void {
    this.asking.delete(request!.id);
    request!.cancel();
    request!.asker.tellWaiting();
    this.pause.answered(request!);
    this.pause.goOn();
  }

  private take(lane: PermitLane, request: StoreRequest, grant: Grant, at: number): void {
    const { watchdog } = this.parts;
    const lease = new PermitLease(request, grant, at, lane, watchdog, this.fences);
    lane.lease = lease;
    this.held.add(lease.id, lane);
    watchdog.watch(lease, at);
    if (!request.handsOn || request.wasRefused) this.turns.began(lane, at);
    this.serve(lane, at, () => {});
  }

  /** Lets the first in the line use a lease that nobody uses, or gives the lease back. */
  private serve(lane: PermitLane, now: number, done: ReleaseEnded): void {
    const { line, parts, line: { first } } = this;
    const lease = lane.lease!;
    if (!first) return this.giveBack(lane, done);
    if (!lease.admits(first.options, now, parts.handOn) || (lease.turns > 0 && !this.mayHandOnHere(lane, now))) {
      // Other lanes may end their turns until the next turn of the loop. All of them ask in one command then.
      if (!this.turns.end(lane, now, this.asking.values())) return this.giveBack(lane, done, first);
      this.pause.untilNextTurn();
      this.pause.add(lane);
      return done('released');
    }
    line.remove(first);
    lease.admit(first.options, now);
    lane.served();
    first.resolve(lease);
    done('released');
    this.served += 1;
    if (this.served % LONGEST_BURST === 0 && line.size > 0) this.pause.untilNextTurn();
  }

  /** Whether the permit may go on to another caller here without the store: this process has all, and nobody waits for too long. */
  private mayHandOnHere(lane: PermitLane, now: number): boolean {
    return this.held.areAll(now) && (!lane.lease!.contended || lane.mayHandOn(now, this.parts.handOn));
  }

  /** Gives up the places that were taken before a window ended, for new ones beside that which a lane takes now: then all permits come together. */
  private leaveOldPlaces(): void {
    const old = this.turns.takeOldPlaces().filter(({ request }) => request && this.asking.has(request.id));
    // Each new place costs two commands, and that must not be more than one for each turn that the permit has had.
    if (this.asking.size + this.held.size === this.permits - 1 && 2 * old.length <= this.parts.handOn) for (const lane of old) this.drop(lane);
  }

  /** How many fences to ask for in place of this lease: more than one only with the last permit, so that all will be here again. */
  private fencesFor({ contended }: PermitLease, handsOn: boolean): number {
    const { held, asking, permits, demand, line, sharedOptions } = this;
    const others = contended && !handsOn ? asking.size : held.size;
    return sharedOptions.renew && others === permits - 1 ? demand.of(sharedOptions, line.size) : 1;
  }

  /** Releases the lease of a lane. With `next` the lane asks anew in the same command, if no other lane asks for a caller yet. */
  private giveBack(lane: PermitLane, done: ReleaseEnded, next?: Caller<StoreLease>): void {
    const { parts, held, demand } = this;
    const lease = lane.lease!;
    lease.letGo();
    held.remove(lease.id);
    demand.ended(lease);
    lane.lease = undefined;
    if (next && this.hasUncovered) {
      const now = parts.clock.now();
      const handsOn = lane.mayHandOn(now, parts.handOn);
      if (!handsOn) this.leaveOldPlaces();
      this.ask(next, now, lane, this.fencesFor(lease, handsOn), new ReplacedLease(lease, done, handsOn));
    } else parts.background.releaseAndTell(lease, done);
    this.pump();
  }
}
