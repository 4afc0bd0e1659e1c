/**
 * Hands holds to tickets and makes leases of tickets, on one Redis, Sentinel or Cluster. On one server one script does it for all locks
 * of a ticket. In a Cluster the locks are on several nodes: one script for each lock, one after another, so that of two processes
 * that bring the same ticket only that which has the first lock goes on.
 */
import type { Clock } from '../../core/port/clock.js';
import { lateError } from '../../core/port/hold-errors.js';
import type { AdoptedHold, AdoptOutcome, AdoptRequest, HandOffOutcome, HandOffRequest, TicketStore } from '../../core/port/ticket-store.js';
import { inTime, type Timed } from '../wire/in-time.js';
import { listOf, recoveringError } from '../wire/lock-reply.js';
import {
  adoptCall, adoptHeadSize, adoptHoldSize, handOffCall, readAdoptHead, readAdoptHold, readHandOff, type AdoptHead, type ReplyItems,
} from '../wire/lua.generated.js';
import type { ScriptRunner } from '../wire/script-runner.js';
import type { Exchange } from '../wire/server-clock.js';
import { unexpected } from '../wire/unexpected-reply.js';
import type { Memories } from './memories.js';
import type { Renewals } from './renewals.js';
import type { Spot, Spots } from './spots.js';
import type { Trust } from './trust.js';

export interface TicketParts {
  readonly runner: ScriptRunner;
  readonly spots: Spots;
  readonly trust: Trust;
  readonly memories: Memories;
  readonly clock: Clock;
  readonly isCluster: boolean;
  readonly prefix: string;
  readonly maxLeaseMs: number;
  readonly recoveryMs: number;
  readonly renewals: Renewals;
  readonly node: string;
}

export class RedisTickets implements TicketStore {
  readonly home: string;

  constructor(private readonly parts: TicketParts) {
    this.home = `redis ${parts.prefix}`;
  }

  async handOff(request: HandOffRequest): Promise<HandOffOutcome> {
    let until = Infinity;
    const memory = this.parts.memories.knownOf(this.parts.spots.of(request.holds[0]!.key).group);
    for (const holds of this.together(request.holds)) {
      const outcome = await this.handOffSome({ ...request, holds });
      if (outcome.kind === 'lost') return outcome;
      until = Math.min(until, outcome.until);
    }
    return { kind: 'handedOff', until, memory };
  }

  async adopt(request: AdoptRequest): Promise<AdoptOutcome> {
    const adopted: AdoptedHold[] = [];
    const parts = this.together(request.holds);
    // Each server has a clock of its own, and the ticket names one end.
    const until = parts.length > 1 ? Number.MAX_SAFE_INTEGER : request.until;
    for (const holds of parts) {
      const outcome = await this.adoptSome({ ...request, until, holds });
      if (outcome.kind !== 'adopted') return outcome;
      adopted.push(...outcome.holds);
    }
    return { kind: 'adopted', holds: request.minReplicas > 0 ? await this.acknowledged(request, adopted) : adopted };
  }

  /** Which holds one script may look at. */
  private together<H>(holds: readonly H[]): readonly (readonly H[])[] {
    return this.parts.isCluster ? holds.map((hold) => [hold]) : [holds];
  }

  private handOffSome({ ticketId, withinMs, holds, notAfter }: HandOffRequest): Promise<HandOffOutcome> {
    const { runner, spots, trust } = this.parts;
    const { key } = holds[0]!;
    const spotsOfHolds = holds.map((hold) => spots.of(hold.key));
    return inTime<HandOffOutcome>(this.timed(key, notAfter, spotsOfHolds), (limit) => {
      const call = handOffCall({ keys: spotsOfHolds }, { ticketId, withinMs, notAfter: limit, holds });
      return runner.run<HandOffOutcome | 'late'>({ ...call, key }, (reply, sentAt, receivedAt) => {
        const told = readHandOff(listOf(reply));
        trust.clock.observe(spotsOfHolds[0]!.source, { sentAt, receivedAt, serverNow: told.now });
        switch (told.kind) {
          case 'handed off':
            return { kind: 'handedOff', until: told.until };
          case 'lost':
            return { kind: 'lost', key: holds[told.position - 1]!.key };
          case 'late':
            return 'late';
        }
      });
    });
  }

  private adoptSome(request: AdoptRequest): Promise<AdoptOutcome> {
    const spotsOfHolds = request.holds.map(({ key }) => this.parts.spots.of(key));
    return inTime<AdoptOutcome>(this.timed(request.holds[0]!.key, request.notAfter, spotsOfHolds), (limit) => this.askToAdopt(request, spotsOfHolds, limit));
  }

  /** The server of these locks, which must do nothing after the local instant `notAfter`. */
  private timed(key: string, notAfter: number, spotsOfHolds: readonly Spot[]): Timed {
    const { clock, trust, node } = this.parts;
    return { key, notAfter, clock, serverClock: trust.clock, source: spotsOfHolds[0]!.source, node };
  }

  private askToAdopt(request: AdoptRequest, spotsOfHolds: readonly Spot[], notAfter: number): Promise<AdoptOutcome | 'late'> {
    const { runner, trust, memories, maxLeaseMs, recoveryMs } = this.parts;
    const { ticketId, until, leaseMs, graceMs, label } = request;
    const { key } = request.holds[0]!;
    const known = spotsOfHolds.map(({ group }) => memories.of(group));
    const holds = request.holds.map(({ id }, n) => ({ id, floor: trust.floors.of(spotsOfHolds[n]!.group), known: known[n]! }));
    const limits = { ticketEnd: until, notAfter, longestMs: maxLeaseMs, recoveryMs };
    const asked = { ...limits, ticketId, leaseMs: Math.floor(leaseMs), graceMs, label, holds };
    const call = adoptCall({ keys: spotsOfHolds }, asked);
    return runner.run({ ...call, key }, (reply, sentAt, receivedAt) => {
      const told = listOf(reply);
      const head = readAdoptHead(told);
      const exchange = { sentAt, receivedAt, serverNow: head.now };
      const outcome = this.outcomeOf(request, head, told, spotsOfHolds, exchange);
      trust.clock.observe(spotsOfHolds[0]!.source, exchange);
      return outcome;
    });
  }

  private outcomeOf({ holds }: AdoptRequest, head: AdoptHead, told: ReplyItems, spotsOfHolds: readonly Spot[], exchange: Exchange): AdoptOutcome | 'late' {
    const { now, detail, memory } = head;
    const { key } = holds[0]!;
    switch (head.outcome) {
      case 'adopted':
        if (told.length !== adoptHeadSize + adoptHoldSize * holds.length) throw unexpected(told);
        return { kind: 'adopted', holds: spotsOfHolds.map(({ group }, n) => this.adoptedHold(group, told, adoptHeadSize + adoptHoldSize * n, exchange)) };
      case 'gone':
        return { kind: 'gone', key: holds[detail - 1]!.key, now, memory };
      case 'recovering':
        return { kind: 'recovering', retryInMs: detail, cause: recoveringError(key, this.parts.node, detail) };
      case 'late':
        return 'late';
      default:
        throw unexpected(told);
    }
  }

  private adoptedHold(group: number, told: ReplyItems, at: number, exchange: Exchange): AdoptedHold {
    const { owner, permits, minHoldMs, memory, ...granted } = readAdoptHold(told, at);
    return { grant: this.parts.trust.answered(group, { ...granted, fences: 1 }, exchange, memory), owner, permits: permits || undefined, minHoldMs };
  }

  /** An adoption that counts only when replicas have it is confirmed by a renewal, which waits for them. */
  private async acknowledged({ holds, leaseMs, graceMs, minReplicas }: AdoptRequest, adopted: readonly AdoptedHold[]): Promise<AdoptedHold[]> {
    const outcomes = await this.parts.renewals.renew(holds.map(({ key, id }) => ({ key, id, leaseMs, graceMs, minReplicas })));
    return adopted.map((hold, n) => {
      const outcome = outcomes[n]!;
      if (outcome.kind === 'unknown') throw outcome.cause;
      if (outcome.kind === 'lost') throw lateError(holds[n]!.key, this.parts.node);
      const { trustedUntil, contended } = outcome;
      return { ...hold, grant: { ...hold.grant, trustedUntil, contended } };
    });
  }
}
