/**
 * The calls of this process that want a permit of one lock, with like options. It has as many places as the lock has permits: in
 * each stands a request or a lease, so that no more is asked for than could be had at a time. The calls stand in one line, and
 * whichever place is free first serves the first of them.
 *
 *     a place:  ASKING ──▶ HELD ──▶ hand on, hand on, … ──▶ yield (release and ask in one step, if a call waits) or release
 *
 * The fence of each hold must be above all that other processes were granted before. So a permit is handed on here only while this
 * process has all of them, under the fences that were reserved with the last. Else the store hands it on: one command gives it back and asks
 * for the next call, which gets it before those who wait. Both end when the stay of the permit is over.
 *
 * Processes that compete have all permits in turn, because permits that came together go together: their new places in the store's
 * queue stand side by side.
 */
import { HAND_ON_WINDOW_MS, StoreLease, type LeaseKeeper, type LeaseUser } from '../lease/store-lease.js';
import type { ResolvedOptions } from '../port/lock-options.js';
import type { Grant } from '../port/lock-store.js';
import { CallLine, type Call, type ReasonToReject } from './call.js';
import { LARGEST_BLOCK, LONGEST_BURST, NOBODY, type CallQueue } from './key-queue.js';
import type { LocalQueue } from './local-queue.js';
import { refusalError, refusedAtOnce, waitedInVain } from './refusal.js';
import { StoreRequest, type Refusal, type RequestListener } from './store-request.js';

/** How long permits that came from other processes go on here while others wait: for some time, and for `handOn` turns each. */
interface Stay {
  readonly since: number;
  turnsLeft: number;
}

function isOpen({ since, turnsLeft }: Stay, now: number): boolean {
  return turnsLeft > 0 && now - since < HAND_ON_WINDOW_MS;
}

export class PermitQueue implements CallQueue, LeaseKeeper, RequestListener {
  private readonly line = new CallLine();
  /** By id, the oldest first. */
  private readonly asking = new Map<string, StoreRequest>();
  private readonly held = new Map<string, StoreLease>();
  /** The held leases that nobody uses, because they wait for fences or for the next turn of the event loop. */
  private idle: StoreLease[] = [];
  /** By the id of the lease, or of the request to which its permit is handed on. Permits that come while a stay is open share it. */
  private readonly stays = new Map<string, Stay>();
  private stay: Stay = { since: -Infinity, turnsLeft: 0 };
  /** The lease with the highest fence that this process was granted. */
  private latest: StoreLease | undefined;
  /** The request that brings fences for further turns; its permit, and all others, are of this process. */
  private refill: StoreRequest | undefined;
  private served = 0;
  private isResting = false;

  constructor(
    readonly key: string,
    private readonly host: LocalQueue,
    /** The options that its calls share. */
    readonly sharedOptions: ResolvedOptions,
    /** How many permits the lock has. */
    private readonly permits: number,
  ) {}

  join(call: Call, now: number): void {
    if (call.options.waitMs === 0 && !this.mayServeAtOnce()) return call.reject(refusedAtOnce(this.requestFor(call), call));
    this.line.add(call);
    call.startWaiting();
    if (!this.line.has(call)) return;
    if (this.hasUncovered) this.ask(call, now);
    else call.tellWaiting();
  }

  leaseOf(id: string): StoreLease | undefined {
    return this.held.get(id);
  }

  requestOf(id: string): StoreRequest | undefined {
    return this.asking.get(id);
  }

  rejectWaiting(reasonFor: ReasonToReject): void {
    this.line.reject(reasonFor);
  }

  giveUp(call: Call, reason: unknown): void {
    if (!this.line.remove(call)) return;
    call.reject(reason === undefined ? waitedInVain(this.requestFor(call), call) : reason);
    // Any request serves any call of the line, so those that stood in the store's queue for the shortest time are dropped.
    while (this.asking.size > this.line.size) this.drop([...this.asking.values()].at(-1)!);
    this.pump();
  }

  requestGranted(request: StoreRequest, grant: Grant, now: number): void {
    const { watchdog } = this.host;
    const lease = new StoreLease(request, grant, now, this, watchdog, Infinity);
    const stay = this.leave(request.id);
    this.held.set(lease.id, lease);
    this.stays.set(lease.id, stay && !request.wasRefused ? stay : this.stayFrom(now));
    if (!this.latest || lease.firstFence > this.latest.firstFence) this.latest = lease;
    watchdog.watch(lease, now);
    this.serve(lease, now, NOBODY);
    // Its permit may have served another call.
    request.asker.tellWaiting();
    this.pump(now);
  }

  requestRefused({ id, asker }: StoreRequest, refusal: Refusal | undefined): void {
    this.leave(id);
    if (refusal && this.line.remove(asker)) asker.reject(refusalError(refusal, asker));
    asker.tellWaiting();
    this.pump();
  }

  /** The request was not granted at once: calls with waitMs 0 are rejected, the others begin to wait. */
  requestDelayed(request: StoreRequest): void {
    if (this.refill === request) this.refill = undefined;
    for (const call of this.line.all()) if (call.options.waitMs === 0) call.giveUp(refusedAtOnce(request, call));
    request.asker.tellWaiting();
    this.pump();
  }

  leaseEnded({ id }: StoreLease): void {
    this.leave(id);
    this.pump();
  }

  /** A permit has one call, so nothing that changes while it is used admits another. */
  leaseChanged(): void {}

  userLeft(lease: StoreLease, user: LeaseUser): void {
    if (lease.state === 'lost') {
      this.host.background.releaseLost(lease);
      return user.left('lost');
    }
    const now = this.host.clock.now();
    this.serve(lease, now, user);
    this.pump(now);
  }

  /** Whether a call waits for whom nothing is asked, although a place is free. */
  private get hasUncovered(): boolean {
    return this.asking.size + this.idle.length < this.line.size && this.asking.size + this.held.size < this.permits;
  }

  private get nextAsker(): Call {
    return this.line.find(({ options }) => options.waitMs > 0) ?? this.line.first!;
  }

  /** Whether a permit may be free: this process asks for one more, and the store has not said that others wait. */
  private mayServeAtOnce(): boolean {
    if (this.asking.size + this.held.size >= this.permits) return false;
    for (const { wasRefused } of this.asking.values()) if (wasRefused) return false;
    return true;
  }

  /** The request that was made for this call, else the first, which serves it as well. */
  private requestFor(call: Call): StoreRequest | undefined {
    const requests = [...this.asking.values()];
    return requests.find(({ asker }) => asker === call) ?? requests[0];
  }

  /** Serves calls with permits that nobody uses, and asks for those for whom nothing is asked yet, whenever the line or a place has changed. */
  private pump(now = this.host.clock.now()): void {
    if (this.idle.length > 0 && !this.isResting) {
      this.host.watchdog.sleep.look(now);
      for (const lease of this.idle.splice(0)) if (lease.isHeld) this.serve(lease, now, NOBODY);
    }
    while (this.hasUncovered) this.ask(this.nextAsker, now);
    if (this.line.size + this.asking.size + this.held.size === 0) this.host.forget(this);
  }

  /** Lets the first call use a lease that nobody uses, or gives the lease back. */
  private serve(lease: StoreLease, now: number, user: Pick<LeaseUser, 'left'>): void {
    const { first } = this.line;
    const isNew = lease.turns === 0;
    const goesOn = first !== undefined && !isNew && this.goesOn(lease, first, now);
    const waits = goesOn && (this.isResting || (!this.latest!.hasFences && this.refill !== undefined));
    if (!first || !(isNew || waits || (goesOn && this.latest!.hasFences))) return this.giveBack(lease, now, user, goesOn);
    if (waits) this.idle.push(lease);
    else this.admit(first, lease, now);
    user.left('released');
  }

  private admit(call: Call, lease: StoreLease, now: number): void {
    this.stays.get(lease.id)!.turnsLeft -= 1;
    this.line.remove(call);
    lease.admit(call.options, now, lease.turns === 0 ? lease : this.latest);
    call.serve(lease);
    this.served += 1;
    if (this.served % LONGEST_BURST === 0 && this.line.size > 0) this.rest();
  }

  /** Whether a permit that was used may serve this call without the store: all permits are here, and nobody else waits, or not for too long. */
  private goesOn(lease: StoreLease, { options }: Call, now: number): boolean {
    if (this.host.handOn === 1 || !lease.lastsFor(options, now) || this.held.size + (this.refill ? 1 : 0) < this.permits) return false;
    let isContended = false;
    for (const each of this.held.values()) {
      if (!each.isTrusted(now)) return false;
      isContended ||= each.contended;
    }
    return !isContended || isOpen(this.stays.get(lease.id)!, now);
  }

  /** Uses no permit again before the next turn of the event loop, so that timers and sockets are served too. */
  private rest(): void {
    this.isResting = true;
    this.host.clock.nextTurn(() => {
      this.isResting = false;
      this.pump();
    });
  }

  /** Releases a lease, and asks for a call in the same command if nothing is asked for it. `refills`: its permit goes on here, and only fences are missing. */
  private giveBack(lease: StoreLease, now: number, user: Pick<LeaseUser, 'left'>, refills: boolean): void {
    const { host } = this;
    const stay = this.leave(lease.id)!;
    lease.letGo();
    if (!this.hasUncovered || lease.owesNothing) return host.background.releaseAndTell(lease, user);
    const handsOn = isOpen(stay, now);
    const request = new StoreRequest(host, this.nextAsker, refills ? this.block : this.fencesOfNext, this, lease, user, handsOn);
    if (handsOn) this.stays.set(request.id, stay);
    if (refills) this.refill = request;
    this.send(request, now);
  }

  private ask(asker: Call, now: number): void {
    this.send(new StoreRequest(this.host, asker, this.fencesOfNext, this), now);
  }

  private send(request: StoreRequest, now: number): void {
    this.asking.set(request.id, request);
    request.ask(now);
  }

  /** Fences for further turns come with the last permit: then all are here. */
  private get fencesOfNext(): number {
    return this.asking.size === this.permits - 1 ? this.block : 1;
  }

  /** How many fences are reserved for turns of this process: for all of a stay, and for more when the last ones were used up. */
  private get block(): number {
    const { host: { handOn }, permits, sharedOptions: { renew, minHoldMs }, latest } = this;
    if (handOn === 1 || !renew || minHoldMs > 0) return 1;
    return Math.min(LARGEST_BLOCK, Math.max(handOn * permits, 4 * (latest?.usedUpFences ?? 0)));
  }

  /** How long permits stay here that come from other processes now. Those that came a moment ago stay no longer than these. */
  private stayFrom(now: number): Stay {
    if (!isOpen(this.stay, now)) this.stay = { since: now, turnsLeft: 0 };
    this.stay.turnsLeft += this.host.handOn;
    return this.stay;
  }

  /** Takes whatever stands under this id out of its place. */
  private leave(id: string): Stay | undefined {
    const stay = this.stays.get(id);
    if (this.refill?.id === id) this.refill = undefined;
    if (this.idle.length > 0) this.idle = this.idle.filter((lease) => lease.id !== id);
    this.asking.delete(id);
    this.held.delete(id);
    this.stays.delete(id);
    return stay;
  }

  private drop(request: StoreRequest): void {
    this.leave(request.id);
    request.cancel();
    request.asker.tellWaiting();
  }
}
