/**
 * One master of a Redlock as this process sees it: its private connections, its clock, and the scripts that run on it. It
 * knows nothing of the others.
 *
 *     away ──(connected, checked)──▶ listening ──(a question's time passed)──▶ silent ──(anything heard)──▶ listening
 *
 * Nothing is asked of a node that is away, so that nothing has to be taken back there. A silent one is not asked to vote while
 * the others are enough; what was asked before is still out, and ends with its answer or with its connection.
 */
import type { Clock } from '../../core/port/clock.js';
import { LockStoreError, LockUsageError } from '../../core/port/errors.js';
import type { ReleaseRequest } from '../../core/port/lock-store.js';
import type { Report } from '../../core/port/report.js';
import { nodeRightsError } from '../wire/access-rule.js';
import { probe } from '../wire/boot-probe.js';
import { lockState, numbersOf, releaseOutcome, renewArgs, renewOutcomes, toField } from '../wire/lock-reply.js';
import { downgrade, forceRelease, greet, inspect, raiseFence, release, renew, vote, type LuaScript } from '../wire/lua.generated.js';
import { Outage } from '../wire/outage.js';
import { RedisConnections, type RedisTarget } from '../wire/redis-connection.js';
import type { RedisKeys } from '../wire/redis-keys.js';
import { ScriptRunner, type ScriptArgument, type ScriptReply } from '../wire/script-runner.js';
import { ServerClock, trustOf } from '../wire/server-clock.js';
import { storeFailure } from '../wire/store-failure.js';
import { TRIAL_LEASE_MS, trialOf } from '../wire/trial-lock.js';
import { WakeChannel } from '../wire/wake-channel.js';
import { NodeMemory } from './node-memory.js';
import type { NodeOutages } from './node-outages.js';
import { reasonOf, voteOf, type NodeView, type NodeVote, type RenewPart, type VoteRequest } from './node-vote.js';

export interface NodeSurroundings {
  readonly keys: RedisKeys;
  readonly process: string;
  readonly maxLeaseMs: number;
  readonly commandTimeoutMs: number;
  readonly bootTimeoutMs: number;
  readonly clock: Clock;
  readonly report: Report;
  readonly outages: NodeOutages;
  readonly strictServer?: boolean | undefined;
  /** A forced release took this ballot's lock away here. */
  readonly lost: (node: RedlockNode, ballotId: string) => void;
  /** A new connection: perhaps to another server, or to one that came up empty. */
  readonly connected: (node: RedlockNode) => void;
}

export class RedlockNode {
  readonly name: string;
  silent = false;
  heardAt = -Infinity;
  /** Why it must not be asked at all. */
  refused: LockStoreError | undefined;
  private readonly connections: RedisConnections;
  readonly outage: Outage;
  private readonly runner: ScriptRunner;
  private readonly channel: WakeChannel;
  private readonly serverClock = new ServerClock();
  private readonly keys: RedisKeys;
  private readonly clock: Clock;
  readonly memory: NodeMemory;
  opening = false;
  /** It has answered on this connection: a frozen server accepts one and says nothing. */
  private heard = false;
  /** The wire format as it was agreed on; undefined until this node has been checked. */
  private format: string | null | undefined;

  constructor(
    target: RedisTarget,
    private readonly around: NodeSurroundings,
  ) {
    const { keys, process, commandTimeoutMs, clock } = around;
    this.keys = keys;
    this.clock = clock;
    this.memory = new NodeMemory((script, names, args, decode) => this.send(script, undefined, names, args, decode), keys, {
      maxLeaseMs: around.maxLeaseMs,
      clock: this.serverClock,
    });
    this.connections = new RedisConnections(target, commandTimeoutMs, clock);
    if (this.connections.isCluster) throw new LockUsageError('Lock options: a node of a Redlock must be a single master, not a Cluster.');
    this.name = this.connections.node;
    this.outage = new Outage(clock, {
      away: (reason) => around.outages.away(this.name, reason),
      back: (afterMs) => around.outages.back(this.name, afterMs),
      ask: () => void this.runner.command('time', (client) => client.time()).catch(() => undefined), // the outage hears of it
    });
    this.runner = new ScriptRunner(this.connections, clock, commandTimeoutMs, this.outage);
    this.channel = new WakeChannel(() => this.connections.subscribe(), keys.channel(process), clock, commandTimeoutMs, {
      granted: () => {},
      contended: () => {},
      lost: (_key, id) => around.lost(this, id),
      listening: () => {},
    });
    this.connections.commands.on('close', () => {
      this.outage.closed(this.connections.lastError);
      this.serverClock.reset();
      this.heard = false;
    });
    this.connections.onOpen(this.connections.commands, () => !this.opening && around.connected(this));
  }

  /** Connects and checks it; rejects with LockStoreError, and goes on trying to connect. */
  async open(): Promise<void> {
    const { around: options, connections, runner, keys, channel } = this;
    this.opening = true;
    try {
      await probe({ options, connections, runner, keys, channel });
      const format = await runner.command('format', (client) => client.get(keys.format));
      await this.probeMemory();
      this.format = format;
      this.outage.watch();
    } catch (error) {
      throw storeFailure(error, { what: 'opening', key: undefined, node: this.name });
    } finally {
      this.opening = false;
    }
  }

  /** It has been checked once. */
  get opened(): boolean {
    return this.format !== undefined;
  }

  get connected(): boolean {
    return this.opened && this.refused === undefined && this.reachable && this.heard;
  }

  /** There is a connection, whatever the checks say. */
  get reachable(): boolean {
    return this.connections.isOpen(this.connections.commands);
  }

  /** Whether it (still) has the wire format that was agreed on: it may have come back empty, and met somebody else first. */
  async keepsFormat(): Promise<boolean> {
    const { format, keys } = this;
    if (typeof format === 'string') await this.runner.command('format', (client) => client.set(keys.format, format, 'NX'));
    return (await this.runner.command('format', (client) => client.get(keys.format))) === format;
  }

  /**
   * `notAfter`: local instant after which it must not vote any more. Where its time is not known, after a minute of silence, the
   * first request comes too late by any clock and only tells the time.
   */
  async vote(request: VoteRequest, proposal: number, notAfter: number): Promise<NodeVote> {
    const limit = this.serverClock.before(0, notAfter, this.clock.now());
    const answer = await this.ask(request, proposal, limit || 1);
    return limit === 0 && answer.kind === 'late' && this.clock.now() < notAfter ? this.vote(request, proposal, notAfter) : answer;
  }

  private ask(request: VoteRequest, proposal: number, limit: number): Promise<NodeVote> {
    const { key, group, id, mode, leaseMs, fences, label, owner, minHoldMs } = request;
    return this.run(vote, key, [this.keys.lock(group, key), this.keys.fence(group), this.keys.epoch], [
      id, mode === 'write' ? 'w' : 'r', leaseMs, fences, proposal, limit, toField(label), toField(owner), minHoldMs, this.around.maxLeaseMs,
    ], (reply, sentAt, receivedAt) => {
      const numbers = numbersOf(reply);
      this.serverClock.observe(0, { sentAt, receivedAt, serverNow: numbers[1] ?? 0 });
      return voteOf(numbers, sentAt);
    });
  }

  /** Whether a limit can be set to what is asked of it: it was heard of since it was connected. */
  get keepsLimits(): boolean {
    return this.connected && this.serverClock.before(0, this.clock.now(), this.clock.now()) > 0;
  }

  /** False when the ballot is not here. */
  raiseFence({ key, group, id, fences }: VoteRequest, fence: number): Promise<boolean> {
    return this.run(raiseFence, key, [this.keys.lock(group, key), this.keys.fence(group)], [id, fence, fences], (reply) => reply === 1);
  }

  /** For each lease the local instant until which it can be trusted here; undefined where it is lost. */
  renew(parts: readonly RenewPart[], timeoutMs: number): Promise<readonly (number | undefined)[]> {
    const lockKeys = parts.map(({ key }) => this.keys.lock(this.keys.groupOf(key), key));
    const args = [this.around.maxLeaseMs, ...renewArgs(parts)];
    return this.run(renew, parts.length === 1 ? parts[0]?.key : undefined, lockKeys, args, (reply, sentAt, receivedAt) => {
      const numbers = numbersOf(reply);
      this.serverClock.observe(0, { sentAt, receivedAt, serverNow: numbers[0] ?? 0 });
      const endOf = (leftMs: number): number | undefined => (leftMs < 0 ? undefined : trustOf(leftMs, sentAt));
      // Where something else stands at the lock's key, the lease does not.
      return renewOutcomes(reply, parts, endOf, () => undefined);
    }, timeoutMs);
  }

  release({ key, id, abandoned }: ReleaseRequest): Promise<'released' | 'lost'> {
    return this.run(release, key, this.allKeys(key), [id, 0, abandoned ? 1 : 0], releaseOutcome);
  }

  downgrade(key: string, id: string): Promise<'downgraded' | 'lost'> {
    return this.run(downgrade, key, this.allKeys(key), [id, 0], (reply) => (reply === 1 ? 'downgraded' : 'lost'));
  }

  forceRelease(key: string, fence: number | undefined): Promise<'taken' | 'none'> {
    return this.run(forceRelease, key, this.allKeys(key), [fence ?? '', 0], (reply) => (reply === 1 ? 'taken' : 'none'));
  }

  /** Whether it grants: takes a lock that nobody else can name, and gives it back. */
  async tryOut(): Promise<'grants'> {
    const { id, keys: [lockKey, queueKey, fenceKey] } = trialOf(this.around.process, this.keys);
    const args = [id, 'w', TRIAL_LEASE_MS, 1, 1, 0, '-', '-', 0, this.around.maxLeaseMs];
    const voted = await this.run(vote, undefined, [lockKey, fenceKey, this.keys.epoch], args, (reply, sentAt) => voteOf(numbersOf(reply), sentAt));
    if (voted.kind !== 'granted') throw this.failure(reasonOf(voted), undefined);
    await this.run(release, undefined, [lockKey, queueKey, fenceKey], [id, 0, 1], releaseOutcome);
    return 'grants';
  }

  /** What this node alone knows, with the ids of ballots, and until when each holder can be trusted here. */
  inspect(key: string): Promise<NodeView> {
    const keys = this.allKeys(key).slice(0, 2);
    return this.run(inspect, key, keys, [], (reply, askedAt) => {
      const state = lockState(key, reply);
      return { state, ends: state.holders.map(({ remainingMs }) => trustOf(remainingMs, askedAt)) };
    });
  }

  /** One page of the keys locked here that start with `startsWith`. */
  async scan(startsWith: string, cursor: string): Promise<{ readonly next: string; readonly found: readonly string[] }> {
    const [node] = this.connections.masters();
    const pattern = this.keys.lockPattern(startsWith);
    const [next, found] = await this.runner.command('list', async () => node!.scan(cursor, 'MATCH', pattern, 'COUNT', 500));
    return { next, found: this.keys.keysAmong(found, startsWith) };
  }

  close(): void {
    this.channel.close();
    this.runner.close();
    this.connections.close();
  }

  private run<T>(
    script: LuaScript,
    key: string | undefined,
    keys: readonly string[],
    args: readonly ScriptArgument[],
    decode: (reply: ScriptReply, sentAt: number, receivedAt: number) => T,
    timeoutMs?: number,
  ): Promise<T> {
    if (this.refused !== undefined) return Promise.reject(this.refused);
    if (!this.connected) return Promise.reject(this.failure('not connected', key));
    return this.send(script, key, keys, args, decode, timeoutMs);
  }

  private send<T>(
    script: LuaScript,
    key: string | undefined,
    keys: readonly string[],
    args: readonly ScriptArgument[],
    decode: (reply: ScriptReply, sentAt: number, receivedAt: number) => T,
    timeoutMs?: number,
  ): Promise<T> {
    return this.runner.run({ script, key, keys, args, timeoutMs }, (reply, sentAt, receivedAt) => {
      this.silent = false;
      this.heard = true;
      this.heardAt = receivedAt;
      return decode(reply, sentAt, receivedAt);
    });
  }

  /** Only a Redlock needs to know who the server is. */
  private async probeMemory(): Promise<void> {
    const { runner, around, name, keys } = this;
    try {
      await runner.run({ script: greet, keys: [keys.epoch], args: [around.maxLeaseMs] }, () => undefined);
    } catch (error) {
      throw nodeRightsError(error, name, keys.prefix) ?? error;
    }
  }

  /** Why it was not asked. */
  failure(reason: string, key: string | undefined): LockStoreError {
    const subject = key === undefined ? 'Locks' : `Lock '${key}'`;
    return new LockStoreError(`${subject}: ${this.name} is ${reason}.`, { key, nodes: [{ node: this.name, reason }] });
  }

  private allKeys(key: string): [string, string, string] {
    return this.keys.all(this.keys.groupOf(key), key);
  }
}
