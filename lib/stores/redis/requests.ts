/**
 * What a process asks of one Redis for itself: locks, and their releases. A lock is asked for again where one answer is not enough:
 *
 *     ask ──▶ granted ──(minReplicas)──▶ confirmed by a renewal that replicas acknowledged
 *      │         └──(fence not above one seen before: the server lost its memory)──▶ replaced by another request of its id
 *      ├────▶ waiting ──(the message of its grant arrived before)──▶ granted
 *      ├────▶ busy | upgrade | full | permits | gone (the hold that it was to take)
 *      ├────▶ recovering: the server forgot, and grants nothing new for a while
 *      └────▶ late ──(the time of the server was not known before)──▶ asked once more, with a limit in that time; else an error
 *
 * A request that waits has a place in the queue, which it keeps by asking again. A message or an answer grants it the lock:
 *
 *     asked ──▶ waiting ──▶ granted | released
 *
 * The message of a grant can arrive before the answer that gave the place; it is kept until that answer.
 */
import { LockStoreError } from '../../core/port/errors.js';
import { lateError } from '../../core/port/hold-errors.js';
import type { AcquireOutcome, AcquireRequest, Done, Grant, Released, ReleaseRequest, TakenHold, Verb, Wake } from '../../core/port/lock-store.js';
import { promised, BundledRequest } from '../wire/bundles.js';
import { acquire, type AcquireArgs, type AcquireReply, acquireText, readAcquire, readRelease, release, releaseText } from '../wire/lua.generated.js';
import { UNKNOWN_MEMORY, USUAL_LEASE_MS, type Spot } from '../wire/redis-keys.js';
import type { ScriptReply, ScriptRunner } from '../wire/script-runner.js';
import { type Exchange, LONG_AGO, trustOf } from '../wire/server-clock.js';
import { listOf, recoveringError, UnexpectedReplyError } from '../wire/store-failure.js';
import { grantedAt, type PushedGrant } from '../wire/wake-channel.js';
import type { Recovery } from './recovery.js';
import type { Renewals } from './renewals.js';
import { SERVER_LENGTH, type RemoteRedis } from './remote-redis.js';

/** What a request says besides when it is a vote on a node of a Redlock. */
export interface Vote {
  /** The least fence that its caller can use. */
  readonly proposal: number;
  /** The mark that the request leaves if it is refused and waits (marks.lua). */
  readonly mark: string | undefined;
  /** For how long the answer is waited for, in ms. */
  readonly timeoutMs: number;
}

type Request = AcquireRequest & { readonly vote?: Vote | undefined };

/** On a node of a Redlock a release may leave the mark of a request of its process that waits from now on (marks.lua). */
export type MarkingRelease = ReleaseRequest & { readonly mark?: string | undefined };

export class Requests {
  /** Receives what the server says of the ids that wait or hold. */
  wake: (wake: Wake) => void = () => {};
  /** True if waiters of this process are passed over while nobody listens on its channel. It is found out at boot. */
  needsListener = false;
  /** The requests that wait, by id. */
  readonly places = new Map<string, BundledAcquire>();

  constructor(
    readonly redis: RemoteRedis,
    readonly renewals: Renewals,
    readonly recovery: Recovery,
  ) {}

  /** Asks for a lock. Rejects with LockStoreError when the outcome is not known. The store has this function as its own, which spares each request a call. */
  readonly acquire = ((request: Request, done?: Done<AcquireOutcome>) => {
    const { places, redis: { bundles, keys } } = this;
    if (done === undefined) return promised((settle) => this.acquire(request, settle));
    const asked = new BundledAcquire(this, request, keys.spotOf(request.key), done);
    if (places.size > 0) places.get(request.id)?.leavePlaceTo(asked);
    return bundles.add(asked);
  }) as Verb<Request, AcquireOutcome>;

  /** Takes an id out of its lock, whether it holds or waits. Rejects with LockStoreError when the outcome is not known. */
  readonly release = ((request: MarkingRelease, done?: Done<Released>) => {
    const { places, redis, redis: { bundles, keys } } = this;
    if (done === undefined) return promised((settle) => this.release(request, settle));
    if (places.size > 0) places.delete(request.id);
    return bundles.add(new BundledRelease(redis, request, keys.spotOf(request.key), done));
  }) as Verb<MarkingRelease, Released>;

  /** Tells the requests that wait to ask again: in this slot group, or everywhere. */
  askAgain(group?: number): void {
    for (const { spot, request: { key, id } } of this.places.values()) if (group === undefined || group === spot.group) this.wake({ kind: 'ask', key, id });
  }

  /** Handles the message of a grant. A grant to nobody is given back. */
  granted(push: PushedGrant): void {
    const { key, id } = push;
    const place = this.places.get(id) ?? this.underway(id);
    if (place !== undefined) place.messageCame(push);
    // Only an id of this process is released, whatever a message says.
    else if (id.startsWith(`${this.redis.process}.`)) this.wake({ kind: 'stray', key, id });
  }

  /** The try of this id that is on its way. */
  private underway(id: string): BundledAcquire | undefined {
    for (const one of this.redis.bundles.underway()) if (one instanceof BundledAcquire && one.request.id === id) return one;
    return undefined;
  }
}

/** Requests ask again at random up to this long after the end of a recovery, in ms, so that they do not all come at once. */
const SPREAD_AFTER_RECOVERY_MS = 50;
/** What acquire.lua adds to its code when the lock no longer knew the id to replace. */
const REPLACED_LOST = 10;

/**
 * In how many ms a request asks again, if the server said that it grants nothing new for so long. A group that is claimed opens as soon as
 * what was claimed is back, which is mostly long before the end that the server tells.
 */
function againIn(leftMs: number): number {
  return Math.min(leftMs, Math.max(250, leftMs / 8)) + SPREAD_AFTER_RECOVERY_MS * Math.random();
}

/**
 * One try to get a lock from one Redis, and the place that it has. It writes the request into a call of acquire.lua, which it may share with
 * others, and makes of its part of the reply a grant with its trust, a place in the queue, or a refusal. While its request waits, it stands
 * for the place of that in `places`, until the request is granted, released, answered without a place, or tried again: then the new try does.
 */
export class BundledAcquire extends BundledRequest<AcquireOutcome> {
  readonly script = acquire;
  readonly what = acquire.name;
  readonly redisKey = this.spot.lockKey;
  askedAt = this.request.askedAt ?? this.requests.redis.clock.now();
  override readonly timeoutMs = this.request.vote?.timeoutMs;
  /** The highest fence that was known when it was sent; of a place, when that was first asked for. The fence of its grant must be greater. */
  floor = 0;
  /** True if its id has a place in the queue, as far as is known: from an earlier try, or by the answer to this one. */
  private hasPlace = false;
  override sharesLock = this.request.replaces !== undefined;
  /** The message of its grant, if that came before the answer. */
  private early: PushedGrant | undefined;
  /** True if a message of its grant came that was not enough to trust it, so that its id asks. */
  private isTold = false;
  /** Until when the server may act on it, in its own time; 0 while that is not known. */
  private limit = 0;
  /** The server's memory that the request was sent for, and on which connection. */
  private memory = UNKNOWN_MEMORY;
  private generation = 0;

  constructor(
    private readonly requests: Requests,
    readonly request: Request,
    readonly spot: Spot,
    protected done: Done<AcquireOutcome> | undefined,
  ) {
    super();
  }

  text(): string {
    const { needsListener, redis: { trust, memories, toldHolds, recoveryMs } } = this.requests;
    const { group, shard } = this.spot;
    const { id, leaseMs, fences, queue, label, replaces, handsOn, takesOver, ticketUntil, graceMs = 0, notAfter, vote } = this.request;
    // Most requests want no permit, and for them no object is made.
    const { mode, owner } = this.request.permits === undefined ? this.request : sharing(this.request);
    const minHoldMs = Math.floor(this.request.minHoldMs);
    this.limit = trust.clock.lowerBound(shard, notAfter, this.askedAt);
    this.memory = memories.known[group]!;
    this.generation = memories.generation;
    const floor = trust.floors.highest[group]!;
    if (!this.hasPlace) this.floor = floor;
    const told = toldHolds.size > 0 ? toldHolds.of(this.spot.key, this.askedAt) : undefined;
    const taken = takesOver ?? (handsOn ? 'permit' : 'nothing');
    // The script looks for the holders of whom an earlier memory told, and not this one, also when the recovery after that is over.
    const plain = fences === 1 && minHoldMs === 0 && graceMs === 0 && replaces === undefined && leaseMs <= USUAL_LEASE_MS &&
      (told === undefined || told.split(',', 2)[1] === this.memory.slice(SERVER_LENGTH));
    return acquireText({
      id, mode, leaseMs: Math.floor(leaseMs), queue, needsListener, plain, takes: vote ? 'floor' : taken,
      notAfter: this.limit || LONG_AGO, floor: vote?.proposal ?? floor, known: this.memory, fences, minHoldMs: ticketUntil ?? minHoldMs, graceMs,
      recoveryMs, replaces, owner, label, told, mark: vote?.mark,
    });
  }

  answered(reply: ScriptReply): void {
    // Its caller has an error already.
    if (this.done === undefined) return;
    if (typeof reply === 'string') return this.grantedAsAsked(reply);
    const { sentAt } = this;
    const { clock, trust, bundles } = this.requests.redis;
    const receivedAt = clock.now();
    const list = listOf(reply);
    const code = Number(list[0]);
    const replacedLost = code >= REPLACED_LOST;
    const answer = readAcquire(replacedLost ? [code - REPLACED_LOST, ...list.slice(1)] : list);
    const exchange: Exchange = { sentAt, receivedAt, serverNow: answer.now };
    trust.clock.observe(this.spot.shard, exchange);
    const outcome = this.outcomeOf(answer, exchange);
    if (outcome !== undefined) return this.settle(outcome, replacedLost);
    // The server's time is known from now on, so the request is sent once more with a limit that this server can judge.
    this.askedAt = receivedAt;
    bundles.add(this);
  }

  /** Reads the commonest answer, which is only the server's time in µs. That is the fence, except for a vote, and the rest follows from the request. */
  private grantedAsAsked(reply: string): void {
    const { request: { mode, leaseMs, vote }, spot: { shard, group }, sentAt, memory } = this;
    const { trust, clock } = this.requests.redis;
    const nowUs = Number(reply);
    if (!(nowUs > 0)) throw new UnexpectedReplyError(reply);
    const fence = vote?.proposal ?? nowUs;
    if (!trust.clock.isFresh(shard, sentAt)) trust.clock.observe(shard, { sentAt, receivedAt: clock.now(), serverNow: Math.floor(nowUs / 1000) });
    trust.floors.saw(group, fence);
    const outcome = this.granted({ fence, fences: 1, mode, trustedUntil: trustOf(Math.floor(leaseMs), sentAt), contended: false, memory });
    // Most requests have no place, and wait for no replica.
    if (this.hasPlace || outcome instanceof Promise) this.settle(outcome);
    else this.tell(outcome);
  }

  /** The outcome for a reply; undefined when the server found the request too late only because its time was not known well enough here. */
  private outcomeOf(answer: AcquireReply, exchange: Exchange): AcquireOutcome | Promise<AcquireOutcome> | undefined {
    const { request, spot, requests } = this;
    const { trust, clock, node, toldHolds, channel } = requests.redis;
    if ('holds' in answer) toldHolds.note(spot.key, answer.holds, exchange.receivedAt);
    switch (answer.kind) {
      case 'granted':
        if (this.hasPlace && this.early === undefined && !this.isTold) channel.missed();
        // A place from an earlier try may have been granted by a server that lost its memory: then its fence is not above the floor.
        // The request takes the place of what its id was granted, in one step: a release before it might be held up in the network and come after it.
        // A request that has taken that place may share the fence of its owner's hold, which was brought back, if no higher fence was known.
        if (this.hasPlace && answer.fence <= this.floor && !(request.replaces === request.id && answer.fence === this.floor)) return requests.acquire({ ...request, replaces: request.id, askedAt: clock.now() });
        return this.granted(trust.answered(spot.group, answer, exchange, answer.memory ?? this.memory));
      case 'taken': {
        const { owner, permits, minHoldMs, end } = answer;
        return this.granted(trust.answered(spot.group, answer, exchange, answer.memory), { owner, permits: permits || undefined, minHoldMs, end });
      }
      case 'gone':
        return answer;
      case 'waiting':
        return this.waits(answer.leftMs < 0 ? undefined : answer.leftMs);
      case 'busy':
        return { kind: 'busy', retryInMs: answer.leftMs };
      case 'upgrade':
      case 'full':
        return { kind: answer.kind };
      case 'permits':
        return { kind: 'permits', permits: answer.permits || undefined };
      case 'recovering':
        return { kind: 'recovering', retryInMs: againIn(answer.leftMs), cause: recoveringError(request.key, node, answer.leftMs) };
      case 'late':
        // The limit is 0 or too early while the server's time is not known, or was read long ago. This answer tells it.
        if (trust.clock.lowerBound(spot.shard, request.notAfter, exchange.receivedAt) > answer.now) return undefined;
        throw lateError(request.key, node);
    }
  }

  private granted(grant: Grant, taken?: TakenHold): AcquireOutcome | Promise<AcquireOutcome> {
    const { request, spot, requests } = this;
    const { memories, toldHolds } = requests.redis;
    toldHolds.delete(spot.key);
    if (request.minReplicas > 0) return this.confirmed(grant, taken);
    if (grant.memory !== memories.known[spot.group]) requests.recovery.compare(spot.group, grant.memory, this.generation);
    return { kind: 'granted', grant, taken };
  }

  /**
   * Confirms a grant that counts only when replicas have it: a renewal writes the lock once more and waits for them. Without their
   * answer the grant stays, because the request asks for it again under the same id: a release that is held up in the network would take
   * away what it gets then. A request that gives up releases it.
   */
  private async confirmed(grant: Grant, taken?: TakenHold): Promise<AcquireOutcome> {
    const { request, request: { key, minReplicas }, requests: { renewals, recovery } } = this;
    const renewed = await renewals.renew(request);
    if (renewed.kind === 'renewed') {
      recovery.compare(this.spot.group, grant.memory, this.generation);
      const { trustedUntil, contended } = renewed;
      return { kind: 'granted', grant: { ...grant, trustedUntil, contended }, taken };
    }
    if (renewed.kind === 'unknown') throw renewed.cause;
    throw new LockStoreError(`Lock '${key}': the grant was gone before ${minReplicas} replicas had acknowledged it. It is safe to try again.`, { key });
  }

  /** Tells the outcome when it is known. Only a request that waits keeps its place. */
  private settle(outcome: AcquireOutcome | Promise<AcquireOutcome>, replacedLost = false): void {
    if (outcome instanceof Promise || outcome.kind !== 'waiting') this.leavePlace();
    if (outcome instanceof Promise) outcome.then((later) => this.settle(later, replacedLost), (error: LockStoreError) => this.tell(error));
    else this.tell(replacedLost ? { ...outcome, replacedLost } : outcome);
  }

  override failed(reason: unknown, runner: ScriptRunner): void {
    this.leavePlace();
    super.failed(reason, runner);
  }

  // What follows looks after the place that the request has in the queue.

  /** The outcome for a place in the queue: `waiting`, or the grant if its message came first. */
  private waits(askAgainInMs: number | undefined): AcquireOutcome | Promise<AcquireOutcome> {
    const { request, requests, early } = this;
    const { places, redis: { channel, clock } } = requests;
    channel.check();
    // Since this try was sent, the id may have been released, or asked for by a later try, which keeps its own place.
    if (this.hasPlace && places.get(request.id) !== this) return { kind: 'waiting', askAgainInMs };
    this.hasPlace = true;
    places.set(request.id, this);
    if (early === undefined) return { kind: 'waiting', askAgainInMs };
    const grant = this.believed(early);
    return grant === undefined ? requests.acquire({ ...request, replaces: undefined, askedAt: clock.now() }) : { kind: 'granted', grant };
  }

  /**
   * Judges the message of its grant. The grant becomes a lease when the message is enough to trust it; otherwise the waiter asks. A message
   * that comes before the answer, while `done` has not been called, is kept for the answer.
   */
  messageCame(push: PushedGrant): void {
    if (this.done !== undefined) {
      this.early = push;
      return;
    }
    const { key, id } = push;
    const grant = this.believed(push);
    this.isTold = true;
    this.requests.wake(grant === undefined ? { kind: 'ask', key, id } : { kind: 'granted', key, id, grant });
  }

  /** The grant of its place from the message, which ends the place; undefined when the message is not enough to trust it. */
  private believed(push: PushedGrant): Grant | undefined {
    const { places, redis: { trust, memories, toldHolds, clock } } = this.requests;
    const grant = trust.pushed(this, push, clock.now(), memories.madeBy(this.spot.group, grantedAt(push)));
    if (grant === undefined) return undefined;
    places.delete(push.id);
    toldHolds.delete(push.key);
    return grant;
  }

  /** Its id asks again: from now on that try stands for the place. */
  leavePlaceTo(later: BundledAcquire): void {
    later.floor = this.floor;
    later.isTold = this.isTold;
    later.hasPlace = later.sharesLock = true;
    this.requests.places.set(this.request.id, later);
  }

  /** Gives up the place, unless a later try of its id has it. */
  private leavePlace(): void {
    const { requests: { places }, request: { id } } = this;
    if (this.hasPlace && places.get(id) === this) places.delete(id);
  }
}

/** The mode and the owner of a request as scripts are told them: one for a permit says in place of its owner how many permits there are. */
export function sharing({ mode, owner, permits }: Pick<AcquireRequest, 'mode' | 'owner' | 'permits'>): Pick<AcquireArgs, 'mode' | 'owner'> {
  return permits === undefined ? { mode, owner } : { mode: 'permit', owner: String(permits) };
}

/** One release: its part of a call of release.lua, which takes an id out of the lock, whether it holds or waits, and its outcome. */
export class BundledRelease extends BundledRequest<Released> {
  readonly script = release;
  readonly what = release.name;
  readonly redisKey = this.spot.lockKey;
  readonly askedAt = this.request.askedAt;

  constructor(
    private readonly redis: RemoteRedis,
    private readonly request: MarkingRelease,
    readonly spot: Spot,
    protected done?: Done<Released>,
  ) {
    super();
  }

  /** The highest fence and the memory are those that are known now: they must be those of the connection that carries the release. */
  text(): string {
    const { request: { id, abandoned = false, memory, askedAt, trustedUntil = -Infinity, mark }, spot: { group }, redis: { trust, memories, recoveryMs } } = this;
    const known = memories.known[group]!;
    const mayBeOver = askedAt === undefined || askedAt >= trustedUntil || mark !== undefined || (memory !== undefined && memory !== known);
    return releaseText({ id, abandoned, mayBeOver, mark, recoveryMs, floor: trust.floors.highest[group]!, known });
  }

  answered(reply: ScriptReply): void {
    this.tell(reply === 1 ? 'released' : readRelease(reply));
  }
}
