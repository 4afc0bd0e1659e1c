/**
 * Asking for a lock: the request as a script call, and its reply as a grant that may be trusted, a place, or a refusal.
 *
 *     ask ──▶ granted ──(minReplicas)──▶ confirmed by a renewal that replicas acknowledged
 *      │         └──(fence not above what we know: the server lost its memory)──▶ given back, asked for once more
 *      ├────▶ waiting ──(the grant's message was faster)──▶ granted
 *      └────▶ busy | upgrade | full
 */
import type { Clock } from '../../core/port/clock.js';
import { LockStoreError } from '../../core/port/errors.js';
import type { AcquireOutcome, AcquireRequest, Grant, ReleaseRequest } from '../../core/port/lock-store.js';
import type { BundledCalls } from './bundled-calls.js';
import { grantAt, numbersOf, toField, type ServerGrant } from '../wire/lock-reply.js';
import { acquire } from '../wire/lua.generated.js';
import type { Place, Places } from './places.js';
import type { RedisKeys } from '../wire/redis-keys.js';
import type { Renewals } from './renewals.js';
import type { Decode, ScriptArgument, ScriptReply } from '../wire/script-runner.js';
import type { Exchange } from '../wire/server-clock.js';
import type { Trust } from './trust.js';

/** Those who were refused a place ask again after about this long, or when the present lease ends. */
const RETRY_MS = 50;
/** What acquire.lua adds to its code when the id to replace was not there. */
const REPLACED_LOST = 10;

export interface AcquiringParts {
  readonly bundled: BundledCalls;
  readonly keys: RedisKeys;
  readonly places: Places;
  readonly trust: Trust;
  readonly renewals: Renewals;
  readonly clock: Clock;
  readonly node: string;
  readonly maxLeaseMs: number;
  /** What may share a command, by slot group. */
  sourceOf(group: number): number;
  release(request: ReleaseRequest): Promise<unknown>;
}

/**
 * The limit of a request for which there is none: nobody knows the server's time after a minute of silence, or on a new
 * connection. It comes too late and does nothing but tell the time; then it is sent again. Without any limit a copy that was
 * held up somewhere could take the lock when it has long been released.
 */
const LONG_AGO = 1;

/** A request on its way, and what its answer is held against. */
interface Asked {
  readonly request: AcquireRequest;
  readonly group: number;
  /** A grant's fence must be above this one. */
  readonly floor: number;
  /** Where messages about it will be put, if it may wait. */
  readonly place: Place | undefined;
  /** The server time after which it does nothing; 0 when that could not be told. */
  readonly limit: number;
}

export class Acquiring {
  constructor(private readonly parts: AcquiringParts) {}

  /** Rejects with LockStoreError when the outcome is not known. */
  acquire(request: AcquireRequest): Promise<AcquireOutcome> {
    const { keys, places, trust } = this.parts;
    const group = keys.groupOf(request.key);
    // A place that was asked for before may have been granted since, by whoever: that grant is held against its floor.
    const floor = places.get(request.id)?.floor ?? 0;
    const place = request.queue ? places.expect(request, group, trust.floors.of(group)) : undefined;
    return this.ask({ request, group, floor, place });
  }

  private ask({ request, group, floor, place }: Omit<Asked, 'limit'>): Promise<AcquireOutcome> {
    const { bundled, keys, places, sourceOf, trust, clock } = this.parts;
    const { key } = request;
    const asked: Asked = { request, group, floor, place, limit: trust.limit(group, request.notAfter, clock.now()) };
    const call = { script: acquire, key, keys: keys.all(group, key), args: this.argsOf(asked) };
    const decode: Decode<ScriptReply, AcquireOutcome> = (reply, sentAt, receivedAt) => {
      const outcome = this.outcomeOf(asked, reply, sentAt, receivedAt);
      if (place === undefined) return outcome;
      return outcome instanceof Promise ? outcome.then((later) => this.answered(place, later)) : this.answered(place, outcome);
    };
    return bundled.run(call, sourceOf(group), decode, place && (() => places.forget(place)));
  }

  private argsOf({ request, group, limit }: Asked): ScriptArgument[] {
    const { trust, maxLeaseMs } = this.parts;
    const { id, mode, leaseMs, fences, queue, label, owner, minHoldMs, replaces } = request;
    return [
      id,
      mode === 'write' ? 'w' : 'r',
      Math.floor(leaseMs),
      fences,
      trust.floors.of(group),
      limit || LONG_AGO,
      queue ? 1 : 0,
      toField(label),
      toField(owner),
      Math.floor(minHoldMs),
      replaces ?? '-',
      maxLeaseMs,
    ];
  }

  private outcomeOf(asked: Asked, reply: ScriptReply, sentAt: number, receivedAt: number): AcquireOutcome | Promise<AcquireOutcome> {
    if (typeof reply === 'string') return this.grantedAsAsked(asked, Number(reply), sentAt, receivedAt);
    const numbers = numbersOf(reply);
    const exchange: Exchange = { sentAt, receivedAt, serverNow: numbers[1] ?? 0 };
    this.parts.trust.observe(asked.group, exchange);
    const [code = 0] = numbers;
    if (code < REPLACED_LOST) return this.answerOf(asked, numbers, exchange);
    const answer = this.answerOf(asked, [code - REPLACED_LOST, ...numbers.slice(1)], exchange);
    return answer instanceof Promise ? answer.then(withReplacedLost) : withReplacedLost(answer);
  }

  /** The commonest answer is as short as can be: a fence, which is the server's time as well. */
  private grantedAsAsked({ request, group }: Asked, fence: number, sentAt: number, receivedAt: number): AcquireOutcome | Promise<AcquireOutcome> {
    const serverNow = Math.floor(fence / 1000);
    const exchange: Exchange = { sentAt, receivedAt, serverNow };
    this.parts.trust.observe(group, exchange);
    const grant: ServerGrant = { fence, fences: 1, mode: request.mode, end: serverNow + Math.floor(request.leaseMs), contended: false };
    return this.granted(request, this.parts.trust.answered(group, grant, exchange));
  }

  private answerOf(asked: Asked, numbers: readonly number[], exchange: Exchange): AcquireOutcome | Promise<AcquireOutcome> {
    const { request, group, floor } = asked;
    const { trust, clock } = this.parts;
    const [code, , third = 0] = numbers;
    switch (code) {
      case 1: {
        const grant = grantAt(numbers, 2);
        if (grant.fence <= floor) return this.askAnew(request);
        return this.granted(request, trust.answered(group, grant, exchange));
      }
      case 2:
        return { kind: 'waiting', askAgainInMs: third < 0 ? undefined : third };
      case 3:
        return { kind: 'busy', retryInMs: Math.min(third, RETRY_MS * (0.5 + Math.random())) };
      case 4:
        return { kind: 'upgrade' };
      case 6:
        return { kind: 'full' };
      default:
        if (asked.limit === 0 && clock.now() < request.notAfter) return this.ask(asked);
        throw this.lateError(request.key);
    }
  }

  private granted(request: AcquireRequest, grant: Grant): AcquireOutcome | Promise<AcquireOutcome> {
    return request.minReplicas > 0 ? this.confirmed(request, grant) : { kind: 'granted', grant };
  }

  /** A grant that counts only when replicas have it: a renewal writes it once more and waits for them. */
  private async confirmed(request: AcquireRequest, grant: Grant): Promise<AcquireOutcome> {
    const [renewed] = await this.parts.renewals.renew([request]);
    if (renewed?.kind === 'renewed') {
      const { trustedUntil, contended } = renewed;
      return { kind: 'granted', grant: { ...grant, trustedUntil, contended } };
    }
    await this.giveBack(request).catch(() => undefined); // whoever is told of the failure releases it again
    if (renewed?.kind === 'unknown') throw renewed.cause;
    const message = `Lock '${request.key}': the grant was gone before ${request.minReplicas} replicas had acknowledged it. It is safe to try again.`;
    throw new LockStoreError(message, { key: request.key });
  }

  /** A server that lost its memory granted a fence that has been used: give it back, and ask with the floor told, for a new place. */
  private async askAnew(request: AcquireRequest): Promise<AcquireOutcome> {
    await this.giveBack(request);
    return this.acquire({ ...request, replaces: undefined });
  }

  private giveBack({ key, id }: AcquireRequest): Promise<unknown> {
    return this.parts.release({ key, id, abandoned: true });
  }

  /** The grant's message may have overtaken the answer that gave the place. */
  private answered(place: Place, outcome: AcquireOutcome): AcquireOutcome | Promise<AcquireOutcome> {
    const { places, trust, clock } = this.parts;
    place.answered = true;
    if (outcome.kind !== 'waiting') places.forget(place);
    if (outcome.kind !== 'waiting' || place.early === undefined || !places.has(place)) return outcome;
    const grant = trust.pushed(place, place.early, clock.now());
    const { replacedLost } = outcome;
    if (grant === undefined) return this.acquire({ ...place.request, replaces: undefined }).then((later) => ({ ...later, replacedLost }));
    places.forget(place);
    return { kind: 'granted', grant, replacedLost };
  }

  private lateError(key: string): LockStoreError {
    const { node } = this.parts;
    const message = `Lock '${key}': the request reached ${node} only after its time was over; nothing was done. It is safe to try again.`;
    return new LockStoreError(message, { key, nodes: [{ node, reason: 'late' }] });
  }
}

function withReplacedLost(outcome: AcquireOutcome): AcquireOutcome {
  return { ...outcome, replacedLost: true };
}
