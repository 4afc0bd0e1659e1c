/**
 * One try to get a lock: the request as its part of a script call, and the reply as a grant that may be trusted, a place, or a
 * refusal.
 */
import type { AcquireOutcome, AcquireRequest, Grant } from '../../core/port/lock-store.js';
import type { LockStoreError } from '../../core/port/errors.js';
import { addAcquire } from '../wire/acquire-request.js';
import type { BundledRequest } from '../wire/bundles.js';
import { grantAt, numbersOf, type ServerGrant } from '../wire/lock-reply.js';
import type { LockSpot } from '../wire/redis-keys.js';
import type { ScriptArgument, ScriptReply } from '../wire/script-runner.js';
import type { Exchange } from '../wire/server-clock.js';
import type { PushedGrant } from '../wire/wake-channel.js';
import type { Acquiring } from './acquiring.js';
import type { Place } from './places.js';

/** Those who were refused a place ask again after about this long, or when the present lease ends. */
const RETRY_MS = 50;
/** What acquire.lua adds to its code when the id to replace was not there. */
const REPLACED_LOST = 10;
/**
 * The limit of a request for which there is none: nobody knows the server's time after a minute of silence, or on a new
 * connection. It comes too late and does nothing but tell the time; then it is sent again. Without any limit a copy that was
 * held up somewhere could take the lock when it has long been released.
 */
const LONG_AGO = 1;

export class Acquisition implements BundledRequest {
  /** The message of its grant, when it came before the answer that gives the place. */
  early: PushedGrant | undefined;
  /** Whoever waited for it was told that it failed: a later answer is only good to know. */
  private hasFailed = false;
  readonly key: string;
  readonly lockKey: string;
  readonly askedAt: number;
  private readonly limit: number;

  constructor(
    private readonly acquiring: Acquiring,
    readonly request: AcquireRequest,
    readonly spot: LockSpot,
    /** The place that is asked for once more. */
    private readonly known: Place | undefined,
    /** The highest fence that was known when the place was first asked for. */
    private readonly floor: number,
    private readonly resolve: (outcome: AcquireOutcome | Promise<AcquireOutcome>) => void,
    private readonly reject: (error: LockStoreError) => void,
  ) {
    const { clock, trust } = acquiring.parts;
    this.key = spot.key;
    this.lockKey = spot.lockKey;
    this.askedAt = request.askedAt ?? clock.now();
    this.limit = trust.limit(spot.group, request.notAfter, this.askedAt);
  }

  addTo(keys: string[], args: ScriptArgument[]): void {
    const { lockKey, queueKey, fenceKey, group } = this.spot;
    const { trust, maxLeaseMs, needsListener } = this.acquiring.parts;
    const { id, mode, leaseMs, fences, queue, label, owner, minHoldMs, replaces } = this.request;
    keys.push(lockKey, queueKey, fenceKey);
    addAcquire(args, {
      id, mode, leaseMs: Math.floor(leaseMs), queue, needsListener: needsListener(), notAfter: this.limit || LONG_AGO, floor: trust.floors.of(group),
      fences, minHoldMs: Math.floor(minHoldMs), longestMs: maxLeaseMs, replaces, owner, label,
    });
  }

  answered(reply: ScriptReply, sentAt: number): void {
    const { clock, trust } = this.acquiring.parts;
    const receivedAt = clock.now();
    if (this.hasFailed) return;
    if (typeof reply === 'string') return this.grantedAsAsked(Number(reply), sentAt, receivedAt);
    const numbers = numbersOf(reply);
    const exchange: Exchange = { sentAt, receivedAt, serverNow: numbers[1] ?? 0 };
    trust.observe(this.spot.group, exchange);
    const [code = 0] = numbers;
    const replacedLost = code >= REPLACED_LOST;
    const outcome = this.outcomeOf(replacedLost ? code - REPLACED_LOST : code, numbers, exchange);
    if (outcome === undefined) return this.askOnceMore();
    this.settle(outcome instanceof Promise ? outcome.then((later) => withReplaced(later, replacedLost)) : withReplaced(outcome, replacedLost));
  }

  failed(error: LockStoreError): void {
    this.hasFailed = true;
    if (this.known) this.acquiring.parts.places.forget(this.known);
    this.reject(error);
  }

  /** The commonest answer is as short as can be: a fence, which is the server's time as well. */
  private grantedAsAsked(fence: number, sentAt: number, receivedAt: number): void {
    const { request, spot } = this;
    const { trust } = this.acquiring.parts;
    const serverNow = Math.floor(fence / 1000);
    const exchange: Exchange = { sentAt, receivedAt, serverNow };
    trust.observe(spot.group, exchange);
    const grant: ServerGrant = { fence, fences: 1, mode: request.mode, end: serverNow + Math.floor(request.leaseMs), contended: false };
    const granted = trust.answered(spot.group, grant, exchange);
    this.settle(request.minReplicas > 0 ? this.acquiring.confirmed(request, granted) : { kind: 'granted', grant: granted });
  }

  /** Undefined when the server found the request too late only because nobody knew its time. */
  private outcomeOf(code: number, numbers: readonly number[], exchange: Exchange): AcquireOutcome | Promise<AcquireOutcome> | undefined {
    const { request, spot, acquiring } = this;
    const { trust, clock } = acquiring.parts;
    const third = numbers[2] ?? 0;
    switch (code) {
      case 1: {
        const grant = grantAt(numbers, 2);
        // A place that was asked for before may have been granted since, by whoever: that grant is held against its floor.
        if (this.known && grant.fence <= this.known.floor) return acquiring.askAnew(request);
        return this.granted(trust.answered(spot.group, grant, exchange));
      }
      case 2:
        return this.waits(third < 0 ? undefined : third);
      case 3:
        return { kind: 'busy', retryInMs: Math.min(third, RETRY_MS * (0.5 + Math.random())) };
      case 4:
        return { kind: 'upgrade' };
      case 6:
        return { kind: 'full' };
      default:
        if (this.limit === 0 && clock.now() < request.notAfter) return undefined;
        throw acquiring.lateError(request.key);
    }
  }

  private granted(grant: Grant): AcquireOutcome | Promise<AcquireOutcome> {
    const { request, acquiring } = this;
    return request.minReplicas > 0 ? acquiring.confirmed(request, grant) : { kind: 'granted', grant };
  }

  /** It has a place in the queue, unless the message of its grant came first. */
  private waits(askAgainInMs: number | undefined): AcquireOutcome | Promise<AcquireOutcome> {
    const { request, spot, known, acquiring } = this;
    const { places, trust, clock } = acquiring.parts;
    // A release, or a later request, may have taken the stead of a place that was asked for once more.
    if (known && !places.has(known)) return { kind: 'waiting', askAgainInMs };
    const place = known ?? places.add(request, spot.group, this.floor);
    place.answered = true;
    const early = this.early ?? place.early;
    if (early === undefined) return { kind: 'waiting', askAgainInMs };
    const grant = trust.pushed(place, early, clock.now());
    if (grant === undefined) return acquiring.acquire({ ...request, replaces: undefined, askedAt: clock.now() });
    places.forget(place);
    return { kind: 'granted', grant };
  }

  private settle(outcome: AcquireOutcome | Promise<AcquireOutcome>): void {
    const { known } = this;
    if (known === undefined) return this.resolve(outcome);
    known.answered = true;
    const { places } = this.acquiring.parts;
    if (outcome instanceof Promise || outcome.kind !== 'waiting') places.forget(known);
    this.resolve(outcome);
  }

  private askOnceMore(): void {
    const { acquiring, request, spot, known, floor, resolve, reject } = this;
    acquiring.send(new Acquisition(acquiring, { ...request, askedAt: acquiring.parts.clock.now() }, spot, known, floor, resolve, reject));
  }
}

function withReplaced(outcome: AcquireOutcome, replacedLost: boolean): AcquireOutcome {
  return replacedLost ? { ...outcome, replacedLost } : outcome;
}
