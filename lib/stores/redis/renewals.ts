/**
 * Renews leases on one Redis in as few commands as the topology allows: one command for leases of like length, in a Cluster one
 * for each slot group of them, and one for each lock while its slot is being moved. Renewals that replicas must acknowledge are
 * gathered for a connection of their own.
 */
import type { LockStoreError } from '../../core/port/errors.js';
import { likeLength, type RenewOutcome, type RenewRequest } from '../../core/port/lock-store.js';
import { listOf, MAX_RENEWED_TOGETHER, renewOutcomes, runsOf } from '../wire/lock-reply.js';
import { readRenewHead, renewCall } from '../wire/lua.generated.js';
import type { ScriptCall, ScriptReply } from '../wire/script-runner.js';
import { trustOf } from '../wire/server-clock.js';
import { isTryAgain, storeFailure, failedLock } from '../wire/store-failure.js';
import type { ServerView } from './server-view.js';

/** How many commands are out to a server at most: enough to keep it busy. */
const MAX_COMMANDS_OUT = 16;

export class Renewals {
  private readonly plain = new Limiter<RenewRequest, RenewOutcome>(MAX_COMMANDS_OUT, 0, (requests) => this.run(requests));
  /** A connection that waits for replicas can do nothing else meanwhile, so each of these waits for the replicas at most twice. */
  private readonly acknowledged = new Limiter<RenewRequest, RenewOutcome>(1, MAX_RENEWED_TOGETHER, (requests) => this.runAcknowledged(requests));

  constructor(private readonly server: ServerView) {}

  /** Renews leases. The outcomes are in the order of the requests; never rejects. */
  renew(requests: readonly RenewRequest[]): Promise<readonly RenewOutcome[]> {
    return inBatches(requests, (request) => this.togetherOf(request), MAX_RENEWED_TOGETHER, (batch) => this.send(batch));
  }

  private sourceOf({ key }: RenewRequest): number {
    return this.server.trust.sourceOf(this.server.keys.groupOf(key));
  }

  private togetherOf(request: RenewRequest): string {
    return `${this.sourceOf(request)} ${request.minReplicas} ${likeLength(request.leaseMs)}`;
  }

  /** Sends requests that may share a command and agree on minReplicas. Never rejects. */
  private async send(requests: readonly RenewRequest[]): Promise<readonly RenewOutcome[]> {
    const [first] = requests as readonly [RenewRequest];
    try {
      return await (first.minReplicas > 0 ? this.acknowledged.run(this.togetherOf(first), requests) : this.plain.run(this.sourceOf(first), requests));
    } catch (error) {
      if (requests.length > 1 && isTryAgain(error)) return (await Promise.all(requests.map((one) => this.send([one])))).flat();
      const cause = this.failure(error, first.key);
      return requests.map(() => ({ kind: 'unknown', cause }));
    }
  }

  private run(requests: readonly RenewRequest[]): Promise<readonly RenewOutcome[]> {
    const { runner, keys, trust, memories } = this.server;
    const [{ key }] = requests as readonly [RenewRequest];
    const known = requests.map((request) => memories.knownOf(keys.groupOf(request.key)));
    return runner.run(this.callFor(requests), (reply, sentAt, receivedAt) => {
      trust.observe(keys.groupOf(key), { sentAt, receivedAt, serverNow: readRenewHead(listOf(reply)).now });
      const outcomes = this.outcomesOf(reply, requests, sentAt);
      return outcomes.map((outcome, n) => (outcome.kind === 'renewed' ? { ...outcome, memory: known[n] } : outcome));
    });
  }

  /** What the server does not know is lost, however many replicas acknowledged it: then nothing was written. */
  private runAcknowledged(requests: readonly RenewRequest[]): Promise<readonly RenewOutcome[]> {
    const [{ key, minReplicas }] = requests as readonly [RenewRequest];
    return this.server.runner.runAcknowledged(this.callFor(requests), minReplicas, (reply, acknowledged, sentAt) => {
      const outcomes = this.outcomesOf(reply, requests, sentAt);
      if (acknowledged >= minReplicas) return outcomes;
      const cause = this.failure(new Error(`only ${acknowledged} of ${minReplicas} replicas acknowledged`), key);
      return outcomes.map((outcome): RenewOutcome => (outcome.kind === 'renewed' ? { kind: 'unknown', cause } : outcome));
    });
  }

  private callFor(requests: readonly RenewRequest[]): ScriptCall {
    const { keys, timeoutMs } = this.server;
    const shortestMs = Math.min(...requests.map(({ leaseMs }) => leaseMs));
    const lockKeys = requests.map(({ key }) => keys.lock(key));
    return {
      ...renewCall({ lockKeys }, { runs: runsOf(requests) }),
      key: requests.length === 1 ? requests[0]?.key : undefined,
      // The deadline leaves time for another try before the shortest lease ends. All leases of a command are of like length.
      timeoutMs: Math.min(timeoutMs, shortestMs / 3),
    };
  }

  private outcomesOf(reply: ScriptReply, requests: readonly RenewRequest[], sentAt: number): RenewOutcome[] {
    const { keys, node } = this.server;
    return renewOutcomes<RenewRequest, RenewOutcome>(
      reply,
      requests,
      (leftMs, contended) => (leftMs < 0 ? { kind: 'lost' } : { kind: 'renewed', trustedUntil: trustOf(leftMs, sentAt), contended }),
      (words, { key }) => failedLock(words, 'renew', node, { key, lockKey: keys.lock(key) }),
    );
  }

  private failure(error: unknown, key: string | undefined): LockStoreError {
    return storeFailure(error, { what: 'renew', key, node: this.server.node });
  }
}

interface Limited<T, R> {
  readonly items: readonly T[];
  readonly resolve: (outcomes: readonly R[]) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Lets only a few commands wait for their answers at a time, for each server. A process that holds a hundred thousand leases sends
 * hundreds of commands after a new connection. Sent all at once, the last of them would wait longer than their timeout for the
 * first, and be sent again while the server still works on what nobody awaits any more. What waits meanwhile may share a command.
 */
export class Limiter<T, R> {
  /** The commands that are out under a name, and the calls that wait for one of their own. An entry exists while a command is out. */
  private readonly lines = new Map<unknown, { out: number; readonly waiting: Limited<T, R>[] }>();

  constructor(
    private readonly most: number,
    /** How many items of several calls may share a command; 0 when each call has its own. The items of one call always go together. */
    private readonly together: number,
    private readonly send: (items: readonly T[]) => Promise<readonly R[]>,
  ) {}

  /** The outcomes of these items, in their order. `name`: of the server, and of what may share a command. Rejects as `send` does. */
  run(name: unknown, items: readonly T[]): Promise<readonly R[]> {
    return new Promise((resolve, reject) => {
      const line = this.lines.get(name) ?? { out: 0, waiting: [] };
      line.waiting.push({ items, resolve, reject });
      if (line.out === this.most) return;
      line.out += 1;
      this.lines.set(name, line);
      const start = (): void => void this.sendAll(line.waiting).then(() => --line.out === 0 && this.lines.delete(name));
      // The calls of this turn of the event loop go together already.
      if (this.together > 0) process.nextTick(start);
      else start();
    });
  }

  private async sendAll(waiting: Limited<T, R>[]): Promise<void> {
    while (waiting.length > 0) await this.sendSome(waiting.splice(0, this.fitting(waiting)));
  }

  /** How many of the waiting calls fit into one command: at least one. */
  private fitting(waiting: readonly Limited<T, R>[]): number {
    let size = 0;
    const tooMany = waiting.findIndex(({ items }) => (size += items.length) > this.together);
    return tooMany < 0 ? waiting.length : Math.max(1, tooMany);
  }

  private async sendSome(some: readonly Limited<T, R>[]): Promise<void> {
    try {
      const outcomes = await this.send(some.flatMap(({ items }) => items));
      let at = 0;
      for (const { items, resolve } of some) resolve(outcomes.slice(at, (at += items.length)));
    } catch (error) {
      if (some.length > 1 && isTryAgain(error)) for (const one of some) await this.sendSome([one]);
      else for (const { reject } of some) reject(error);
    }
  }
}

/**
 * Sends a list in batches of at most `limit` items, each of items for which `togetherOf` returns the same, all batches at once. The
 * answers are in the order of the items. Rejects as `send` does.
 */
export async function inBatches<T, R>(
  items: readonly T[],
  togetherOf: (item: T) => unknown,
  limit: number,
  send: (batch: readonly T[]) => Promise<readonly R[]>,
): Promise<R[]> {
  const answers: R[] = new Array(items.length);
  const sendAt = async (positions: readonly number[]): Promise<void> => {
    const told = await send(positions.map((position) => items[position]!));
    positions.forEach((position, n) => (answers[position] = told[n]!));
  };
  await Promise.all(positionsOfBatches(items, togetherOf, limit).map(sendAt));
  return answers;
}

function positionsOfBatches<T>(items: readonly T[], togetherOf: (item: T) => unknown, limit: number): readonly (readonly number[])[] {
  const open = new Map<unknown, number[]>();
  const batches: number[][] = [];
  items.forEach((item, position) => {
    const together = togetherOf(item);
    const batch = open.get(together);
    if (batch !== undefined && batch.length < limit) {
      batch.push(position);
      return;
    }
    const begun = [position];
    open.set(together, begun);
    batches.push(begun);
  });
  return batches;
}
