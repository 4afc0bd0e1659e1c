/**
 * The calls of this process that want a permit of one lock, with like options. It has as many places as the lock has permits: in
 * each stands a request or a lease, so that no more is asked for than could be had at a time. The calls stand in one line, and
 * whichever request is answered first serves the first of them.
 *
 *     a place:  ASKING ──▶ HELD by one call ──▶ yield (release and ask in one step, if a call waits) or release
 *
 * The store hands a permit on, because the fence of each hold must be above all that other processes were granted before: one command
 * gives it back and asks for the next call, which gets it before those who wait, within the limits of every lease that is handed on.
 */
import { HAND_ON_WINDOW_MS, StoreLease, type LeaseKeeper } from '../lease/store-lease.js';
import type { ReleaseEnded } from '../port/lease.js';
import type { ResolvedOptions } from '../port/lock-options.js';
import type { Grant } from '../port/lock-store.js';
import { CallLine, type Call, type CallKeeper, type ReasonToReject } from './call.js';
import type { CallQueue, QueueHost } from './key-queue.js';
import { refusalError, refusedAtOnce, waitedInVain } from './refusal.js';
import { StoreRequest, type Refusal, type RequestListener } from './store-request.js';

/** How often a permit has been handed on in this process, and since when it has been here. */
interface Stay {
  readonly since: number;
  turns: number;
}

export class PermitQueue implements CallQueue, LeaseKeeper, RequestListener, CallKeeper {
  private readonly line = new CallLine();
  /** By id, the oldest first. */
  private readonly asking = new Map<string, StoreRequest>();
  private readonly held = new Map<string, StoreLease>();
  /** By the id of the lease, or of the request to which its permit is handed on. */
  private readonly stays = new Map<string, Stay>();

  constructor(
    readonly key: string,
    private readonly host: QueueHost,
    /** The options that its calls share. */
    readonly sharedOptions: ResolvedOptions,
    /** How many permits the lock has. */
    private readonly permits: number,
  ) {}

  join(call: Call, now: number): void {
    if (call.options.waitMs === 0 && !this.mayServeAtOnce()) return call.reject(refusedAtOnce(this.requestFor(call), call));
    this.line.add(call);
    call.startWaiting(this);
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
    const { line, host: { watchdog, background }, line: { first } } = this;
    const lease = new StoreLease(request, grant, now, this, watchdog, Infinity);
    const stay = this.leave(request.id);
    if (first) {
      this.held.set(lease.id, lease);
      this.stays.set(lease.id, stay && !request.wasRefused ? stay : { since: now, turns: 0 });
      watchdog.watch(lease, now);
      line.remove(first);
      lease.admit(first.options, now);
      first.serve(lease);
    } else {
      lease.letGo();
      background.releaseAndTell(lease, () => {});
    }
    // Its permit may have served another call.
    request.asker.tellWaiting();
    this.pump();
  }

  requestRefused({ id, asker }: StoreRequest, refusal: Refusal | undefined): void {
    this.leave(id);
    if (refusal && this.line.remove(asker)) asker.reject(refusalError(refusal, asker));
    asker.tellWaiting();
    this.pump();
  }

  /** The request was not granted at once: calls with waitMs 0 are rejected, the others begin to wait. */
  requestDelayed(request: StoreRequest): void {
    for (const call of this.line.all()) if (call.options.waitMs === 0) call.giveUp(refusedAtOnce(request, call));
    request.asker.tellWaiting();
  }

  leaseLost(_error: Error, { id }: StoreLease): void {
    this.leave(id);
    this.pump();
  }

  leaseHandedOff({ id }: StoreLease): void {
    this.leave(id);
    this.pump();
  }

  /** A permit has one call, so nothing that changes while it is used admits another. */
  leaseChanged(): void {}

  callerLeft(lease: StoreLease, done: ReleaseEnded): void {
    if (lease.isLost) {
      this.host.background.releaseLost(lease);
      return done('lost');
    }
    const stay = this.leave(lease.id)!;
    lease.letGo();
    stay.turns += 1;
    if (this.hasUncovered && !lease.owesNothing) this.ask(this.nextAsker, this.host.clock.now(), lease, done, stay);
    else this.host.background.releaseAndTell(lease, done);
    this.pump();
  }

  /** Whether a call waits for whom nothing is asked, although a place is free. */
  private get hasUncovered(): boolean {
    return this.asking.size < this.line.size && this.asking.size + this.held.size < this.permits;
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

  /** Asks for the calls for whom nothing is asked yet, whenever the line or a place has changed. */
  private pump(): void {
    while (this.hasUncovered) this.ask(this.nextAsker, this.host.clock.now());
    if (this.line.size + this.asking.size + this.held.size === 0) this.host.queueIsIdle(this);
  }

  /** Takes whatever stands under this id out of its place. */
  private leave(id: string): Stay | undefined {
    const stay = this.stays.get(id);
    this.asking.delete(id);
    this.held.delete(id);
    this.stays.delete(id);
    return stay;
  }

  private ask(asker: Call, now: number, replaced?: StoreLease, replacedEnded?: ReleaseEnded, stay?: Stay): void {
    const handsOn = stay !== undefined && stay.turns < this.host.handOn && now - stay.since < HAND_ON_WINDOW_MS;
    const request = new StoreRequest(this.host, asker, 1, this, replaced, replacedEnded, handsOn);
    this.asking.set(request.id, request);
    if (handsOn) this.stays.set(request.id, stay);
    request.ask(now);
  }

  private drop(request: StoreRequest): void {
    this.leave(request.id);
    request.cancel();
    request.asker.tellWaiting();
  }
}
