/**
 * Sends the heartbeats of waiters to one Redis, in as few commands as the topology allows. They keep places in queues and return
 * grants whose message was lost.
 */
import type { HeartbeatOutcome, HolderRef } from '../../core/port/lock-store.js';
import { inBatches } from '../wire/batches.js';
import { listOf } from '../wire/lock-reply.js';
import {
  addHeartbeat, heartbeat, heartbeatHeadSize, heartbeatSize, readHeartbeat, readHeartbeatHead, type HeartbeatReply, type ScriptArgument,
} from '../wire/lua.generated.js';
import { failedLock, storeFailure } from '../wire/store-failure.js';
import type { Memories } from './memories.js';
import type { Places } from './places.js';
import type { ToldHolds } from './told-holds.js';
import type { LockSpot, RedisKeys } from '../wire/redis-keys.js';
import type { ScriptRunner } from '../wire/script-runner.js';
import type { Exchange } from '../wire/server-clock.js';
import type { Trust } from './trust.js';

/** How many waiters one command has at most. Each costs the server about 5 µs. */
const MAX_HEARTBEATS_TOGETHER = 100;

interface HeartbeatParts {
  readonly runner: ScriptRunner;
  readonly keys: RedisKeys;
  readonly places: Places;
  readonly trust: Trust;
  readonly memories: Memories;
  readonly toldHolds: ToldHolds;
  readonly node: string;
  readonly maxLeaseMs: number;
  readonly recoveryMs: number;
  /** Called when a heartbeat brought a grant whose message has not come. */
  missed(id: string): void;
}

export class HeartbeatCommands {
  constructor(private readonly parts: HeartbeatParts) {}

  /** Sends a heartbeat for each waiter. The outcomes are in the order of the waiters; never rejects. */
  heartbeat(waiters: readonly HolderRef[]): Promise<readonly HeartbeatOutcome[]> {
    const { keys, trust } = this.parts;
    return inBatches(waiters, ({ key }) => trust.sourceOf(keys.groupOf(key)), MAX_HEARTBEATS_TOGETHER, (batch) => this.send(batch));
  }

  private async send(batch: readonly HolderRef[]): Promise<readonly HeartbeatOutcome[]> {
    const { runner, keys, trust, memories, node, maxLeaseMs, recoveryMs } = this.parts;
    const waiters = batch.map(({ id, key }) => ({ id, spot: keys.spotOf(key) }));
    const key = waiters.length === 1 ? waiters[0]!.spot.key : undefined;
    const redisKeys: string[] = [];
    const args: ScriptArgument[] = [];
    for (const { id, spot } of waiters) addHeartbeat(redisKeys, args, spot, {
      id, floor: trust.floors.of(spot.group), longestMs: maxLeaseMs, recoveryMs, known: memories.of(spot.group),
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
    const { places, trust, memories, toldHolds, node, missed } = this.parts;
    if (told.kind === 'refused') return failedLock(told.words, 'heartbeat', node, spot);
    if (told.kind === 'waiting') toldHolds.note(spot.key, told.holds, exchange.receivedAt);
    if (told.kind === 'waiting') return { kind: 'waiting', askAgainInMs: told.leftMs < 0 ? undefined : told.leftMs };
    const place = places.get(id);
    if (told.kind === 'gone') {
      places.drop(id);
      return { kind: 'gone' };
    }
    if (place !== undefined) missed(id);
    // The grant needs more than this answer: acknowledgements of replicas, or a higher fence. An acquire of the same id gets them.
    if (place !== undefined && (place.request.minReplicas > 0 || told.fence <= place.floor)) return { kind: 'waiting', askAgainInMs: 0 };
    places.drop(id);
    toldHolds.forget(spot.key);
    return { kind: 'granted', grant: trust.answered(spot.group, told, exchange, memories.knownOf(spot.group)) };
  }
}
