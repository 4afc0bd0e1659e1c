/**
 * Brings back leases that a server has forgotten, each under its id and fence, if the lock is free. A renewal that does not find
 * a lease is no proof of a loss: bring-back.lua looks at the server's memory, and its answer decides.
 */
import type { HeldLease, RenewOutcome, RenewRequest } from '../../core/port/lock-store.js';
import type { Clock } from '../../core/port/clock.js';
import { inBatches } from '../wire/batches.js';
import type { ScriptCall, ScriptRunner } from '../wire/script-runner.js';
import { listOf, sharing } from '../wire/lock-reply.js';
import {
  addBringBack, bringBack, bringBackHeadSize, bringBackSize, readBringBack, readBringBackHead, type BringBackArgs, type BringBackReply, type ScriptArgument,
} from '../wire/lua.generated.js';
import type { RedisKeys } from '../wire/redis-keys.js';
import { LONG_AGO, trustOf } from '../wire/server-clock.js';
import { isTryAgain, storeFailure, failedLock } from '../wire/store-failure.js';
import { FewAtATime, type Renewals } from './renewals.js';
import type { Memories } from './memories.js';
import type { Recovery } from './recovery.js';
import type { Releases } from './releases.js';
import type { Trust } from './trust.js';

/** How many leases one command brings back at most. Each costs a server 13 to 40 µs, and all other commands wait meanwhile. */
const MAX_BROUGHT_BACK_TOGETHER = 60;
/** How many commands are out to a server at most: enough to keep it busy, and few enough to be answered in time. */
const MAX_COMMANDS_OUT = 16;

export interface BringingBackParts {
  readonly runner: ScriptRunner;
  readonly keys: RedisKeys;
  readonly trust: Trust;
  readonly renewals: Renewals;
  readonly releases: Releases;
  readonly memories: Memories;
  readonly recovery: Recovery;
  readonly clock: Clock;
  readonly node: string;
  readonly maxLeaseMs: number;
  readonly recoveryMs: number;
  readonly timeoutMs: number;
}

/** A renewal that carries what is needed to bring the lease back. */
type LeaseRequest = RenewRequest & { readonly held: HeldLease };

function saysWhatItIs(request: RenewRequest): request is LeaseRequest {
  return request.held !== undefined;
}

function inPairs<T, R>(requests: readonly T[], outcomes: readonly R[]): [T, R][] {
  return requests.map((request, at) => [request, outcomes[at]!]);
}

/** The key that a failure of all these requests is about, if it is about one lock. */
function onlyKeyOf(requests: readonly LeaseRequest[]): string | undefined {
  return requests.length === 1 ? requests[0]!.key : undefined;
}

export class BringingBack {
  private readonly few = new FewAtATime(MAX_COMMANDS_OUT);

  constructor(private readonly parts: BringingBackParts) {}

  /**
   * Renews leases, and brings back those that were forgotten. Those with minReplicas go apart, so that no other waits for replicas.
   * Outcomes are in the order of the requests; never rejects.
   */
  async renew(requests: readonly RenewRequest[]): Promise<readonly RenewOutcome[]> {
    const { renewals, recoveryMs } = this.parts;
    if (recoveryMs === 0) return renewals.renew(requests);
    return inBatches(requests, ({ minReplicas }) => minReplicas, Infinity, (part) => this.renewPart(part));
  }

  /**
   * What another memory knew is brought back without a renewal that would not find it, and what the server has nevertheless is renewed
   * by that as well.
   */
  private async renewPart(requests: readonly RenewRequest[]): Promise<readonly RenewOutcome[]> {
    const found = requests.filter((request) => !this.isBroughtBackFirst(request));
    const outcomes = new Map<RenewRequest, RenewOutcome>(inPairs(found, found.length === 0 ? [] : await this.parts.renewals.renew(found)));
    const missing = requests.filter(saysWhatItIs).filter((request) => (outcomes.get(request)?.kind ?? 'lost') === 'lost');
    const back = inPairs(missing, await this.bringBack(missing));
    await Promise.all(back.map(async ([request, outcome]) => outcomes.set(request, await this.acknowledged(request, outcome))));
    return requests.map((request) => outcomes.get(request)!);
  }

  private isBroughtBackFirst({ key, minReplicas, held }: RenewRequest): boolean {
    if (held === undefined) return false;
    const { memories, keys } = this.parts;
    const group = keys.groupOf(key);
    // A renewal that waits for replicas may be answered when the recovery of a server that forgot is over. A new master often has none.
    if (minReplicas > 0 && memories.knownOf(group) === undefined) return true;
    return held.memory !== undefined && memories.isOutdated(group, held.memory);
  }

  /** Renews leases that were brought back once more where minReplicas asks for replicas that have them. */
  private async acknowledged(request: RenewRequest, outcome: RenewOutcome): Promise<RenewOutcome> {
    if (outcome.kind !== 'renewed' || request.minReplicas === 0) return outcome;
    const [renewed] = await this.parts.renewals.renew([request]);
    return renewed!.kind === 'renewed' ? { ...renewed!, memory: outcome.memory } : renewed!;
  }

  /** Brings leases back. The outcomes are in the order of the requests; never rejects. */
  private bringBack(requests: readonly LeaseRequest[]): Promise<readonly RenewOutcome[]> {
    const sourceOf = ({ key }: LeaseRequest): number => this.parts.trust.sourceOf(this.parts.keys.groupOf(key));
    return inBatches(requests, sourceOf, MAX_BROUGHT_BACK_TOGETHER, (batch) => this.few.run(sourceOf(batch[0]!), () => this.send(batch)));
  }

  private async send(requests: readonly LeaseRequest[], isRepeated = false): Promise<readonly RenewOutcome[]> {
    // A lease that was released since the renewal was sent must not be brought back, because nobody would release it again.
    const held = requests.filter((request) => request.held.isHeld);
    const outcomes = new Map(inPairs(held, held.length === 0 ? [] : await this.answersTo(held, isRepeated)));
    const late = held.filter((request) => outcomes.get(request) === undefined);
    // This answer has brought the server's time, so that the request can be sent again with a limit.
    if (late.length > 0) for (const [request, outcome] of inPairs(late, await this.send(late, true))) outcomes.set(request, outcome);
    return requests.map((request) => outcomes.get(request) ?? { kind: 'lost' });
  }

  /** The outcomes of one command; undefined for a request that came too late and that was not sent again yet. Never rejects. */
  private async answersTo(requests: readonly LeaseRequest[], isRepeated: boolean): Promise<readonly (RenewOutcome | undefined)[]> {
    const { runner, trust, keys, memories } = this.parts;
    const { connection } = memories;
    try {
      return await runner.run(this.callFor(requests), (reply, sentAt, receivedAt) => {
        const told = listOf(reply);
        trust.observe(keys.groupOf(requests[0]!.key), { sentAt, receivedAt, serverNow: readBringBackHead(told).now });
        return requests.map((request, n) => {
          const news = readBringBack(told, bringBackHeadSize + bringBackSize * n);
          return news.kind === 'late' && !isRepeated ? undefined : this.outcomeOf(request, news, sentAt, connection);
        });
      });
    } catch (error) {
      return this.unanswered(requests, error);
    }
  }

  private callFor(requests: readonly LeaseRequest[]): ScriptCall {
    const keys: string[] = [];
    const args: ScriptArgument[] = [];
    for (const request of requests) addBringBack(keys, args, this.parts.keys.spotOf(request.key), this.argsOf(request));
    const timeoutMs = Math.min(this.parts.timeoutMs, Math.min(...requests.map(({ leaseMs }) => leaseMs)) / 3);
    // The script is sent as text: sent by its hash to a server that does not know it, it would be repeated behind later releases.
    return { script: bringBack, key: onlyKeyOf(requests), keys, args, timeoutMs, inOrder: true };
  }

  /** What is known of leases whose call failed. Those of a slot that is being moved are asked for one by one. */
  private async unanswered(requests: readonly LeaseRequest[], error: unknown): Promise<readonly RenewOutcome[]> {
    const { node, clock, timeoutMs } = this.parts;
    const isMoving = isTryAgain(error);
    if (requests.length > 1 && isMoving) return (await Promise.all(requests.map((one) => this.send([one])))).flat();
    const kept = isMoving ? await this.renewedWhereItIs(requests[0]!) : undefined;
    if (kept !== undefined) return [kept];
    const cause = storeFailure(error, { what: 'bring-back', key: onlyKeyOf(requests), node });
    const lateUntil = clock.now() + timeoutMs;
    return requests.map(() => ({ kind: 'unknown', cause, lateUntil }));
  }

  /**
   * Renews a lease whose slot is being moved, if it is there: a half-moved slot takes no script on several keys. The memory of the slot
   * group may be that of one side, and the lease on the other. So the lease is brought back when the slot is whole, if it must be.
   */
  private async renewedWhereItIs(request: LeaseRequest): Promise<RenewOutcome | undefined> {
    const [outcome] = await this.parts.renewals.renew([{ ...request, minReplicas: 0 }]);
    return outcome?.kind === 'renewed' ? { ...outcome, memory: undefined } : undefined;
  }

  private argsOf({ key, id, leaseMs, graceMs = 0, held }: LeaseRequest): BringBackArgs {
    const { clock, trust, keys, maxLeaseMs, recoveryMs, timeoutMs } = this.parts;
    const now = clock.now();
    const { trustedUntil, firstFence, fences, minHoldUntil, memory, label, ticketId } = held;
    // The limit is not later than the timeout of the answer, so that a release, which waits until then, comes last (lateUntil).
    const notAfter = trust.clock.before(trust.sourceOf(keys.groupOf(key)), Math.min(trustedUntil, now + timeoutMs), now) || LONG_AGO;
    const minHoldMs = Math.max(0, Math.ceil(minHoldUntil - now));
    return {
      id, ...sharing(held), notAfter, leaseMs: Math.floor(leaseMs), fence: firstFence, fences, minHoldMs, graceMs,
      longestMs: maxLeaseMs, recoveryMs, known: memory, ticketId, label,
    };
  }

  private outcomeOf({ key, id, held }: LeaseRequest, news: BringBackReply, sentAt: number, connection: number): RenewOutcome {
    const { recovery, keys, releases } = this.parts;
    switch (news.kind) {
      case 'held':
        // In a Cluster a request may be sent again, and reach the node behind the release of its lease. If this fails, the lease ends by itself.
        if (held.isReleased) void releases.release({ key, id }).catch(() => undefined);
        if (news.memory !== held.memory) recovery.broughtBack += 1;
        recovery.compare(keys.groupOf(key), news.memory, connection);
        return { kind: 'renewed', trustedUntil: trustOf(news.leftMs, sentAt), contended: news.contended, memory: news.memory };
      case 'lost':
        return { kind: 'lost' };
      case 'late':
        return this.failed(key, 'it came after the end of the lease');
      case 'refused':
        return this.failed(key, news.words);
    }
  }

  private failed(key: string, words: string): RenewOutcome {
    return failedLock(words, 'bring-back', this.parts.node, this.parts.keys.spotOf(key));
  }
}
