/**
 * One master of a Redlock as this process sees it: the requests to its scripts, and their replies. A node knows nothing of the
 * others; its link decides whether requests may be sent to it (node-link.ts).
 */
import type { LockStoreError } from '../../core/port/errors.js';
import type { LockState } from '../../core/port/lock-store.js';
import { listOf, lockState, numbersOf, releaseOutcome, renewArgs, renewOutcomes, toField } from '../wire/lock-reply.js';
import { downgrade, forceRelease, giveBack, inspect, raiseFence, renew, vote } from '../wire/lua.generated.js';
import type { RedisTarget } from '../wire/redis-connection.js';
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
    target: RedisTarget,
    private readonly around: NodeSurroundings,
  ) {
    const { keys, maxLeaseMs, news } = around;
    this.keys = keys;
    const link = new NodeLink(target, around, {
      contended: (id, by) => news.contended(id, by),
      turn: (key) => news.turn(this, key),
      lost: (id) => news.taken(this, id),
      connected: () => around.connected(this),
    });
    this.link = link;
    this.memory = new NodeMemory(
      {
        first: (script, names, args, decode) => link.send(script, undefined, names, args, decode),
        later: (script, names, args, decode) => link.run(script, undefined, names, args, decode),
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
    const { key, group, id, mode, leaseMs, fences, label, owner, minHoldMs, graceMs, waitedMs, patienceMs } = request;
    const { keys, around, link } = this;
    return link.runBundled(vote, key, [keys.lock(group, key), keys.fence(group), keys.marks(group, key), keys.epoch], [
      id, mode === 'write' ? 'w' : 'r', leaseMs, fences, proposal, limit, toField(label), toField(owner), minHoldMs, graceMs, around.maxLeaseMs, link.runId ?? '-',
      around.process, Math.floor(waitedMs), patienceMs,
    ], (reply, sentAt, receivedAt) => {
      const answer = listOf(reply);
      this.link.serverClock.observe(0, { sentAt, receivedAt, serverNow: Number(answer[1]) });
      return voteOf(answer, sentAt);
    });
  }

  /** Whether a limit in the node's time can be sent to it: it has answered since it was connected. */
  get keepsLimits(): boolean {
    const now = this.around.clock.now();
    return this.connected && this.link.serverClock.before(0, now, now) > 0;
  }

  /** Sets the fence of a ballot on this node. False when the ballot does not stand here. */
  raiseFence({ key, group, id, fences }: VoteRequest, fence: number): Promise<boolean> {
    return this.link.run(raiseFence, key, [this.keys.lock(group, key), this.keys.fence(group)], [id, fence, fences], (reply) => reply === 1);
  }

  /** Renews leases on this node. The result of a lease is undefined when it does not stand here. */
  renew(parts: readonly RenewPart[], timeoutMs: number): Promise<readonly (RenewedThere | undefined)[]> {
    const lockKeys = parts.map(({ key }) => this.keys.lock(this.keys.groupOf(key), key));
    const args = [this.around.maxLeaseMs, ...renewArgs(parts)];
    return this.link.run(renew, parts.length === 1 ? parts[0]?.key : undefined, lockKeys, args, (reply, sentAt, receivedAt) => {
      const numbers = numbersOf(reply);
      this.link.serverClock.observe(0, { sentAt, receivedAt, serverNow: numbers[0] ?? 0 });
      const there = (leftMs: number, contended: boolean): RenewedThere | undefined => (leftMs < 0 ? undefined : { end: trustOf(leftMs, sentAt), contended });
      // A key with a value of another type holds no lease.
      return renewOutcomes(reply, parts, there, () => undefined);
    }, timeoutMs);
  }

  release({ key, id, abandoned, next, mark }: Leaving): Promise<'released' | 'lost'> {
    const { keys, around } = this;
    const group = keys.groupOf(key);
    const { mode, waitedMs, patienceMs } = mark ?? UNCHANGED;
    const args = [id, abandoned ? 1 : 0, next ?? '-', around.process, Math.floor(waitedMs), mode === 'write' ? 'w' : 'r', patienceMs];
    return this.link.runBundled(giveBack, key, [keys.lock(group, key), keys.marks(group, key)], args, releaseOutcome);
  }

  downgrade(key: string, id: string): Promise<'downgraded' | 'lost'> {
    return this.link.run(downgrade, key, this.allKeys(key), [id, 0], (reply) => (reply === 1 ? 'downgraded' : 'lost'));
  }

  forceRelease(key: string, fence: number | undefined): Promise<'taken' | 'none'> {
    return this.link.run(forceRelease, key, this.allKeys(key), [fence ?? '', 0], (reply) => (reply === 1 ? 'taken' : 'none'));
  }

  /** Finds out whether the node grants locks: takes a lock that nobody else can name, and gives it back. */
  async tryOut(): Promise<'grants'> {
    const { link, keys, around: { process, maxLeaseMs } } = this;
    const { id, keys: [lockKey, , fenceKey] } = trialOf(process, keys);
    const marksKey = keys.marksBeside(lockKey);
    const args = [id, 'w', TRIAL_LEASE_MS, 1, 1, 0, '-', '-', 0, 0, maxLeaseMs, link.runId ?? '-', process, -1, 0];
    const voted = await link.run(vote, undefined, [lockKey, fenceKey, marksKey, keys.epoch], args, (reply, sentAt) => voteOf(listOf(reply), sentAt));
    if (voted.kind !== 'granted') throw this.failure(reasonOf(voted), undefined);
    await link.run(giveBack, undefined, [lockKey, marksKey], [id, 1, '-', process, -2, 'w', 0], releaseOutcome);
    return 'grants';
  }

  /** The lock as this node alone knows it, with the ids of ballots, and until when each holder can be trusted here. */
  inspect(key: string): Promise<NodeView> {
    const keys = this.allKeys(key).slice(0, 2);
    return this.link.run(inspect, key, keys, [], (reply, askedAt) => {
      const state = withoutTurns(lockState(key, reply));
      return { state, ends: state.holders.map(({ remainingMs }) => trustOf(remainingMs, askedAt)) };
    });
  }

  /** One page of the keys that are locked on this node and start with `startsWith`. */
  async scan(startsWith: string, cursor: string): Promise<{ readonly next: string; readonly found: readonly string[] }> {
    const pattern = this.keys.lockPattern(startsWith);
    const [next, found] = await this.link.walk('list', (server) => server.scan(cursor, 'MATCH', pattern, 'COUNT', 500));
    return { next, found: this.keys.keysAmong(found, startsWith) };
  }

  private allKeys(key: string): [string, string, string] {
    return this.keys.all(this.keys.groupOf(key), key);
  }
}

/** A free lock that the node keeps for the next process is reported as held by nobody (shared/marks.lua). */
function withoutTurns(state: LockState): LockState {
  const holders = state.holders.filter(({ id }) => !id.startsWith('>'));
  return { ...state, holders, mode: holders.length === 0 ? null : state.mode };
}
