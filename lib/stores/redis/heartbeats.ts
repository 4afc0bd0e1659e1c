/**
 * Sends the heartbeats of waiters to one Redis, in as few commands as the topology allows. They keep places in queues and return
 * grants whose message was lost.
 */
import type { HeartbeatOutcome, HolderRef } from '../../core/port/lock-store.js';
import { batchesOf } from '../wire/batches.js';
import { grantAt, listOf, numbersOf } from '../wire/lock-reply.js';
import { heartbeat } from '../wire/lua.generated.js';
import type { Places } from './places.js';
import type { RedisKeys } from '../wire/redis-keys.js';
import type { ScriptRunner } from '../wire/script-runner.js';
import type { Exchange } from '../wire/server-clock.js';
import { storeFailure } from '../wire/store-failure.js';
import type { Trust } from './trust.js';

/** How many waiters one command has at most. Each costs the server about 5 µs. */
const BATCH = 100;
/** How many values a reply has for each waiter. */
const STRIDE = 6;
/** The code of heartbeat.lua for a waiter whose Redis keys the server refused. */
const REFUSED = 3;

export interface HeartbeatsParts {
  readonly runner: ScriptRunner;
  readonly keys: RedisKeys;
  readonly places: Places;
  readonly trust: Trust;
  readonly node: string;
  readonly maxLeaseMs: number;
  /** A number for each slot group: waiters whose groups have the same number can share a command. */
  sourceOf(group: number): number;
  /** Called when a heartbeat brought a grant whose message has not come. */
  missed(id: string): void;
}

export class Heartbeats {
  constructor(private readonly parts: HeartbeatsParts) {}

  /** Sends a heartbeat for each waiter. The outcomes are in the order of the waiters; never rejects. */
  async heartbeat(waiters: readonly HolderRef[]): Promise<readonly HeartbeatOutcome[]> {
    const { keys, sourceOf } = this.parts;
    const outcomes: HeartbeatOutcome[] = new Array(waiters.length);
    const batches = batchesOf(waiters, ({ key }) => sourceOf(keys.groupOf(key)), BATCH);
    await Promise.all(batches.map((batch) => this.one(waiters, batch, outcomes)));
    return outcomes;
  }

  private async one(all: readonly HolderRef[], batch: readonly number[], outcomes: HeartbeatOutcome[]): Promise<void> {
    const { runner, keys, trust, node, maxLeaseMs } = this.parts;
    const waiters = batch.map((position) => ({ ...(all[position] as HolderRef), group: keys.groupOf((all[position] as HolderRef).key) }));
    const key = waiters.length === 1 ? waiters[0]?.key : undefined;
    const call = {
      script: heartbeat,
      key,
      keys: waiters.flatMap((waiter) => keys.all(waiter.group, waiter.key)),
      args: waiters.flatMap(({ id, group }) => [id, trust.floors.of(group), maxLeaseMs]),
    };
    try {
      await runner.run(call, (reply, sentAt, receivedAt) => {
        const told = listOf(reply);
        const numbers = numbersOf(reply);
        const exchange: Exchange = { sentAt, receivedAt, serverNow: numbers[0] ?? 0 };
        trust.observe(waiters[0]?.group ?? 0, exchange);
        waiters.forEach((waiter, n) => {
          const at = 1 + STRIDE * n;
          const refused = numbers[at] === REFUSED;
          outcomes[batch[n] as number] = refused ? this.refused(waiter, String(told[at + 1])) : this.outcomeOf(waiter.id, waiter.group, numbers, at, exchange);
        });
      });
    } catch (error) {
      const cause = storeFailure(error, { what: 'heartbeat', key, node });
      for (const position of batch) outcomes[position] = { kind: 'unknown', cause };
    }
  }

  private refused({ key, group }: HolderRef & { readonly group: number }, words: string): HeartbeatOutcome {
    const { keys, node } = this.parts;
    return { kind: 'unknown', cause: storeFailure(new Error(words), { what: 'heartbeat', key, node, redisKeys: keys.all(group, key) }) };
  }

  private outcomeOf(id: string, group: number, reply: readonly number[], at: number, exchange: Exchange): HeartbeatOutcome {
    const { places, trust, missed } = this.parts;
    const [code, askAgainInMs = -1] = reply.slice(at, at + 2);
    if (code === 2) return { kind: 'waiting', askAgainInMs: askAgainInMs < 0 ? undefined : askAgainInMs };
    const place = places.get(id);
    if (code !== 1) {
      places.release(id);
      return { kind: 'gone' };
    }
    if (place !== undefined) missed(id);
    const grant = grantAt(reply, at + 1);
    // The grant needs more than this answer: acknowledgements of replicas, or a higher fence. An acquire of the same id gets them.
    if (place !== undefined && (place.request.minReplicas > 0 || grant.fence <= place.floor)) return { kind: 'waiting', askAgainInMs: 0 };
    places.release(id);
    return { kind: 'granted', grant: trust.answered(group, grant, exchange) };
  }
}
