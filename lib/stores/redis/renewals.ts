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
  private readonly few = new FewAtATime(MAX_COMMANDS_OUT);
  private readonly acknowledged = new GatheredRenewals((requests) => this.runAcknowledged(requests), MAX_RENEWED_TOGETHER);

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
      return await (first.minReplicas > 0 ? this.acknowledged.renew(this.togetherOf(first), requests) : this.few.run(this.sourceOf(first), () => this.run(requests)));
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
    const { keys, timeoutMs, maxLeaseMs } = this.server;
    const shortestMs = Math.min(...requests.map(({ leaseMs }) => leaseMs));
    const lockKeys = requests.map(({ key }) => keys.lock(key));
    return {
      ...renewCall({ lockKeys }, { longestMs: maxLeaseMs, runs: runsOf(requests) }),
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

interface Gathered {
  readonly requests: readonly RenewRequest[];
  readonly resolve: (outcomes: readonly RenewOutcome[]) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Gathers renewals that replicas must acknowledge. A connection that waits for replicas can do nothing else meanwhile. So one
 * command is sent at a time, and all renewals that come before its answer are sent together with the next: each waits for the
 * replicas at most twice.
 */
class GatheredRenewals {
  /** The renewals to send next, by the name under which they may share a command. An entry exists while a command is open. */
  private readonly waiting = new Map<string, Gathered[]>();

  /** `send` gets at most `largest` requests, or the requests of one call of {@link renew}, however many they are. */
  constructor(
    private readonly send: (requests: readonly RenewRequest[]) => Promise<readonly RenewOutcome[]>,
    private readonly largest: number,
  ) {}

  /** Renews leases that may share a command with others of the name `together`. Outcomes are in order; rejects as `send` does. */
  renew(together: string, requests: readonly RenewRequest[]): Promise<readonly RenewOutcome[]> {
    return new Promise((resolve, reject) => {
      const one: Gathered = { requests, resolve, reject };
      const waiting = this.waiting.get(together);
      if (waiting !== undefined) return void waiting.push(one);
      this.waiting.set(together, [one]);
      // All renewals of this turn of the event loop go together already.
      process.nextTick(() => void this.sendAll(together));
    });
  }

  private async sendAll(together: string): Promise<void> {
    for (let waiting = this.waiting.get(together); waiting !== undefined && waiting.length > 0; waiting = this.waiting.get(together)) {
      await this.sendSome(waiting.splice(0, this.fitting(waiting)));
    }
    this.waiting.delete(together);
  }

  /** How many of the waiting calls fit into one command: at least one. */
  private fitting(waiting: readonly Gathered[]): number {
    let size = 0;
    const tooMany = waiting.findIndex(({ requests }) => (size += requests.length) > this.largest);
    return tooMany < 0 ? waiting.length : Math.max(1, tooMany);
  }

  private async sendSome(some: readonly Gathered[]): Promise<void> {
    try {
      const outcomes = await this.send(some.flatMap(({ requests }) => requests));
      let at = 0;
      for (const { requests, resolve } of some) resolve(outcomes.slice(at, (at += requests.length)));
    } catch (error) {
      if (some.length > 1 && isTryAgain(error)) for (const one of some) await this.sendSome([one]);
      else for (const { reject } of some) reject(error);
    }
  }
}

/**
 * Lets only a few commands wait for their answers at a time, for each server. A process that holds a hundred thousand leases sends
 * hundreds of commands after a new connection. Sent all at once, the last of them would wait longer than their timeout for the
 * first, and be sent again while the server still works on what nobody awaits any more.
 */
export class FewAtATime {
  /** How many commands are out, by server. An entry exists while there are any. */
  private readonly out = new Map<number, number>();
  /** What starts the commands that have to wait, by server. An entry exists while there are any. */
  private readonly waiting = new Map<number, (() => void)[]>();

  constructor(private readonly most: number) {}

  /** Runs `send` when fewer than the most are out to this server, and resolves or rejects as it does. */
  async run<T>(source: number, send: () => Promise<T>): Promise<T> {
    const out = this.out.get(source) ?? 0;
    if (out < this.most) this.out.set(source, out + 1);
    else await new Promise<void>((start) => this.lineOf(source).push(start));
    try {
      return await send();
    } finally {
      this.ended(source);
    }
  }

  private lineOf(source: number): (() => void)[] {
    let line = this.waiting.get(source);
    if (line === undefined) this.waiting.set(source, (line = []));
    return line;
  }

  /** The next command takes the place of the one that has ended. */
  private ended(source: number): void {
    const line = this.waiting.get(source);
    const next = line?.shift();
    if (line?.length === 0) this.waiting.delete(source);
    if (next !== undefined) return next();
    const out = this.out.get(source)! - 1;
    if (out === 0) this.out.delete(source);
    else this.out.set(source, out);
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
