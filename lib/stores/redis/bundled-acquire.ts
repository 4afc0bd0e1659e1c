/**
 * One try to get a lock from one Redis. It writes the request into a call of acquire.lua, which it may share with others, and makes
 * of its part of the reply a grant with its trust, a place in the queue, or a refusal.
 */
import type { LockStoreError } from '../../core/port/errors.js';
import { lateError } from '../../core/port/hold-errors.js';
import type { AcquireOutcome, AcquireRequest, Grant } from '../../core/port/lock-store.js';
import type { BundledRequest } from '../wire/bundles.js';
import { listOf, recoveringError, sharing, type ServerGrant } from '../wire/lock-reply.js';
import { addAcquire, readAcquire, type AcquireReply, type ScriptArgument } from '../wire/lua.generated.js';
import { UNKNOWN_MEMORY } from '../wire/redis-keys.js';
import type { ScriptReply } from '../wire/script-runner.js';
import { LONG_AGO, type Exchange } from '../wire/server-clock.js';
import { unexpected } from '../wire/unexpected-reply.js';
import { grantedAt, type PushedGrant } from '../wire/wake-channel.js';
import type { Acquiring } from './acquiring.js';
import type { Place } from './places.js';
import type { Spot } from './spots.js';

/** Requests ask again at random up to this long after the end of a recovery, in ms, so that they do not all come at once. */
const SPREAD_AFTER_RECOVERY_MS = 50;
/** What acquire.lua adds to its code when the lock no longer knew the id to replace. */
const REPLACED_LOST = 10;

export class BundledAcquire implements BundledRequest {
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
    const { clock, trust } = acquiring.parts;
    this.key = spot.key;
    this.lockKey = spot.lockKey;
    this.askedAt = request.askedAt ?? clock.now();
    this.sharesLock = request.replaces !== undefined;
    this.limit = trust.clock.before(spot.source, request.notAfter, this.askedAt);
  }

  addTo(keys: string[], args: ScriptArgument[]): void {
    const { needsListener, parts } = this.acquiring;
    const { trust, memories, toldHolds, maxLeaseMs, recoveryMs } = parts;
    const { group } = this.spot;
    const { id, leaseMs, fences, queue, label, replaces, handsOn = false, graceMs = 0 } = this.request;
    // Most requests want no permit, and for them no object is made.
    const { mode, owner } = this.request.permits === undefined ? this.request : sharing(this.request);
    const minHoldMs = Math.floor(this.request.minHoldMs);
    this.memory = memories.of(group);
    this.connection = memories.connection;
    this.floor = trust.floors.of(group);
    const plain = fences === 1 && minHoldMs === 0 && graceMs === 0 && replaces === undefined;
    addAcquire(keys, args, this.spot, {
      id, mode, leaseMs: Math.floor(leaseMs), queue, needsListener, plain, handsOn,
      notAfter: this.limit || LONG_AGO, floor: this.floor, known: this.memory, fences, minHoldMs, graceMs,
      longestMs: maxLeaseMs, recoveryMs, replaces, owner, label, told: toldHolds.of(this.key, this.askedAt),
    });
  }

  messageCame(push: PushedGrant): void {
    this.early = push;
  }

  answered(reply: ScriptReply, sentAt: number): void {
    const { clock, trust } = this.acquiring.parts;
    const receivedAt = clock.now();
    if (this.hasFailed) return;
    if (typeof reply === 'string') return this.grantedAsAsked(reply, sentAt, receivedAt);
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
    if (this.place) this.acquiring.parts.places.forget(this.place);
    this.reject(error);
  }

  /** Reads the commonest answer, which is only a fence: it is the server's time in µs as well, from which the rest follows. */
  private grantedAsAsked(reply: string, sentAt: number, receivedAt: number): void {
    const { request, spot } = this;
    const { trust } = this.acquiring.parts;
    const fence = Number(reply);
    if (!(fence > 0)) throw unexpected(reply);
    const serverNow = Math.floor(fence / 1000);
    const exchange: Exchange = { sentAt, receivedAt, serverNow };
    trust.clock.observe(spot.source, exchange);
    const grant: ServerGrant = { fence, fences: 1, mode: request.mode, end: serverNow + Math.floor(request.leaseMs), contended: false };
    const granted = trust.answered(spot.group, grant, exchange, this.memory);
    this.settle(this.granted(granted));
  }

  /** The outcome for a reply; undefined when the server found the request too late only because its time was not known here. */
  private outcomeOf(told: AcquireReply, exchange: Exchange): AcquireOutcome | Promise<AcquireOutcome> | undefined {
    const { request, spot, acquiring } = this;
    const { trust, clock, node, toldHolds } = acquiring.parts;
    switch (told.kind) {
      case 'granted':
        // A place from an earlier try may have been granted by a server that lost its memory: then its fence is not above the floor.
        if (this.place && told.fence <= this.place.floor) return acquiring.askAnew(request);
        return this.granted(trust.answered(spot.group, told, exchange, told.memory ?? this.memory));
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
        return { kind: 'recovering', retryInMs: told.leftMs + SPREAD_AFTER_RECOVERY_MS * Math.random(), cause: recoveringError(request.key, node, told.leftMs) };
      case 'late':
        if (this.limit === 0 && clock.now() < request.notAfter) return undefined;
        throw lateError(request.key, node);
    }
  }

  private granted(grant: Grant): AcquireOutcome | Promise<AcquireOutcome> {
    const { request, spot, acquiring } = this;
    acquiring.parts.toldHolds.forget(this.key);
    if (request.minReplicas > 0) return acquiring.confirmed(request, spot.group, grant, this.connection);
    acquiring.parts.recovery.compare(spot.group, grant.memory, this.connection);
    return { kind: 'granted', grant };
  }

  /** The outcome for a place in the queue: `waiting`, or the grant if its message came first. */
  private waits(askAgainInMs: number | undefined): AcquireOutcome | Promise<AcquireOutcome> {
    const { request, spot, acquiring } = this;
    const { places, trust, clock, memories } = acquiring.parts;
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
    if (place && (outcome instanceof Promise || outcome.kind !== 'waiting')) this.acquiring.parts.places.forget(place);
    this.resolve(outcome);
  }

  private askOnceMore(): void {
    const { acquiring, request, spot, place, resolve, reject } = this;
    acquiring.sendAgain(new BundledAcquire(acquiring, { ...request, askedAt: acquiring.parts.clock.now() }, spot, place, resolve, reject));
  }
}

function withReplaced(outcome: AcquireOutcome, replacedLost: boolean): AcquireOutcome {
  return replacedLost ? { ...outcome, replacedLost } : outcome;
}
