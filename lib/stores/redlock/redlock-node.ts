/**
 * One master of a Redlock as this process sees it: the requests to its scripts, and their replies. A node knows nothing of the
 * others; its link decides whether requests may be sent to it (node-link.ts).
 */
import type { LockStoreError } from '../../core/port/errors.js';
import type { LockState } from '../../core/port/lock-state.js';
import { listOf, lockState, releaseOutcome, renewOutcomes, runsOf } from '../wire/lock-reply.js';
import {
  addGiveBack, addVote, downgradeCall, forceReleaseCall, giveBack, giveBackCall, inspectCall, raiseFenceCall, readRenewHead, readVote, renewCall, vote, voteCall,
  type GiveBackArgs, type VoteArgs,
} from '../wire/lua.generated.js';
import type { Connect } from '../wire/connections.js';
import type { RedisKeys } from '../wire/redis-keys.js';
import { trustOf } from '../wire/server-clock.js';
import { TRIAL_LEASE_MS, trialOf } from '../wire/trial-lock.js';
import { NodeLink, type LinkOptions } from './node-link.js';
import { NodeMemory } from './node-memory.js';
import type { NodeNews } from './node-news.js';
import { reasonOf, voteOf, type Leaving, type Mark, type NodeView, type NodeVote, type RenewedThere, type RenewPart, type VoteRequest } from './node-vote.js';

export interface NodeSurroundings extends LinkOptions {
  readonly news: Pick<NodeNews, 'contended' | 'turn' | 'taken'>;
  /** Called when the node has a new connection. */
  readonly connected: (node: RedlockNode) => void;
}

const UNCHANGED: Mark = { mode: 'write', waitedMs: -2, patienceMs: 0 };

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
    this.memory = new NodeMemory(
      {
        first: (call, decode) => link.send(call, decode),
        later: (call, decode) => link.run(call, decode),
      },
      keys,
      { maxLeaseMs, clock: link.serverClock, met: (runId) => link.meet(runId) },
    );
  }

  get name(): string {
    return this.link.name;
  }

  get silent(): boolean {
    return this.link.silent;
  }

  set silent(silent: boolean) {
    this.link.silent = silent;
  }

  get heardAt(): number {
    return this.link.heardAt;
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
  async vote(request: VoteRequest, proposal: number, notAfter: number): Promise<NodeVote> {
    const { clock } = this.around;
    const limit = this.link.serverClock.before(0, notAfter, clock.now());
    const answer = await this.ask(request, proposal, limit || 1);
    return limit === 0 && answer.kind === 'late' && clock.now() < notAfter ? this.vote(request, proposal, notAfter) : answer;
  }

  private ask(request: VoteRequest, proposal: number, limit: number): Promise<NodeVote> {
    const { key, group, id, mode, leaseMs, fences, label, owner, minHoldMs, graceMs, patienceMs } = request;
    const { around: { process, maxLeaseMs }, link } = this;
    const { runId } = link;
    const waitedMs = Math.floor(request.waitedMs);
    const on = this.keys.onNode(group, key);
    const asked: VoteArgs = { id, mode, leaseMs, fences, proposal, notAfter: limit, label, owner, minHoldMs, graceMs, maxLeaseMs, runId, process, waitedMs, patienceMs };
    return link.runBundled(vote, { key, lockKey: on.lockKey, addTo: (keys, args) => addVote(keys, args, on, asked) }, (reply, sentAt, receivedAt) => {
      const told = readVote(listOf(reply));
      this.link.serverClock.observe(0, { sentAt, receivedAt, serverNow: told.now });
      return voteOf(told, sentAt);
    });
  }

  /** Whether a limit in the node's time can be sent to it: it has answered since it was connected. */
  get keepsLimits(): boolean {
    const now = this.around.clock.now();
    return this.connected && this.link.serverClock.before(0, now, now) > 0;
  }

  /** Sets the fence of a ballot on this node. False when the ballot does not stand here. */
  raiseFence({ key, group, id, fences }: VoteRequest, fence: number): Promise<boolean> {
    const call = raiseFenceCall(this.keys.onNode(group, key), { id, fence, fences });
    return this.link.run({ ...call, key }, (reply) => reply === 1);
  }

  /** Renews leases on this node. The result of a lease is undefined when it does not stand here. */
  renew(parts: readonly RenewPart[], timeoutMs: number): Promise<readonly (RenewedThere | undefined)[]> {
    const lockKeys = parts.map(({ key }) => this.keys.lock(this.keys.groupOf(key), key));
    const call = renewCall({ lockKeys }, { longestMs: this.around.maxLeaseMs, runs: runsOf(parts) });
    const key = parts.length === 1 ? parts[0]?.key : undefined;
    return this.link.run({ ...call, key, timeoutMs }, (reply, sentAt, receivedAt) => {
      this.link.serverClock.observe(0, { sentAt, receivedAt, serverNow: readRenewHead(listOf(reply)).now });
      const there = (leftMs: number, contended: boolean): RenewedThere | undefined => (leftMs < 0 ? undefined : { end: trustOf(leftMs, sentAt), contended });
      // A key with a value of another type holds no lease.
      return renewOutcomes(reply, parts, there, () => undefined);
    });
  }

  release({ key, id, abandoned, next, mark }: Leaving): Promise<'released' | 'lost'> {
    const on = this.keys.onNode(this.keys.groupOf(key), key);
    const { mode, waitedMs, patienceMs } = mark ?? UNCHANGED;
    const said: GiveBackArgs = { id, abandoned: abandoned === true, next, process: this.around.process, waitedMs: Math.floor(waitedMs), mode, patienceMs };
    return this.link.runBundled(giveBack, { key, lockKey: on.lockKey, addTo: (keys, args) => addGiveBack(keys, args, on, said) }, releaseOutcome);
  }

  downgrade(key: string, id: string): Promise<'downgraded' | 'lost'> {
    return this.link.run({ ...downgradeCall(this.keys.spotOf(key), { id, floor: 0 }), key }, (reply) => (reply === 1 ? 'downgraded' : 'lost'));
  }

  forceRelease(key: string, fence: number | undefined): Promise<'taken' | 'none'> {
    return this.link.run({ ...forceReleaseCall(this.keys.spotOf(key), { fence, floor: 0 }), key }, (reply) => (reply === 1 ? 'taken' : 'none'));
  }

  /** Finds out whether the node grants locks: takes a lock that nobody else can name, and gives it back. */
  async tryOut(): Promise<'grants'> {
    const { link, keys, around: { process, maxLeaseMs } } = this;
    const { id, keys: trial } = trialOf(process, keys);
    const on = { ...trial, marksKey: keys.marksBeside(trial.lockKey), epochKey: keys.epoch };
    const asked: VoteArgs = {
      id, mode: 'write', leaseMs: TRIAL_LEASE_MS, fences: 1, proposal: 1, notAfter: 0, minHoldMs: 0, graceMs: 0, maxLeaseMs, runId: link.runId, process, waitedMs: -1, patienceMs: 0,
    };
    const voted = await link.run(voteCall(on, asked), (reply, sentAt) => voteOf(readVote(listOf(reply)), sentAt));
    if (voted.kind !== 'granted') throw this.failure(reasonOf(voted), undefined);
    await link.run(giveBackCall(on, { id, abandoned: true, process, ...UNCHANGED }), releaseOutcome);
    return 'grants';
  }

  /** The lock as this node alone knows it, with the ids of ballots, and until when each holder can be trusted here. */
  inspect(key: string): Promise<NodeView> {
    return this.link.run({ ...inspectCall(this.keys.spotOf(key)), key }, (reply, askedAt) => {
      const state = withoutTurns(lockState(key, reply));
      return { state, ends: state.holders.map(({ remainingMs }) => trustOf(remainingMs, askedAt)) };
    });
  }

  /** One page of the keys that are locked on this node and start with `startsWith`. */
  async scan(startsWith: string, cursor: string): Promise<{ readonly next: string; readonly found: readonly string[] }> {
    const pattern = this.keys.lockPattern(startsWith);
    const [next, found] = await this.link.walk<[string, string[]]>('list', (server) => server.call('scan', cursor, 'MATCH', pattern, 'COUNT', 500));
    return { next, found: this.keys.keysAmong(found, startsWith) };
  }
}

/** A free lock that the node keeps for the next process is reported as held by nobody (shared/marks.lua). */
function withoutTurns(state: LockState): LockState {
  const holders = state.holders.filter(({ id }) => !id.startsWith('>'));
  return { ...state, holders, mode: holders.length === 0 ? null : state.mode };
}
