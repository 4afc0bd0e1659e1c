/**
 * Renews leases on one Redis, and brings back those that it has forgotten, each under its id and fence, if the lock is free.
 *
 *     renewal ──▶ renewed
 *        └──(not there)──▶ bring-back ──▶ renewed ──(minReplicas)──▶ renewed once more, for the replicas
 *                              └────────▶ lost: the server remembers all, or somebody else has the lock
 *
 * A renewal looks at the lock alone, so that it finds nothing on a server that forgot. That is no proof of a loss: bring-back.lua looks at
 * the memory of the server, and its answer decides. What another memory knew is brought back without a renewal before, which would not
 * find it; what the server has nevertheless is renewed by that as well.
 */
import type { LockStoreError } from '../../core/port/errors.js';
import { likeLength, type HeldLease, type RenewOutcome, type RenewRequest } from '../../core/port/lock-store.js';
import { bringBackCallOf, readBringBack, readRenew, renewCall, type BringBackAnswer, type BringBackArgs, type RenewArgs } from '../wire/lua.generated.js';
import { UNKNOWN_MEMORY, type Spot } from '../wire/redis-keys.js';
import type { ScriptCall, ScriptReply } from '../wire/script-runner.js';
import { LONG_AGO, trustOf } from '../wire/server-clock.js';
import { isTryAgain } from '../wire/store-failure.js';
import type { Recovery } from './recovery.js';
import { BundledRelease, sharing } from './requests.js';
import type { RemoteRedis } from './remote-redis.js';

/** How many leases one command renews at most: 250 cost a server well under a millisecond. */
const MAX_RENEWED = 250;
/** How many commands are out to a server at most: enough to keep it busy, and few enough to be answered in time. */
const MAX_COMMANDS_OUT = 16;
/** How many leases one command brings back at most. Each costs a server 13 to 40 µs, and all other commands wait meanwhile. */
const MAX_BROUGHT_BACK = 60;
/** How many of these commands are out to a server at most: one that gets little CPU answers them in time, so that none is made twice. */
const MAX_BRING_BACKS_OUT = 4;

/** A renewal that carries what is needed to bring the lease back. */
type LeaseRequest = RenewRequest & { readonly held: HeldLease };

/** The outcome of a renewal, or of bringing back what the server did not have. */
type Eventual = RenewOutcome | Promise<RenewOutcome>;

export class Renewals {
  private readonly serverOf = ({ key }: RenewRequest): unknown => this.redis.connections.commands.serving(this.redis.keys.lock(key));
  private readonly plain = new Batches<RenewRequest>(this.serverOf, MAX_RENEWED, MAX_COMMANDS_OUT, (batch) => this.send(batch));
  /**
   * A connection that waits for replicas can do nothing else meanwhile, so one command at a time waits for them, with all that came in the meantime.
   * There is a connection for each number of replicas.
   */
  private readonly acknowledged = new Batches<RenewRequest>((request) => this.nameOf(request), MAX_RENEWED, 1, (batch) => this.sendAcknowledged(batch));
  private readonly broughtBack = new Batches<LeaseRequest>(this.serverOf, MAX_BROUGHT_BACK, MAX_BRING_BACKS_OUT, (batch) => this.bringBack(batch));

  constructor(
    private readonly redis: RemoteRedis,
    private readonly recovery: Recovery,
  ) {}

  /** Renews a lease, and brings it back if it was forgotten. Never rejects. */
  renew(request: RenewRequest): Promise<RenewOutcome> {
    return this.canComeBack(request) && this.isBroughtBackFirst(request) ? this.bringBackOne(request) : this.renewOne(request);
  }

  private async bringBackOne(request: LeaseRequest): Promise<RenewOutcome> {
    let outcome = await this.broughtBack.run(this.shardOf(request), request);
    if (outcome.kind === 'unknown') outcome = await this.notBroughtBack(request, outcome.cause);
    if (outcome.kind !== 'renewed' || request.minReplicas === 0) return outcome;
    const renewed = await this.renewOne({ ...request, held: undefined });
    return renewed.kind === 'renewed' ? { ...renewed, memory: outcome.memory } : renewed;
  }

  private canComeBack(request: RenewRequest): request is LeaseRequest {
    return request.held !== undefined && this.redis.recoveryMs > 0;
  }

  private isBroughtBackFirst({ key, minReplicas, held: { memory } }: LeaseRequest): boolean {
    const { memories, keys } = this.redis;
    const group = keys.groupOf(key);
    // A renewal that waits for replicas may be answered when the recovery of a server that forgot is over. A new master often has none.
    if (minReplicas > 0 && memories.known[group] === UNKNOWN_MEMORY) return true;
    return memories.isOutdated(group, memory);
  }

  private renewOne(request: RenewRequest): Promise<RenewOutcome> {
    return (request.minReplicas > 0 ? this.acknowledged : this.plain).run(this.nameOf(request), request);
  }

  private nameOf(request: RenewRequest): string {
    return `${this.shardOf(request)} ${request.minReplicas} ${likeLength(request.leaseMs)}`;
  }

  private shardOf({ key }: RenewRequest): number {
    return this.redis.keys.shardOf(this.redis.keys.groupOf(key));
  }

  private send(requests: readonly RenewRequest[]): Promise<readonly Eventual[]> {
    const { runner, trust } = this.redis;
    return runner.run(this.callFor(requests), (reply, sentAt, receivedAt) => {
      trust.clock.observe(this.shardOf(requests[0]!), { sentAt, receivedAt, serverNow: readRenew(reply).now });
      return this.outcomesOf(reply, requests, sentAt);
    });
  }

  /** What the server does not know is lost, however many replicas acknowledged it: then nothing was written. */
  private sendAcknowledged(requests: readonly RenewRequest[]): Promise<readonly Eventual[]> {
    const { minReplicas } = requests[0]!;
    const { runner } = this.redis;
    return runner.runAcknowledged(this.callFor(requests), minReplicas, ([reply, acknowledged], sentAt) => {
      if (acknowledged >= minReplicas) return this.outcomesOf(reply, requests, sentAt);
      const error = new Error(`only ${acknowledged} of ${minReplicas} replicas acknowledged`);
      return this.outcomesOf(reply, requests, sentAt, runner.failureOf(error, { what: 'renew', key: onlyKeyOf(requests) }));
    });
  }

  private callFor(requests: readonly RenewRequest[]): ScriptCall {
    const { keys } = this.redis;
    const lockKeys = requests.map(({ key }) => keys.lock(key));
    return { ...renewCall({ lockKeys }, { runs: runsOf(requests) }), key: onlyKeyOf(requests), timeoutMs: this.timeoutOf(requests) };
  }

  /** The deadline of a command leaves time for another try before its shortest lease ends. */
  private timeoutOf(requests: readonly RenewRequest[]): number {
    return Math.min(this.redis.timeoutMs, Math.min(...requests.map(({ leaseMs }) => leaseMs)) / 3);
  }

  /**
   * The outcome of each renewal; `failure` is that of a lease that was renewed. The reply lists only leases that did not just get what was asked for.
   */
  private outcomesOf(reply: ScriptReply, requests: readonly RenewRequest[], sentAt: number, failure?: LockStoreError): Eventual[] {
    const { keys } = this.redis;
    const renewed = (leftMs: number, contended: boolean): RenewOutcome =>
      failure ? { kind: 'unknown', cause: failure } : { kind: 'renewed', trustedUntil: trustOf(leftMs, sentAt), contended };
    const outcomes: Eventual[] = requests.map(({ leaseMs }) => renewed(Math.floor(leaseMs), false));
    for (const { position, left, contended } of readRenew(reply).leases) {
      const request = requests[position - 1]!;
      const { key, graceMs = 0 } = request;
      if (typeof left === 'string') outcomes[position - 1] = this.failed(left, 'renew', { key, redisKeys: [keys.lock(key)] });
      else if (left >= 0) outcomes[position - 1] = renewed(Math.max(0, left - graceMs), contended);
      else outcomes[position - 1] = this.canComeBack(request) ? this.bringBackOne(request) : { kind: 'lost' };
    }
    return outcomes;
  }

  private async bringBack(requests: readonly LeaseRequest[]): Promise<readonly RenewOutcome[]> {
    const { runner, trust, keys, memories } = this.redis;
    // A lease that was released meanwhile must not be brought back, because nobody would release it again.
    const held = requests.filter((request) => request.held.state === 'held');
    if (held.length === 0) return requests.map(() => ({ kind: 'lost' }));
    const { generation } = memories;
    const call = bringBackCallOf(held.map((request) => ({ ...keys.spotOf(request.key), ...this.argsOf(request) })));
    return runner.run({ ...call, key: onlyKeyOf(held), timeoutMs: this.timeoutOf(held) }, (reply, sentAt, receivedAt) => {
      const { now, answers } = readBringBack(reply);
      trust.clock.observe(this.shardOf(held[0]!), { sentAt, receivedAt, serverNow: now });
      const outcomes = new Map(answers.map((one, n) => [held[n]!, this.outcomeOf(held[n]!, one, sentAt, generation)]));
      return requests.map((request) => outcomes.get(request) ?? { kind: 'lost' });
    });
  }

  /**
   * A lease whose slot is being moved is renewed if it is there: a half-moved slot takes no script on several keys. The memory of the slot
   * group may be that of one side, and the lease on the other. So the lease is brought back when the slot is whole, if it must be.
   */
  private async notBroughtBack(request: RenewRequest, cause: LockStoreError): Promise<RenewOutcome> {
    if (isTryAgain(cause)) {
      const outcome = await this.renewOne({ ...request, held: undefined, minReplicas: 0 });
      if (outcome.kind === 'renewed') return outcome;
    }
    return { kind: 'unknown', cause, lateUntil: this.redis.clock.now() + this.redis.timeoutMs };
  }

  private argsOf(request: LeaseRequest): BringBackArgs {
    const { id, leaseMs, graceMs = 0, held } = request;
    const { clock, trust, recoveryMs, timeoutMs } = this.redis;
    const now = clock.now();
    const { mode, grant: { fence, fences }, options, trustedUntil, minHoldUntil, memory, ticketId } = held;
    // The limit is not later than the timeout of the answer, so that a release, which waits until then, comes last (lateUntil).
    const notAfter = trust.clock.lowerBound(this.shardOf(request), Math.min(trustedUntil, now + timeoutMs), now) || LONG_AGO;
    const minHoldMs = Math.max(0, Math.ceil(minHoldUntil - now));
    return {
      id, ...sharing({ ...options, mode }), notAfter, leaseMs: Math.floor(leaseMs), fence, fences, minHoldMs, graceMs,
      recoveryMs, knownBy: memory, ticketId, label: options.label,
    };
  }

  private outcomeOf({ key, id, held }: LeaseRequest, news: BringBackAnswer, sentAt: number, generation: number): RenewOutcome {
    const { recovery, redis, redis: { keys, bundles } } = this;
    switch (news.kind) {
      case 'held':
        // In a Cluster a request may be sent again, and reach the node behind the release of its lease. If this fails, the lease ends by itself.
        if (held.state === 'released') bundles.add(new BundledRelease(redis, { key, id }, keys.spotOf(key)));
        if (news.memory !== held.memory) recovery.broughtBack += 1;
        recovery.compare(keys.groupOf(key), news.memory, generation);
        return { kind: 'renewed', trustedUntil: trustOf(news.leftMs, sentAt), contended: news.contended, memory: news.memory };
      case 'lost':
        return { kind: 'lost' };
      default:
        return this.failed(news.kind === 'refused' ? news.words : 'it reached the server too late, and is sent again', 'bring-back', keys.spotOf(key));
    }
  }

  /** The outcome for one lock of several in a command `what`, for which alone the server did nothing, and said why (`words`). */
  private failed(words: string, what: string, { key, redisKeys }: Pick<Spot, 'key' | 'redisKeys'>): RenewOutcome {
    return { kind: 'unknown', cause: this.redis.runner.failureOf(new Error(words), { what, key, redisKeys }) };
  }
}

/** The leases as renew.lua takes them. Leases of one length that stand side by side share a single statement of that length. */
function runsOf(requests: readonly RenewRequest[]): RenewArgs['runs'] {
  const runs: { leaseMs: number; ids: string }[] = [];
  for (const { id, leaseMs, graceMs = 0 } of requests) {
    const length = Math.floor(leaseMs) + graceMs;
    const last = runs.at(-1);
    if (last?.leaseMs === length) last.ids += ` ${id}`;
    else runs.push({ leaseMs: length, ids: id });
  }
  return runs;
}

/** The key that a failure of all these requests is about, if it is about one lock. */
function onlyKeyOf(requests: readonly RenewRequest[]): string | undefined {
  return requests.length === 1 ? requests[0]!.key : undefined;
}

interface Waiting<T> {
  readonly request: T;
  readonly answered: (outcome: Eventual) => void;
}

/**
 * Sends renewals in few commands: those that were added under one name in a turn of the event loop share a command, and only some commands wait
 * for their answers at a time. A process that holds a hundred thousand leases sends hundreds of commands after a new connection. Sent all at
 * once, the last of them would wait longer than their timeout for the first, and be sent again while the server still works on what nobody
 * awaits any more. What a server refuses because its slot is being moved is sent again one by one.
 */
class Batches<T extends RenewRequest> {
  /** By server: how many commands are out, and what waits under each name. An entry exists while there is either. */
  private readonly servers = new Map<unknown, { out: number; readonly lines: Map<unknown, Waiting<T>[]> }>();

  constructor(
    private readonly serverOf: (request: T) => unknown,
    /** How many leases a command has at most. */
    private readonly size: number,
    /** How many commands to one server may await their answers at a time. */
    private readonly most: number,
    /** Resolves with the outcomes, in the order of the requests. Rejects with LockStoreError. */
    private readonly send: (requests: readonly T[]) => Promise<readonly Eventual[]>,
  ) {}

  /** `name`: of what may share a command. Never rejects. */
  run(name: unknown, request: T): Promise<RenewOutcome> {
    return new Promise((answered) => {
      const to = this.serverOf(request);
      let server = this.servers.get(to);
      if (server === undefined) this.servers.set(to, (server = { out: 0, lines: new Map() }));
      const { lines } = server;
      if (lines.size === 0) process.nextTick(() => this.sendMore(to));
      const line = lines.get(name);
      if (line) line.push({ request, answered });
      else lines.set(name, [{ request, answered }]);
    });
  }

  private sendMore(to: unknown): void {
    const server = this.servers.get(to);
    if (server === undefined) return;
    for (const [name, waiting] of server.lines) {
      while (waiting.length > 0) {
        if (server.out === this.most) return;
        server.out += 1;
        void this.sendBatch(waiting.splice(0, this.size)).then(() => {
          server.out -= 1;
          this.sendMore(to);
        });
      }
      server.lines.delete(name);
    }
    if (server.out === 0) this.servers.delete(to);
  }

  private async sendBatch(batch: readonly Waiting<T>[]): Promise<void> {
    try {
      const outcomes = await this.send(batch.map(({ request }) => request));
      batch.forEach(({ answered }, n) => answered(outcomes[n]!));
    } catch (error) {
      if (batch.length > 1 && isTryAgain(error)) await Promise.all(batch.map((one) => this.sendBatch([one])));
      else for (const { answered } of batch) answered({ kind: 'unknown', cause: error as LockStoreError });
    }
  }
}
