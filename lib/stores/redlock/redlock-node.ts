/**
 * One master of a Redlock as this process sees it: the requests to its scripts, and their replies. A node knows nothing of the
 * others; its link decides whether requests may be sent to it (node-link.ts).
 */
import type { LockStoreError } from '../../core/port/errors.js';
import { forcedRelease } from '../wire/forced-release.js';
import { listOf, lockState, releaseOutcome, renewOutcomes, runsOf } from '../wire/lock-reply.js';
import {
  downgradeCall, giveBackCall, inspectCall, raiseFenceCall, readDowngrade, readRaiseFence, readRenewHead, readVote, renewCall, voteCall, type BuiltCall,
  type VoteArgs, type VoteReply,
} from '../wire/lua.generated.js';
import type { Connect } from '../wire/connections.js';
import { KEYS_PER_SCAN, type RedisKeys } from '../wire/redis-keys.js';
import type { ScriptReply } from '../wire/script-runner.js';
import { LONG_AGO, trustOf } from '../wire/server-clock.js';
import { NEVER, TRIAL_LEASE_MS, trialOf } from '../wire/trial-lock.js';
import { unexpected } from '../wire/unexpected-reply.js';
import { NodeLink, type LinkOptions } from './node-link.js';
import { NodeMemory } from './node-memory.js';
import type { NodeNews } from './node-news.js';
import { giveBackArgs, leavingCall, trialVote, voteArgs } from './node-calls.js';
import { textOfVote, voteOf, type Leaving, type NodeView, type NodeVote, type RenewedThere, type RenewPart, type VoteRequest } from './node-vote.js';
import type { Hear, Reply } from './poll.js';

export interface NodeSurroundings extends LinkOptions {
  readonly news: Pick<NodeNews, 'contended' | 'turn' | 'taken'>;
  /** Called when the node has a new connection. */
  readonly connected: (node: RedlockNode) => void;
}

export class RedlockNode {
  readonly memory: NodeMemory;
  readonly link: NodeLink;
  private readonly keys: RedisKeys;

  constructor(
    connect: Connect,
    private readonly around: NodeSurroundings,
  ) {
    const { keys, maxLeaseMs, news } = around;
    this.keys = keys;
    const link = new NodeLink(connect, around, {
      contended: (id, by) => news.contended(id, by),
      turn: (key) => news.turn(this, key),
      lost: (id) => news.taken(this, id),
      connected: () => around.connected(this),
    });
    this.link = link;
    this.memory = new NodeMemory(link, keys, maxLeaseMs);
  }

  get name(): string {
    return this.link.name;
  }

  get silent(): boolean {
    return this.link.silent;
  }

  fellSilent(): void {
    this.link.fellSilent();
  }

  get heardAt(): number {
    return this.link.heardAt;
  }

  /** The name that the server gave itself when it started, as it told on the present connection. */
  get runId(): string | undefined {
    return this.link.runId;
  }

  get connected(): boolean {
    return this.link.connected;
  }

  failure(reason: string, key: string | undefined): LockStoreError {
    return this.link.failure(reason, key);
  }

  close(): void {
    this.link.close();
  }

  /**
   * Asks the node for its vote. `notAfter` is the local instant after which it must not vote any more. When the node's time is
   * not known, which is so after a minute without an answer, a first request that is too late by any clock only learns the time.
   */
  vote(request: VoteRequest, proposal: number, notAfter: number, hear: Hear<NodeVote>): void {
    const { clock } = this.around;
    const now = clock.now();
    const limit = this.link.serverClock.before(0, notAfter, now);
    if (limit > 0) return this.ask(request, proposal, limit, now, hear);
    const again = (reply: Reply<NodeVote>): void => {
      const isLate = reply.kind === 'answer' && reply.answer.kind === 'late';
      if (isLate && clock.now() < notAfter) this.vote(request, proposal, notAfter, hear);
      else hear(reply);
    };
    this.ask(request, proposal, LONG_AGO, now, again);
  }

  private ask(request: VoteRequest, proposal: number, limit: number, askedAt: number, hear: Hear<NodeVote>): void {
    const { link } = this;
    const asked = voteArgs(request, this.around, proposal, link.runId, limit);
    const decode = (reply: ScriptReply, sentAt: number, receivedAt: number): NodeVote => {
      const told = toldBy(reply, asked);
      link.serverClock.observe(0, { sentAt, receivedAt, serverNow: told.now });
      return voteOf(told, sentAt);
    };
    link.runBundled(voteCall(request.on, asked), request.on, askedAt, decode, hear);
  }

  /** Whether a limit in the node's time can be sent to it: it has answered since it was connected. */
  get keepsLimits(): boolean {
    const now = this.around.clock.now();
    return this.connected && this.link.serverClock.before(0, now, now) > 0;
  }

  /** Sets the fence of a ballot on this node. False when the ballot does not stand here. */
  raiseFence({ on, id, fences }: VoteRequest, fence: number): Promise<boolean> {
    return this.link.run({ ...raiseFenceCall(on, { id, fence, fences }), key: on.key }, (reply) => readRaiseFence(reply) === 'raised');
  }

  /** Renews leases on this node. The result of a lease is undefined when it does not stand here. */
  renew(parts: readonly RenewPart[], timeoutMs: number): Promise<readonly (RenewedThere | undefined)[]> {
    const lockKeys = parts.map(({ key }) => this.keys.lock(key));
    const call = renewCall({ lockKeys }, { longestMs: this.around.maxLeaseMs, runs: runsOf(parts) });
    const key = parts.length === 1 ? parts[0]?.key : undefined;
    return this.link.run({ ...call, key, timeoutMs }, (reply, sentAt, receivedAt) => {
      this.link.serverClock.observe(0, { sentAt, receivedAt, serverNow: readRenewHead(listOf(reply)).now });
      const there = (leftMs: number, contended: boolean): RenewedThere | undefined => (leftMs < 0 ? undefined : { end: trustOf(leftMs, sentAt), contended });
      // A key with a value of another type holds no lease.
      return renewOutcomes(reply, parts, there, () => undefined);
    });
  }

  release(leaving: Leaving, hear: Hear<'released' | 'lost'>): void {
    this.giveBack(leavingCall(leaving, this.around.process), leaving, hear);
  }

  /** The same, with a call that was made once for all nodes. */
  giveBack(call: BuiltCall, { on, askedAt }: Leaving, hear: Hear<'released' | 'lost'>): void {
    this.link.runBundled(call, on, askedAt, releaseOutcome, hear);
  }

  downgrade(key: string, id: string): Promise<'downgraded' | 'lost'> {
    return this.link.run({ ...downgradeCall(this.keys.spotOf(key), { id, floor: 0 }), key }, readDowngrade);
  }

  forceRelease(key: string, fence: number | undefined): Promise<'taken' | 'none'> {
    const { link, around: { clock, commandTimeoutMs } } = this;
    const timed = { key, notAfter: clock.now() + commandTimeoutMs, clock, serverClock: link.serverClock, source: 0, node: this.name };
    return forcedRelease({ on: this.keys.spotOf(key), fence, floor: 0 }, timed, (call, decode) => link.run(call, decode));
  }

  /** Finds out whether the node grants locks: takes a lock that nobody else can name, and gives it back. */
  async tryOut(): Promise<'grants'> {
    const { link, keys, around } = this;
    const { id, keys: trial } = trialOf(around.process, keys);
    const on = { ...trial, marksKey: keys.marksBeside(trial.lockKey), epochKey: keys.epoch };
    const asked = voteArgs(trialVote(id, TRIAL_LEASE_MS), around, 1, link.runId, NEVER);
    const voted = await link.run(voteCall(on, asked), (reply, sentAt) => voteOf(toldBy(reply, asked), sentAt));
    if (voted.kind !== 'granted') throw this.failure(textOfVote(voted), undefined);
    await link.run(giveBackCall(on, giveBackArgs({ id }, around.process)), releaseOutcome);
    return 'grants';
  }

  /** The lock as this node alone knows it, with the ids of ballots, and until when each holder can be trusted here. */
  inspect(key: string): Promise<NodeView> {
    return this.link.run({ ...inspectCall(this.keys.spotOf(key)), key }, (reply, askedAt) => {
      const state = lockState(key, reply);
      return { state, ends: state.holders.map(({ remainingMs }) => trustOf(remainingMs, askedAt)) };
    });
  }

  /** One page of the keys that are locked on this node and start with `startsWith`. */
  async scan(startsWith: string, cursor: string): Promise<{ readonly next: string; readonly found: readonly string[] }> {
    const pattern = this.keys.lockPattern(startsWith);
    const [next, found] = await this.link.walk<[string, string[]]>('list', (server) => server.call('scan', cursor, 'MATCH', pattern, 'COUNT', KEYS_PER_SCAN));
    return { next, found: this.keys.keysAmong(found, startsWith) };
  }
}

/** What the node says of its vote. Where it granted what was asked for it says no more than its time. */
function toldBy(reply: ScriptReply, { proposal: fence, leaseMs, mode }: VoteArgs): VoteReply {
  if (typeof reply !== 'number') return readVote(listOf(reply));
  // Other scripts answer 0 and 1, which are no time.
  if (reply <= 1) throw unexpected(reply);
  return { kind: 'granted', now: reply, fence, leftMs: leaseMs, mode, shared: false, next: undefined };
}
