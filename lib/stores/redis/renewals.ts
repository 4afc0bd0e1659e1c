/**
 * Renews leases on one Redis in as few commands as the topology allows: one command for leases of like length, in a Cluster one
 * for each slot group of them, and one for each lock while its slot is being moved. Renewals that replicas must acknowledge are
 * gathered for a connection of their own.
 */
import type { LockStoreError } from '../../core/port/errors.js';
import { likeLength } from '../../core/port/like-lengths.js';
import type { RenewOutcome, RenewRequest } from '../../core/port/lock-store.js';
import { inBatches } from '../wire/batches.js';
import type { ScriptCall } from '../wire/errand.js';
import { failedLock } from './failed-lock.js';
import { FewAtATime } from './few-at-a-time.js';
import { GatheredRenewals } from './gathered-renewals.js';
import { listOf, MAX_RENEWED_TOGETHER, renewOutcomes, runsOf } from '../wire/lock-reply.js';
import { readRenewHead, renewCall } from '../wire/lua.generated.js';
import type { Memories } from './memories.js';
import type { RedisKeys } from '../wire/redis-keys.js';
import type { ScriptReply, ScriptRunner } from '../wire/script-runner.js';
import { trustOf } from '../wire/server-clock.js';
import { isTryAgain, storeFailure } from '../wire/store-failure.js';
import type { Trust } from './trust.js';

/** How many commands are out to a server at most: enough to keep it busy. */
const MAX_COMMANDS_OUT = 16;

export interface RenewalsParts {
  readonly runner: ScriptRunner;
  readonly keys: RedisKeys;
  readonly trust: Trust;
  readonly memories: Memories;
  readonly timeoutMs: number;
  readonly node: string;
  readonly maxLeaseMs: number;
}

export class Renewals {
  private readonly few = new FewAtATime(MAX_COMMANDS_OUT);
  private readonly acknowledged = new GatheredRenewals((requests) => this.runAcknowledged(requests), MAX_RENEWED_TOGETHER);

  constructor(private readonly parts: RenewalsParts) {}

  /** Renews leases. The outcomes are in the order of the requests; never rejects. */
  renew(requests: readonly RenewRequest[]): Promise<readonly RenewOutcome[]> {
    return inBatches(requests, (request) => this.togetherOf(request), MAX_RENEWED_TOGETHER, (batch) => this.send(batch));
  }

  private sourceOf({ key }: RenewRequest): number {
    return this.parts.trust.sourceOf(this.parts.keys.groupOf(key));
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
    const { runner, keys, trust, memories } = this.parts;
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
    return this.parts.runner.runAcknowledged(this.callFor(requests), minReplicas, (reply, acknowledged, sentAt) => {
      const outcomes = this.outcomesOf(reply, requests, sentAt);
      if (acknowledged >= minReplicas) return outcomes;
      const cause = this.failure(new Error(`only ${acknowledged} of ${minReplicas} replicas acknowledged`), key);
      return outcomes.map((outcome): RenewOutcome => (outcome.kind === 'renewed' ? { kind: 'unknown', cause } : outcome));
    });
  }

  private callFor(requests: readonly RenewRequest[]): ScriptCall {
    const { keys, timeoutMs, maxLeaseMs } = this.parts;
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
    const { keys, node } = this.parts;
    return renewOutcomes<RenewRequest, RenewOutcome>(
      reply,
      requests,
      (leftMs, contended) => (leftMs < 0 ? { kind: 'lost' } : { kind: 'renewed', trustedUntil: trustOf(leftMs, sentAt), contended }),
      (words, { key }) => failedLock(words, 'renew', node, { key, lockKey: keys.lock(key) }),
    );
  }

  private failure(error: unknown, key: string | undefined): LockStoreError {
    return storeFailure(error, { what: 'renew', key, node: this.parts.node });
  }
}
