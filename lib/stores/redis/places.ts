/**
 * The places that this process has in the queues of one Redis, the heartbeats that keep them, and the messages of their grants.
 *
 *     expected ──▶ waiting ──▶ granted (by message, heartbeat or answer) | gone | released
 *
 * The message of a grant can arrive before the answer that gave the place; it is kept until that answer. An entry is removed by the
 * grant, by the release, or by an answer that gives no place.
 */
import type { AcquireRequest, HeartbeatOutcome, HolderRef, Wake } from '../../core/port/lock-store.js';
import { listOf } from '../wire/lock-reply.js';
import {
  addHeartbeat, heartbeat, heartbeatHeadSize, heartbeatSize, readHeartbeat, readHeartbeatHead, type HeartbeatReply, type ScriptArgument,
} from '../wire/lua.generated.js';
import type { LockSpot } from '../wire/redis-keys.js';
import type { Exchange } from '../wire/server-clock.js';
import { failedLock, storeFailure } from '../wire/store-failure.js';
import { grantedAt, type PushedGrant } from '../wire/wake-channel.js';
import type { Acquiring } from './acquiring.js';
import { inBatches } from './renewals.js';
import type { ServerView } from './server-view.js';

export class Place {
  /** Whether the request was answered, so that the place waits: a message of its grant is believed from then on. */
  private isAnswered = false;

  constructor(
    readonly request: AcquireRequest,
    readonly group: number,
    /** The highest fence that was known when the place was first asked for. The fence of its grant must be greater. */
    readonly floor: number,
    /** The message of its grant, if that came before the answer. */
    private early?: PushedGrant,
  ) {}

  /** Notes the message of its grant. Returns whether that is to be judged now; else the place keeps it for the answer. */
  messageCame(push: PushedGrant): boolean {
    if (!this.isAnswered) this.early = push;
    return this.isAnswered;
  }

  /** Notes the answer that gave the place. Returns the message of its grant, if that came before. */
  answerCame(): PushedGrant | undefined {
    this.isAnswered = true;
    return this.early;
  }
}

export class Places {
  /** How many there are: mostly none, and then there is nothing to look up. Only this object writes it. */
  count = 0;
  private readonly places = new Map<string, Place>();

  /** Adds the place of a request that the store has put into its queue. `early` is a message that came before the place was known. */
  add(request: AcquireRequest, group: number, floor: number, early?: PushedGrant): Place {
    return this.put(new Place(request, group, floor, early));
  }

  /** Notes that a request asks again: its place keeps its floor, and messages wait for the answer. Undefined when it has no place. */
  askAgain(request: AcquireRequest): Place | undefined {
    const known = this.places.get(request.id);
    if (known === undefined) return undefined;
    return this.put(new Place(request, known.group, known.floor));
  }

  get(id: string): Place | undefined {
    return this.places.get(id);
  }

  /** Whether this is still the place of its id: a later request may have replaced it, or a release removed it. */
  has(place: Place): boolean {
    return this.places.get(place.request.id) === place;
  }

  forget(place: Place): void {
    if (this.has(place)) this.drop(place.request.id);
  }

  /** Removes the place of an id that is released, or was told to be gone. */
  drop(id: string): void {
    this.places.delete(id);
    this.count = this.places.size;
  }

  all(): readonly Place[] {
    return [...this.places.values()];
  }

  private put(place: Place): Place {
    this.places.set(place.request.id, place);
    this.count = this.places.size;
    return place;
  }
}

/** How many waiters one command has at most. Each costs the server about 5 µs. */
const MAX_HEARTBEATS_TOGETHER = 100;

/** The heartbeats of waiters, in as few commands as the topology allows. They keep places in queues and return grants whose message was lost. */
export class Heartbeats {
  constructor(
    private readonly server: ServerView,
    /** Called when a heartbeat brought a grant whose message has not come. */
    private readonly missed: (id: string) => void,
  ) {}

  /** Sends a heartbeat for each waiter. The outcomes are in the order of the waiters; never rejects. */
  heartbeat(waiters: readonly HolderRef[]): Promise<readonly HeartbeatOutcome[]> {
    const { keys, trust } = this.server;
    return inBatches(waiters, ({ key }) => trust.sourceOf(keys.groupOf(key)), MAX_HEARTBEATS_TOGETHER, (batch) => this.send(batch));
  }

  private async send(batch: readonly HolderRef[]): Promise<readonly HeartbeatOutcome[]> {
    const { runner, keys, trust, memories, node, recoveryMs } = this.server;
    const waiters = batch.map(({ id, key }) => ({ id, spot: keys.spotOf(key) }));
    const key = waiters.length === 1 ? waiters[0]!.spot.key : undefined;
    const redisKeys: string[] = [];
    const args: ScriptArgument[] = [];
    for (const { id, spot } of waiters) addHeartbeat(redisKeys, args, spot, {
      id, floor: trust.floors.of(spot.group), recoveryMs, known: memories.of(spot.group),
    });
    const call = { script: heartbeat, key, keys: redisKeys, args };
    try {
      return await runner.run(call, (reply, sentAt, receivedAt) => {
        const told = listOf(reply);
        const exchange: Exchange = { sentAt, receivedAt, serverNow: readHeartbeatHead(told).now };
        trust.observe(waiters[0]!.spot.group, exchange);
        return waiters.map(({ id, spot }, n) => this.outcomeOf(id, spot, readHeartbeat(told, heartbeatHeadSize + heartbeatSize * n), exchange));
      });
    } catch (error) {
      const cause = storeFailure(error, { what: 'heartbeat', key, node });
      return batch.map(() => ({ kind: 'unknown', cause }));
    }
  }

  private outcomeOf(id: string, spot: LockSpot, told: HeartbeatReply, exchange: Exchange): HeartbeatOutcome {
    const { places, trust, memories, toldHolds, node } = this.server;
    if (told.kind === 'refused') return failedLock(told.words, 'heartbeat', node, spot);
    if (told.kind === 'waiting') toldHolds.note(spot.key, told.holds, exchange.receivedAt);
    if (told.kind === 'waiting') return { kind: 'waiting', askAgainInMs: told.leftMs < 0 ? undefined : told.leftMs };
    const place = places.get(id);
    if (told.kind === 'gone') {
      places.drop(id);
      return { kind: 'gone' };
    }
    if (place !== undefined) this.missed(id);
    // The grant needs more than this answer: acknowledgements of replicas, or a higher fence. An acquire of the same id gets them.
    if (place !== undefined && (place.request.minReplicas > 0 || told.fence <= place.floor)) return { kind: 'waiting', askAgainInMs: 0 };
    places.drop(id);
    toldHolds.forget(spot.key);
    return { kind: 'granted', grant: trust.answered(spot.group, told, exchange, memories.knownOf(spot.group)) };
  }
}

/**
 * Judges the grants that come as messages. A grant of a place becomes a lease when its message is enough to trust it, and else its waiter
 * asks. A grant that came before the answer to its request is kept for that answer. A grant to nobody is given back.
 */
export class PushedGrants {
  constructor(
    private readonly server: ServerView,
    private readonly acquiring: Acquiring,
    private readonly tell: (wake: Wake) => void,
  ) {}

  /** Called with each message of a grant. */
  came(push: PushedGrant): void {
    const { places, trust, memories, toldHolds, clock } = this.server;
    const { key, id } = push;
    const place = places.get(id);
    if (place === undefined) {
      const underway = this.acquiring.underway(id);
      if (underway !== undefined) return underway.messageCame(push);
      // Only an id of this process is released, whatever a message says.
      if (id.startsWith(`${this.server.process}.`)) this.tell({ kind: 'stray', key, id });
      return;
    }
    if (!place.messageCame(push)) return;
    const grant = trust.pushed(place, push, clock.now(), memories.madeBy(place.group, grantedAt(push)));
    if (grant === undefined) return this.tell({ kind: 'ask', key, id });
    places.forget(place);
    toldHolds.forget(key);
    this.tell({ kind: 'granted', key, id, grant });
  }
}
