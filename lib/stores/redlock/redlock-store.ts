/**
 * The lock store over an odd number of independent Redis masters, its nodes: a lease is held when a quorum of them has granted it. Each
 * node is a store of one Redis (redlock-node.ts), with its connection, its memory and its renewals. This layer knows quorums and nothing
 * else: it proposes a fence, asks all, counts, and takes back what is no quorum.
 *
 * There is no queue across nodes, but each node keeps marks of the requests that it refused, and keeps a free lock for the one
 * that has waited longest (shared/marks.lua). A holder stands on the nodes as a ballot with the id `<holder id>/<n>`, a new one for each
 * attempt (ballot.ts).
 */
import { Schedule } from '../../core/lease/schedule.js';
import { pause } from '../../core/port/clock.js';
import { LockStoreError, LockUsageError } from '../../core/port/errors.js';
import type {
  AcquireOutcome, AcquireRequest, Done, HolderRef, LockStore, Released, RenewOutcome, RenewRequest, Reply, StoreCapabilities, StoreSummary, Wake,
} from '../../core/port/lock-store.js';
import type { ListOptions, LockState } from '../../core/port/lock-state.js';
import type { RedisStoreOptions } from '../redis/redis-store.js';
import type { MarkingRelease } from '../redis/requests.js';
import { FenceFloors } from '../redis/remote-redis.js';
import type { Connect } from '../wire/connections.js';
import { Ballot, renewByQuorum } from './ballot.js';
import { listByQuorum, viewOf } from './quorum-view.js';
import { agree, ANSWERS_WITHIN_MS, answersOf, asking, noQuorum, poll, quorumOf, reasonOf, type QuorumNode, type Replies } from './quorum.js';
import { RedlockNode } from './redlock-node.js';

export interface RedlockStoreOptions extends Omit<RedisStoreOptions, 'connection' | 'recoveryMs' | 'minReplicas' | 'redlock'> {
  /** An odd number of masters, at least three, without replication between them. */
  readonly nodes: readonly Connect[];
}

/**
 * Requests that do not wait and come together may split the votes for a free lock, so that none of them gets it. One that got a vote asks again, at
 * most so often and for so long, in ms, each time after a number of rounds drawn at random: whoever draws the least alone gets the lock. A round is
 * longer than a ballot takes, and at least so long, in ms.
 */
const SPLITS = { most: 5, withinMs: 700, rounds: 6, roundMs: 5 } as const;

export class RedlockStore implements LockStore {
  readonly capabilities: StoreCapabilities = { queue: false, replicas: false, permits: false };
  summary: StoreSummary | undefined;
  readonly nodes: readonly RedlockNode[];
  /** How many of the nodes must agree. */
  readonly quorum = quorumOf(this.options.nodes.length);
  readonly clock = this.options.clock;
  /** The highest fences that this process has seen. */
  readonly floors = new FenceFloors();
  /** When the application started; undefined while it boots. */
  startedAt: number | undefined;
  /** The releases that are to be sent to a node again. */
  readonly schedule = new Schedule(this.clock);
  /**
   * By holder id: the last one of each request that is out or waits, until that is refused for good or released; and that of each lease,
   * until it is released or a renewal says that it is lost.
   */
  private readonly ballots = new Map<string, Ballot>();
  private attempts = 0;
  /** How long the last ballot took, in ms. Only Ballot writes it. */
  ballotMs = 0;
  isClosed = false;
  private listener: (wake: Wake) => void = () => {};

  /** @throws LockUsageError */
  constructor(readonly options: RedlockStoreOptions) {
    const { nodes } = options;
    if (nodes.length < 3 || nodes.length % 2 === 0) {
      throw new LockUsageError(`Lock options: a Redlock needs an odd number of at least 3 independent masters, got ${nodes.length}.`);
    }
    this.nodes = nodes.map((connection) => new RedlockNode(connection, this));
  }

  /** Rejects with LockStoreError when no quorum can be used, naming every node, or when an operator has to put something right. */
  async open(): Promise<void> {
    try {
      await this.boot();
      this.summary = redlockSummary(this.options.prefix, this.nodes);
    } catch (error) {
      await this.close();
      throw error;
    }
  }

  onWake(listener: (wake: Wake) => void): void {
    this.listener = listener;
  }

  async acquire(request: AcquireRequest): Promise<AcquireOutcome> {
    const { key, id, queue, replaces, minReplicas } = request;
    if (this.isClosed) throw refusal(key, 'it was asked for after the store was closed.');
    if (minReplicas > 0) throw refusal(key, 'minReplicas cannot be counted on a Redlock, whose nodes are independent masters. Leave it out.');
    const present = this.ballots.get(id);
    if (present?.state === 'open') return present.outcome!;
    const known = present?.state === 'held' ? await this.grantedBefore(present) : undefined;
    if (known !== undefined) return known;
    const since = this.ballots.get(id)?.since ?? this.clock.now();
    let ballot = this.ballotFor(request, since);
    const before = replaces === undefined ? undefined : this.ballots.get(replaces);
    // Others have waited longer, so that the nodes would refuse a vote. The release says that this request waits as well, and they call it.
    const standsBehind = queue && before?.state === 'held' && before.contended;
    // Each node runs requests in order: the replaced lease is released before the vote. A release that fails is repeated in the background.
    const replaced = replaces === undefined
      ? undefined
      : this.release({ key, id: replaces, mark: standsBehind ? ballot.mark() : undefined }).catch(() => undefined);
    this.ballots.set(id, ballot);
    let outcome: AcquireOutcome | undefined;
    try {
      outcome = standsBehind ? ballot.busy(Infinity) : await ballot.cast();
      for (let n = 0; n < SPLITS.most && !queue && outcome.kind === 'busy' && ballot.hasVotes; n++) {
        const roundMs = Math.max(SPLITS.roundMs, 1.2 * this.ballotMs);
        // A silent node makes the first ballot long, and is not asked again: then there is time for fewer rounds.
        const rounds = Math.min(SPLITS.rounds, (since + SPLITS.withinMs - this.clock.now()) / roundMs);
        if (rounds < 1) break;
        const pauseMs = roundMs * Math.floor(rounds * Math.random());
        await pause(this.clock, pauseMs);
        if (this.ballots.get(id) !== ballot) break;
        this.ballots.set(id, (ballot = this.ballotFor(request, since)));
        outcome = await ballot.cast();
      }
    } finally {
      // A request that is refused, or fails, goes on waiting until it is released.
      if (ballot.waits && (outcome === undefined || outcome.kind === 'busy')) ballot.takeBack();
      else if (ballot.state !== 'held') this.drop(ballot);
    }
    return replaced === undefined ? outcome : { ...outcome, replacedLost: (await replaced) === 'lost' };
  }

  async renew({ id, leaseMs }: RenewRequest): Promise<RenewOutcome> {
    const ballot = this.ballots.get(id);
    if (ballot?.state !== 'held') return { kind: 'lost' };
    const outcome = await renewByQuorum(ballot, leaseMs);
    if (outcome.kind === 'lost') this.drop(ballot);
    return outcome;
  }

  release(request: MarkingRelease): Promise<Released> {
    const { key, id } = request;
    const ballot = this.ballots.get(id);
    this.ballots.delete(id);
    if (ballot?.waits) for (const node of this.nodes) node.unmark(key, id);
    return ballot === undefined || ballot.state === 'over' ? Promise.resolve('lost') : ballot.release(request);
  }

  whenSent(done: () => void): void {
    const { usable } = this;
    let left = Math.max(usable.length, this.quorum);
    const sent = (): void => void ((left -= 1) === 0 && done());
    for (const { store } of usable) store.whenSent(sent);
  }

  async downgrade({ key, id }: HolderRef): Promise<'downgraded' | 'lost'> {
    const ballot = this.ballots.get(id);
    if (ballot?.state !== 'held') return 'lost';
    const result = await this.agree('a downgrade', key, (node) => node.store.downgrade({ key, id: ballot.id }));
    if (result === 'downgraded') ballot.mode = 'read';
    return result;
  }

  inspect(key: string): Promise<LockState> {
    return viewOf(key, this.nodes);
  }

  list(options?: ListOptions): AsyncIterable<LockState> {
    return listByQuorum(options, this.nodes);
  }

  async forceRelease(key: string, fence?: number): Promise<boolean> {
    const ask = async ({ store }: QuorumNode): Promise<'taken' | 'none'> => ((await store.forceRelease(key, fence)) ? 'taken' : 'none');
    return (await this.agree('a forced release', key, ask, fence === undefined)) === 'taken';
  }

  async tryOut(): Promise<void> {
    await this.agree('a trial', undefined, (node) => node.store.tryOut().then(() => 'grants' as const));
  }

  async close(): Promise<void> {
    this.isClosed = true;
    this.ballots.clear();
    // A release that the others have answered may still be on its way to a node.
    const settled = Promise.all(this.nodes.map(({ background }) => background.settled()));
    await pause(this.clock, this.options.commandTimeoutMs, (end) => void settled.then(end));
    await Promise.all(this.nodes.map((node) => node.close()));
    for (const alarm of this.schedule.all()) this.schedule.cancel(alarm);
    this.schedule.close();
  }

  /** Opens the nodes together. The application starts as soon as a quorum is there; nodes that are down join later. */
  private async boot(): Promise<void> {
    const { nodes, clock, quorum, options: { report } } = this;
    const opened = nodes.map((node) => new Promise<Reply<'open'>>((told) => void node.serve(told)));
    const isDecided = (all: Replies<'open'>, count: number): boolean => count === nodes.length || answersOf(all).length >= quorum;
    const replies = await poll(nodes, (_, done: Done<'open'>, at) => void opened[at]!.then(done), (all, count) => (isDecided(all, count) ? all : undefined));
    await pause(clock, ANSWERS_WITHIN_MS, (end) => void Promise.all(opened).then(end));
    for (const reply of replies) if (reply instanceof LockStoreError && !reply.retryable) throw reply;
    const missing = nodes.flatMap(({ name }, at): string[] => {
      const reply = replies[at] ?? 'not connected yet';
      return reply === 'open' ? [] : [`${name}: ${reply instanceof LockStoreError ? reasonOf(reply) : reply}`];
    });
    if (nodes.length - missing.length < quorum) throw noQuorum('the start', undefined, nodes, replies);
    this.startedAt = clock.now();
    if (missing.length === 0) return;
    const message = `Locks: ${missing.length} of ${nodes.length} Redlock nodes cannot be used now (${missing.join('; ')}). The others are a quorum.`;
    report({ kind: 'boot', level: 'warning', message });
  }

  /** Messages of the nodes are hints: each becomes a wake when enough nodes have sent it. */
  follow({ kind, id: ballotId, key }: Wake, node: RedlockNode): void {
    if (kind === 'ask') {
      // It is called by the id of its request.
      const waiting = this.ballots.get(ballotId);
      if (waiting?.waits && waiting.called.add(node).size === this.quorum) this.listener({ kind, key, id: ballotId });
      return;
    }
    const id = ballotId.slice(0, ballotId.lastIndexOf('/'));
    const ballot = this.ballots.get(id);
    if (ballot?.id !== ballotId || ballot.state === 'over') return;
    if (kind === 'contended') {
      ballot.contended = true;
      return this.listener({ kind, key, id });
    }
    // A forced release took the lock away on this node. When a quorum of nodes has said so, the process looks whether they still have the
    // lease: messages may be forged.
    if (kind !== 'lost') return;
    ballot.standings[this.nodes.indexOf(node)]!.isTaken = true;
    if (ballot.takenOn >= this.quorum) this.listener({ kind, key, id });
  }

  /** The nodes that may be asked. */
  get usable(): readonly RedlockNode[] {
    return this.nodes.filter(({ isUsable }) => isUsable);
  }

  /** How many nodes serve. */
  get serving(): number {
    return this.nodes.filter(({ isServing }) => isServing).length;
  }

  /** A node can be asked again. When it completes a quorum, those who wait ask at once: the pause after a failure may outlast the connections. */
  nodeServes(): void {
    if (this.usable.length !== this.quorum) return;
    for (const [id, { waits, request: { key } }] of this.ballots) if (waits) this.listener({ kind: 'ask', key, id });
  }

  /** What a request is answered whose id has the lock: its lease, renewed for what is left of it; undefined when no quorum knows that any more. */
  private async grantedBefore(ballot: Ballot): Promise<AcquireOutcome | undefined> {
    const leftMs = ballot.trustedUntil - this.clock.now();
    // No node could answer the renewal of a lease that has ended before its deadline.
    const outcome: RenewOutcome = leftMs < 1 ? { kind: 'lost' } : await renewByQuorum(ballot, leftMs);
    if (outcome.kind === 'renewed') return { kind: 'granted', grant: ballot.grant() };
    if (outcome.kind === 'unknown') throw outcome.cause;
    // The ballot was released while the nodes were asked. Nobody would release a grant that its caller gets now.
    if (ballot.state !== 'held') return { kind: 'busy', retryInMs: 0 };
    this.drop(ballot);
    return undefined;
  }

  private agree<A extends string>(what: string, key: string | undefined, ask: (node: QuorumNode) => Promise<A>, namesNobody = false): Promise<A> {
    return agree(what, key, this.nodes, asking(key, ask), { namesNobody });
  }

  private ballotFor(request: AcquireRequest, since: number): Ballot {
    return new Ballot(this, request, `${request.id}/${(++this.attempts).toString(36)}`, request.queue ? since : undefined);
  }

  private drop(ballot: Ballot): void {
    const { id } = ballot.request;
    if (this.ballots.get(id) === ballot) this.ballots.delete(id);
    ballot.takeBack();
  }
}

function refusal(key: string, why: string): LockStoreError {
  return new LockStoreError(`Lock '${key}': ${why}`, { key, retryable: false });
}

/** What a Redlock is, in the line with which an application starts. */
function redlockSummary(prefix: string, nodes: readonly RedlockNode[]): StoreSummary {
  const names = nodes.map(({ name }) => name).join(', ');
  const place = `a Redlock of ${nodes.length} nodes (${names}; ${quorumOf(nodes.length)} decide)`;
  const summaries = nodes.flatMap(({ name, store: { summary } }) => (summary === undefined ? [] : [{ name, ...summary }]));
  const off = summaries.flatMap(({ name, off: missing }) => missing.map((what) => `${what} on ${name}`));
  return { place, prefix, off, unknown: summaries.find(({ unknown }) => unknown !== undefined)?.unknown };
}
