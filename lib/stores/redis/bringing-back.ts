/**
 * Leases that the server does not find: where it has forgotten them they are brought back, each under its id and fence, if the
 * lock is free. Only the script that looks at the server's memory tells a loss.
 */
import type { HeldLease, RenewOutcome, RenewRequest } from '../../core/port/lock-store.js';
import type { Clock } from '../../core/port/clock.js';
import { batchesOf } from '../wire/batches.js';
import { listOf, toField } from '../wire/lock-reply.js';
import { bringBack } from '../wire/lua.generated.js';
import type { RedisKeys } from '../wire/redis-keys.js';
import type { ScriptRunner } from '../wire/script-runner.js';
import { trustOf } from '../wire/server-clock.js';
import { isTryAgain, storeFailure } from '../wire/store-failure.js';
import type { Trust } from './trust.js';

/** A lease that comes back costs the server about 15 µs. */
const BATCH = 100;
/** What bring-back.lua tells of each lease. */
const STRIDE = 4;
const LOST = 0;
const HELD = 1;
const LATE = 2;
/** Nobody knows the server's time: the request comes too late and does nothing but tell it. */
const LONG_AGO = 1;

export interface BringingBackParts {
  readonly runner: ScriptRunner;
  readonly keys: RedisKeys;
  readonly trust: Trust;
  readonly clock: Clock;
  readonly node: string;
  readonly maxLeaseMs: number;
  readonly recoveryMs: number;
  readonly timeoutMs: number;
  /** What may share a command. */
  sourceOf(group: number): number;
}

/** A renewal that says what the lease is. */
export type LeaseRequest = RenewRequest & { readonly held: HeldLease };

export function saysWhatItIs(request: RenewRequest): request is LeaseRequest {
  return request.held !== undefined;
}

export class BringingBack {
  constructor(private readonly parts: BringingBackParts) {}

  /** Answers in the order of the requests; never rejects. */
  async bringBack(requests: readonly LeaseRequest[]): Promise<readonly RenewOutcome[]> {
    const { keys, sourceOf } = this.parts;
    const outcomes: RenewOutcome[] = new Array(requests.length);
    const batches = batchesOf(requests, ({ key }) => sourceOf(keys.groupOf(key)), BATCH);
    await Promise.all(batches.map((batch) => this.one(requests, batch, outcomes)));
    return outcomes;
  }

  private async one(all: readonly LeaseRequest[], batch: readonly number[], outcomes: RenewOutcome[], isRepeated = false): Promise<void> {
    const { runner, trust, keys, node, timeoutMs } = this.parts;
    const requests = batch.map((position) => all[position]!);
    const { key } = requests[0]!;
    const call = {
      script: bringBack,
      key: requests.length === 1 ? key : undefined,
      keys: requests.flatMap((request) => keys.all(keys.groupOf(request.key), request.key)),
      args: requests.flatMap((request) => [request.id, this.termsOf(request)]),
      timeoutMs: Math.min(timeoutMs, Math.min(...requests.map(({ leaseMs }) => leaseMs)) / 3),
    };
    const late: number[] = [];
    try {
      await runner.run(call, (reply, sentAt, receivedAt) => {
        const [serverNow, ...told] = listOf(reply);
        trust.observe(keys.groupOf(key), { sentAt, receivedAt, serverNow: Number(serverNow) });
        batch.forEach((position, n) => {
          const news = told.slice(STRIDE * n, STRIDE * (n + 1));
          if (Number(news[0]) === LATE && !isRepeated) late.push(position);
          else outcomes[position] = this.outcomeOf(requests[n]!, news, sentAt);
        });
      });
    } catch (error) {
      if (batch.length > 1 && isTryAgain(error)) return void (await Promise.all(batch.map((position) => this.one(all, [position], outcomes))));
      const cause = storeFailure(error, { what: 'bring-back', key: call.key, node });
      for (const position of batch) outcomes[position] = { kind: 'unknown', cause };
    }
    // The server's time is known by now.
    if (late.length > 0) await this.one(all, late, outcomes, true);
  }

  private termsOf({ key, leaseMs, held }: LeaseRequest): string {
    const { clock, trust, keys, maxLeaseMs, recoveryMs } = this.parts;
    const now = clock.now();
    const { mode, trustedUntil, firstFence, fences, minHoldUntil, memory, owner, label } = held;
    const notAfter = trust.limit(keys.groupOf(key), trustedUntil, now) || LONG_AGO;
    const minHoldMs = Math.max(0, Math.ceil(minHoldUntil - now));
    const terms = [notAfter, Math.floor(leaseMs), firstFence, fences, minHoldMs, maxLeaseMs, recoveryMs, memory ?? '-', toField(owner), toField(label)];
    return `${mode === 'write' ? 'w' : 'r'} ${terms.join(' ')}`;
  }

  private outcomeOf({ key }: LeaseRequest, [code, second, contended, memory]: readonly (string | number)[], sentAt: number): RenewOutcome {
    const { node, keys } = this.parts;
    switch (Number(code)) {
      case HELD:
        return { kind: 'renewed', trustedUntil: trustOf(Number(second), sentAt), contended: contended === 1, memory: String(memory) };
      case LOST:
        return { kind: 'lost' };
      default: {
        const redisKeys = keys.all(keys.groupOf(key), key);
        const words = Number(code) === LATE ? 'it came after the end of the lease' : String(second);
        return { kind: 'unknown', cause: storeFailure(new Error(words), { what: 'bring-back', key, node, redisKeys }) };
      }
    }
  }
}
