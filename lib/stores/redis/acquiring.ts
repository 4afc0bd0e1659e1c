/**
 * Asks one Redis for a lock, and asks again where one answer is not enough:
 *
 *     ask ──▶ granted ──(minReplicas)──▶ confirmed by a renewal that replicas acknowledged
 *      │         └──(fence not above one seen before: the server lost its memory)──▶ replaced by another request of its id
 *      ├────▶ waiting ──(the message of its grant arrived before)──▶ granted
 *      ├────▶ busy | upgrade | full | permits | gone (the hold that it was to take)
 *      ├────▶ recovering: the server forgot, and grants nothing new for a while
 *      └────▶ late ──(the time of the server was not known before)──▶ asked once more, with a limit in that time; else an error
 */
import { LockStoreError } from '../../core/port/errors.js';
import { lateError } from '../../core/port/hold-errors.js';
import type { AcquireOutcome, AcquireRequest, Grant, TakenHold } from '../../core/port/lock-store.js';
import type { BundledRequest } from '../wire/bundles.js';
import { listOf, recoveringError, type ServerGrant, sharing } from '../wire/lock-reply.js';
import { acquire, type AcquireReply, addAcquire, readAcquire, type ScriptArgument } from '../wire/lua.generated.js';
import { UNKNOWN_MEMORY, USUAL_LEASE_MS, type Spot } from '../wire/redis-keys.js';
import type { ScriptReply } from '../wire/script-runner.js';
import { type Exchange, LONG_AGO } from '../wire/server-clock.js';
import { unexpected } from '../wire/store-failure.js';
import { grantedAt, type PushedGrant } from '../wire/wake-channel.js';
import type { Place } from './places.js';
import type { Recovery } from './recovery.js';
import type { Renewals } from './renewals.js';
import type { ServerView } from './server-view.js';

export class Acquiring {
  /** Whether waiters of this process are passed over while nobody listens on its channel. It is found out at boot. */
  needsListener = false;

  constructor(
    readonly server: ServerView,
    private readonly renewals: Renewals,
    readonly recovery: Recovery,
  ) {}

  /** Asks for a lock. Rejects with LockStoreError when the outcome is not known. The store has this function as its own, as that of Releases. */
  readonly acquire = (request: AcquireRequest): Promise<AcquireOutcome> => {
    const { bundles, spots, places } = this.server;
    const spot = spots.of(request.key);
    const known = places.count > 0 ? places.askAgain(request) : undefined;
    return new Promise((resolve, reject) => {
      bundles.add(acquire, spot.source, new BundledAcquire(this, request, spot, known, resolve, reject));
    });
  };

  /** The try of this id that is not answered yet, for a message that came before its answer. */
  underway(id: string): BundledAcquire | undefined {
    for (const request of this.server.bundles.underway()) if (request instanceof BundledAcquire && request.request.id === id) return request;
    return undefined;
  }

  /**
   * Confirms a grant that counts only when replicas have it: a renewal writes the lock once more and waits for them. Without their
   * answer the grant stays, because the request asks for it again under the same id: a release that is held up in the network would take
   * away what it gets then. A request that gives up releases it.
   */
  async confirmed(request: AcquireRequest, group: number, grant: Grant, connection: number, taken?: TakenHold): Promise<AcquireOutcome> {
    const [renewed] = await this.renewals.renew([request]);
    if (renewed?.kind === 'renewed') {
      this.recovery.compare(group, grant.memory, connection);
      const { trustedUntil, contended } = renewed;
      return { kind: 'granted', grant: { ...grant, trustedUntil, contended }, taken };
    }
    if (renewed?.kind === 'unknown') throw renewed.cause;
    const message = `Lock '${request.key}': the grant was gone before ${request.minReplicas} replicas had acknowledged it. It is safe to try again.`;
    throw new LockStoreError(message, { key: request.key });
  }

  /**
   * Called when a server that lost its memory granted a used fence: asks for another one, and the request takes the place of what its id
   * was granted, in one step. A release before it might be held up in the network and come after it.
   */
  askAnew(request: AcquireRequest): Promise<AcquireOutcome> {
    return this.acquire({ ...request, replaces: request.id, askedAt: this.server.clock.now() });
  }
}

/**
 * In how many ms a request asks again, if the server said that it grants nothing new for so long. A group that is claimed opens as soon as
 * what was claimed is back, which is mostly long before the end that the server tells.
 */
function againIn(leftMs: number): number {
  return Math.min(leftMs, Math.max(250, leftMs / 8));
}

/** Requests ask again at random up to this long after the end of a recovery, in ms, so that they do not all come at once. */
const SPREAD_AFTER_RECOVERY_MS = 50;
/** What acquire.lua adds to its code when the lock no longer knew the id to replace. */
const REPLACED_LOST = 10;

/**
 * One try to get a lock from one Redis. It writes the request into a call of acquire.lua, which it may share with others, and makes
 * of its part of the reply a grant with its trust, a place in the queue, or a refusal.
 */
class BundledAcquire implements BundledRequest {
  /** The message of its grant, if that came before the answer that gives the first place. */
  private early: PushedGrant | undefined;
  /** Whether its caller got an error, so that a later answer is ignored. */
  private hasFailed = false;
  readonly key: string;
  readonly lockKey: string;
  readonly askedAt: number;
  readonly sharesLock: boolean;
  private readonly limit: number;
  /** The server's memory that the request was sent for, on which connection, and the highest fence that was known then. */
  private memory = UNKNOWN_MEMORY;
  private connection = 0;
  private floor = 0;

  constructor(
    private readonly acquiring: Acquiring,
    readonly request: AcquireRequest,
    readonly spot: Spot,
    /** The place that the request has in the queue already, if it asks again. */
    private readonly place: Place | undefined,
    private readonly resolve: (outcome: AcquireOutcome | Promise<AcquireOutcome>) => void,
    private readonly reject: (error: LockStoreError) => void,
  ) {
    const { clock, trust } = acquiring.server;
    this.key = spot.key;
    this.lockKey = spot.lockKey;
    this.askedAt = request.askedAt ?? clock.now();
    this.sharesLock = request.replaces !== undefined;
    this.limit = trust.clock.before(spot.source, request.notAfter, this.askedAt);
  }

  addTo(keys: string[], args: ScriptArgument[]): void {
    const { needsListener, server } = this.acquiring;
    const { trust, memories, toldHolds, recoveryMs } = server;
    const { group } = this.spot;
    const { id, leaseMs, fences, queue, label, replaces, handsOn, takesOver, ticketUntil, graceMs = 0 } = this.request;
    // Most requests want no permit, and for them no object is made.
    const { mode, owner } = this.request.permits === undefined ? this.request : sharing(this.request);
    const minHoldMs = Math.floor(this.request.minHoldMs);
    this.memory = memories.of(group);
    this.connection = memories.connection;
    this.floor = trust.floors.of(group);
    const plain = fences === 1 && minHoldMs === 0 && graceMs === 0 && replaces === undefined && leaseMs <= USUAL_LEASE_MS;
    addAcquire(keys, args, this.spot, {
      id, mode, leaseMs: Math.floor(leaseMs), queue, needsListener, plain, takes: takesOver ?? (handsOn ? 'permit' : 'nothing'),
      notAfter: this.limit || LONG_AGO, floor: this.floor, known: this.memory, fences, minHoldMs: ticketUntil ?? minHoldMs, graceMs,
      recoveryMs, replaces, owner, label, told: toldHolds.count > 0 ? toldHolds.of(this.key, this.askedAt) : undefined,
    });
  }

  messageCame(push: PushedGrant): void {
    this.early = push;
  }

  answered(reply: ScriptReply, sentAt: number): void {
    if (this.hasFailed) return;
    if (typeof reply === 'string') return this.grantedAsAsked(reply, sentAt);
    const { clock, trust } = this.acquiring.server;
    const receivedAt = clock.now();
    const list = listOf(reply);
    const code = Number(list[0]);
    const replacedLost = code >= REPLACED_LOST;
    const told = readAcquire(list, 0, replacedLost ? code - REPLACED_LOST : code);
    const exchange: Exchange = { sentAt, receivedAt, serverNow: told.now };
    trust.clock.observe(this.spot.source, exchange);
    const outcome = this.outcomeOf(told, exchange);
    if (outcome === undefined) return this.askOnceMore();
    this.settle(outcome instanceof Promise ? outcome.then((later) => withReplaced(later, replacedLost)) : withReplaced(outcome, replacedLost));
  }

  failed(error: LockStoreError): void {
    this.hasFailed = true;
    if (this.place) this.acquiring.server.places.forget(this.place);
    this.reject(error);
  }

  /** Reads the commonest answer, which is only a fence: it is the server's time in µs as well, from which the rest follows. */
  private grantedAsAsked(reply: string, sentAt: number): void {
    const { request, spot, acquiring: { server: { trust, clock } } } = this;
    const fence = Number(reply);
    if (!(fence > 0)) throw unexpected(reply);
    const serverNow = Math.floor(fence / 1000);
    if (!trust.clock.isFresh(spot.source, sentAt)) trust.clock.observe(spot.source, { sentAt, receivedAt: clock.now(), serverNow });
    const grant: ServerGrant = { fence, fences: 1, mode: request.mode, end: serverNow + Math.floor(request.leaseMs), contended: false };
    const outcome = this.granted(trust.answered(spot.group, grant, { sentAt, serverNow }, this.memory));
    if (this.place) this.settle(outcome);
    else this.resolve(outcome);
  }

  /** The outcome for a reply; undefined when the server found the request too late only because its time was not known here. */
  private outcomeOf(told: AcquireReply, exchange: Exchange): AcquireOutcome | Promise<AcquireOutcome> | undefined {
    const { request, spot, acquiring } = this;
    const { trust, clock, node, toldHolds } = acquiring.server;
    switch (told.kind) {
      case 'granted':
        // A place from an earlier try may have been granted by a server that lost its memory: then its fence is not above the floor.
        if (this.place && told.fence <= this.place.floor) return acquiring.askAnew(request);
        return this.granted(trust.answered(spot.group, told, exchange, told.memory ?? this.memory));
      case 'taken': {
        const { owner, permits, minHoldMs, end } = told;
        return this.granted(trust.answered(spot.group, told, exchange, told.memory), { owner, permits: permits || undefined, minHoldMs, end });
      }
      case 'gone':
        return { kind: 'gone', now: told.now, memory: told.memory };
      case 'waiting':
        toldHolds.note(this.key, told.holds, exchange.receivedAt);
        return this.waits(told.leftMs < 0 ? undefined : told.leftMs);
      case 'busy':
        toldHolds.note(this.key, told.holds, exchange.receivedAt);
        return { kind: 'busy', retryInMs: told.leftMs };
      case 'upgrade':
        return { kind: 'upgrade' };
      case 'full':
        return { kind: 'full' };
      case 'permits':
        return { kind: 'permits', permits: told.permits || undefined };
      case 'recovering':
        return { kind: 'recovering', retryInMs: againIn(told.leftMs) + SPREAD_AFTER_RECOVERY_MS * Math.random(), cause: recoveringError(request.key, node, told.leftMs) };
      case 'late':
        if (this.limit === 0 && clock.now() < request.notAfter) return undefined;
        throw lateError(request.key, node);
    }
  }

  private granted(grant: Grant, taken?: TakenHold): AcquireOutcome | Promise<AcquireOutcome> {
    const { request, spot, acquiring } = this;
    const { memories, toldHolds } = acquiring.server;
    if (toldHolds.count > 0) toldHolds.forget(this.key);
    if (request.minReplicas > 0) return acquiring.confirmed(request, spot.group, grant, this.connection, taken);
    if (grant.memory !== memories.of(spot.group)) acquiring.recovery.compare(spot.group, grant.memory, this.connection);
    return { kind: 'granted', grant, taken };
  }

  /** The outcome for a place in the queue: `waiting`, or the grant if its message came first. */
  private waits(askAgainInMs: number | undefined): AcquireOutcome | Promise<AcquireOutcome> {
    const { request, spot, acquiring } = this;
    const { places, trust, clock, memories } = acquiring.server;
    // Since this try was sent, the id may have been released, or asked for by a later try, which keeps its own place.
    if (this.place && !places.has(this.place)) return { kind: 'waiting', askAgainInMs };
    const place = this.place ?? places.add(request, spot.group, this.floor, this.early);
    const early = place.answerCame();
    if (early === undefined) return { kind: 'waiting', askAgainInMs };
    const grant = trust.pushed(place, early, clock.now(), memories.madeBy(spot.group, grantedAt(early)));
    if (grant === undefined) return acquiring.acquire({ ...request, replaces: undefined, askedAt: clock.now() });
    places.forget(place);
    return { kind: 'granted', grant };
  }

  private settle(outcome: AcquireOutcome | Promise<AcquireOutcome>): void {
    const { place } = this;
    if (place && (outcome instanceof Promise || outcome.kind !== 'waiting')) this.acquiring.server.places.forget(place);
    this.resolve(outcome);
  }

  private askOnceMore(): void {
    const { acquiring, request, spot, place, resolve, reject } = this;
    const { bundles, clock } = acquiring.server;
    bundles.add(acquire, spot.source, new BundledAcquire(acquiring, { ...request, askedAt: clock.now() }, spot, place, resolve, reject));
  }
}

function withReplaced(outcome: AcquireOutcome, replacedLost: boolean): AcquireOutcome {
  return replacedLost ? { ...outcome, replacedLost } : outcome;
}
