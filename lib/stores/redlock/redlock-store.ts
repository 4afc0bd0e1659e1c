/**
 * The lock store over an odd number of independent Redis masters, its nodes: a lease is held when a quorum of them has granted it. Each
 * node is a store of one Redis (node-store.ts), with its connection, its memory and its renewals. This layer knows quorums and nothing
 * else: it proposes a fence, asks all, counts, and takes back what is no quorum.
 *
 * There is no queue across nodes, but each node keeps marks of the processes that it refused, and keeps a free lock for the process
 * that has waited longest (shared/marks.lua). A holder stands on the nodes as a ballot with the id `<holder id>/<n>`, a new one for each
 * attempt (ballot.ts).
 */
import type { Clock, Timer } from '../../core/port/clock.js';
import { LockStoreError, LockUsageError, type NodeFailure } from '../../core/port/errors.js';
import type { Report } from '../../core/port/lock-events.js';
import type { AcquireOutcome, AcquireRequest, HeartbeatOutcome, HolderRef, LockStore, ReleaseRequest, RenewOutcome, RenewRequest, StoreCapabilities, StoreSummary, Wake } from '../../core/port/lock-store.js';
import type { ListOptions, LockState } from '../../core/port/lock-state.js';
import { TurnEnd } from '../wire/bundles.js';
import { FenceFloors } from '../wire/fence-floors.js';
import type { Connect } from '../wire/connections.js';
import { checkProcess, UNTIL_TOLD_MS } from '../wire/redis-keys.js';
import { Ballot, type QuorumContext } from './ballot.js';
import { NodeLog } from './node-log.js';
import { NodeStore } from './node-store.js';
import { agree, asking } from './poll.js';
import { renewByQuorum, type Renewed } from './quorum-renewals.js';
import { listByQuorum, viewOf } from './quorum-view.js';
import { quorumOf } from './quorum.js';
import { RedlockNode } from './redlock-node.js';
import { redlockSummary } from './redlock-summary.js';
import { Waiters } from './waiters.js';

export interface RedlockStoreOptions {
  /** An odd number of masters, at least three, without replication between them. */
  readonly nodes: readonly Connect[];
  /** The prefix of every key and channel. */
  readonly prefix: string;
  /** The name of this process: its holder ids begin with it, up to their last dot. */
  readonly process: string;
  readonly maxLeaseMs: number;
  readonly commandTimeoutMs: number;
  readonly bootTimeoutMs: number;
  readonly clock: Clock;
  /** Gets what should be in the log. */
  readonly report: Report;
  /** The boot fails, and does not only warn, when a server may evict locks. */
  readonly strictServer?: boolean | undefined;
}

/** When a quorum is connected, the boot waits this long, in ms, for the other nodes before the application starts without them. */
const STRAGGLERS_MS = 500;
/** The pause before a release without an answer is sent to a node again, in ms. */
const SENDS_AGAIN_AFTER_MS = 250;
/** As `waitedMs`: nobody in the process waits. */
const DOES_NOT_WAIT = -1;

export class RedlockStore implements LockStore {
  readonly capabilities: StoreCapabilities;
  summary: StoreSummary | undefined;
  private readonly nodes: RedlockNode[] = [];
  private readonly context: QuorumContext;
  private readonly log: NodeLog;
  private readonly waiters: Waiters;
  private readonly turnEnd = new TurnEnd();
  /** By holder id: one for each request that is out and each lease that is held. */
  private readonly ballots = new Map<string, Ballot>();
  /** Unanswered requests by holder id, so that a request that is made twice is one attempt. */
  private readonly asking = new Map<string, Promise<AcquireOutcome>>();
  /** The releases that are to be sent to a node again. */
  private readonly withdrawals = new Set<Timer>();
  private attempts = 0;
  /** How long the nodes took to answer the last ballot, in ms. */
  private tookMs = 0;
  private isClosed = false;
  private listener: (wake: Wake) => void = () => {};

  /** @throws LockUsageError */
  constructor(private readonly options: RedlockStoreOptions) {
    const { nodes: connects, prefix, process, maxLeaseMs, clock, commandTimeoutMs, report } = options;
    if (connects.length < 3 || connects.length % 2 === 0) {
      throw new LockUsageError(`Lock options: a Redlock needs an odd number of at least 3 independent masters, got ${connects.length}.`);
    }
    checkProcess(process);
    this.capabilities = { queue: false, replicas: false, permits: false, maxLeaseMs };
    const quorum = quorumOf(connects.length);
    const { nodes } = this;
    const floors = new FenceFloors();
    this.waiters = new Waiters(quorum);
    const log = (this.log = new NodeLog(connects.length, clock, report));
    this.context = {
      nodes, quorum, clock, commandTimeoutMs, floors,
      mark: (node, key, mark) => this.mark(node, key, mark),
      withdraw: (...how) => void this.withdraw(...how),
    };
    const makeStore = (at: number): NodeStore => this.storeOf(connects[at]!, () => nodes[at]!);
    for (const at of connects.keys()) nodes.push(new RedlockNode(at, { nodes, clock, floors, log, prefix, maxLeaseMs, makeStore }));
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

  acquire(request: AcquireRequest): Promise<AcquireOutcome> {
    const { key, id, minReplicas, notAfter } = request;
    const present = this.asking.get(id);
    if (present !== undefined) return present;
    const late = `Lock '${key}': the request began only after its time limit, and was not sent to any node. It is safe to try again.`;
    if (this.isClosed) return Promise.reject(new LockStoreError(`Lock '${key}': it was asked for after the store was closed.`, { key, retryable: false }));
    if (minReplicas > 0) return Promise.reject(noReplicas(key));
    if (this.options.clock.now() > notAfter) return Promise.reject(new LockStoreError(late, { key }));
    const outcome = this.attempt(request); // The attempt removes this entry when it was answered, which is after it was set.
    this.asking.set(id, outcome);
    return outcome;
  }

  async renew(requests: readonly RenewRequest[]): Promise<readonly RenewOutcome[]> {
    const outcomes: RenewOutcome[] = requests.map(({ key, minReplicas }) => (minReplicas > 0 ? { kind: 'unknown', cause: noReplicas(key) } : { kind: 'lost' }));
    const leases: (Renewed & { readonly at: number })[] = [];
    requests.forEach(({ id, leaseMs, minReplicas }, at) => {
      const ballot = this.ballots.get(id);
      if (ballot?.state === 'held' && minReplicas === 0) leases.push({ at, ballot, leaseMs });
    });
    if (leases.length === 0) return outcomes;
    const told = await renewByQuorum(leases, this.context);
    leases.forEach(({ at, ballot }, n) => {
      outcomes[at] = told[n]!;
      if (told[n]!.kind === 'lost' && ballot.state === 'held') this.drop(ballot);
      // Those that have not been renewed for longest stand first.
      else if (this.ballots.delete(ballot.request.id)) this.ballots.set(ballot.request.id, ballot);
    });
    return outcomes;
  }

  /** A Redlock has no queue, so that no waiter has a place to keep alive. */
  async heartbeat(waiters: readonly HolderRef[]): Promise<readonly HeartbeatOutcome[]> {
    return waiters.map(() => ({ kind: 'gone' }));
  }

  release(request: ReleaseRequest): Promise<'released' | 'lost'> {
    const { key, id } = request;
    if (this.waiters.leave(id, key)) for (const node of this.nodes) this.mark(node, key);
    const ballot = this.ballots.get(id);
    if (ballot === undefined) return Promise.resolve('lost');
    this.ballots.delete(id);
    return ballot.release(request);
  }

  whenSent(_keys: readonly string[], done: () => void): void {
    // With node-redis requests are written to the network in the turn of the event loop after their own.
    this.turnEnd.add(() => this.options.clock.nextTurn(done));
  }

  async downgrade({ key, id }: HolderRef): Promise<'downgraded' | 'lost'> {
    const ballot = this.ballots.get(id);
    if (ballot?.state !== 'held') return 'lost';
    const result = await this.agree('a downgrade', key, (node) => node.store.downgrade({ key, id: ballot.id }));
    if (result === 'downgraded') ballot.mode = 'read';
    return result;
  }

  async inspect(key: string): Promise<LockState> {
    return (await viewOf(key, this.nodes)).state;
  }

  list(options?: ListOptions): AsyncIterable<LockState> {
    return listByQuorum(options, this.nodes);
  }

  async forceRelease(key: string, fence?: number): Promise<boolean> {
    const ask = async (node: RedlockNode): Promise<'taken' | 'none'> => ((await node.store.forceRelease(key, fence)) ? 'taken' : 'none');
    return (await this.agree('a forced release', key, ask, fence === undefined)) === 'taken';
  }

  async tryOut(): Promise<void> {
    await this.agree('a trial', undefined, (node) => node.store.tryOut().then(() => 'grants' as const));
  }

  async close(): Promise<void> {
    this.isClosed = true;
    for (const timer of this.withdrawals) this.options.clock.clearTimer(timer);
    this.withdrawals.clear();
    this.log.close();
    this.ballots.clear();
    this.waiters.clear();
    await Promise.all(this.nodes.map((node) => node.close()));
  }

  /** Opens the nodes together. The application starts as soon as a quorum is there; nodes that are down join later. */
  private async boot(): Promise<void> {
    const { nodes, log, context: { clock, quorum } } = this;
    const opened = new Set<RedlockNode>();
    const failures = new Map<RedlockNode, LockStoreError>();
    const opening = nodes.map((node) => node.open().then(() => undefined, (error: LockStoreError) => error));
    await new Promise<void>((resolve) => {
      let stragglers: Timer | undefined;
      const all = nodes.map(async (node, at) => {
        const failure = await opening[at];
        if (failure !== undefined) return void failures.set(node, failure);
        opened.add(node);
        if (opened.size >= quorum) stragglers ??= clock.setTimer(resolve, STRAGGLERS_MS);
      });
      void Promise.all(all).then(() => {
        if (stragglers !== undefined) clock.clearTimer(stragglers);
        resolve();
      });
    });
    const missing = nodes.filter((node) => !opened.has(node));
    if (missing.length === 0) return;
    const reasons = missing.map((node): NodeFailure => {
      const failure = failures.get(node);
      return { node: node.name, reason: failure === undefined ? 'not connected yet' : (failure.nodes[0]?.reason ?? failure.message) };
    });
    const details = reasons.map(({ node, reason }) => `${node}: ${reason}`).join('; ');
    for (const error of failures.values()) if (!error.retryable) throw error;
    if (opened.size < quorum) {
      const message = `Locks: only ${opened.size} of ${nodes.length} Redlock nodes can be used, and a quorum is ${quorum} (${details}).`;
      throw new LockStoreError(message, { nodes: reasons });
    }
    const message = `Locks: ${missing.length} of ${nodes.length} Redlock nodes cannot be used now (${details}). The others are a quorum.`;
    log.report({ kind: 'boot', level: 'warning', message });
    for (const node of missing) {
      log.missing(node.name);
      void node.joinLater(opening[nodes.indexOf(node)]!);
    }
  }

  private storeOf(connection: Connect, node: () => RedlockNode): NodeStore {
    const { options, log, turnEnd, context: { floors } } = this;
    const store: NodeStore = new NodeStore({
      ...options,
      connection,
      recoveryMs: UNTIL_TOLD_MS,
      redlock: {
        turnEnd, floors,
        outages: { away: (reason) => log.lost(store.name, reason), back: (afterMs) => log.back(store.name, afterMs) },
        turn: (key) => {
          if (node().isUsable) for (const id of this.waiters.call(key, node(), options.clock.now())) this.listener({ kind: 'ask', key, id });
        },
      },
    });
    store.onWake((wake) => node().isUsable && this.follow(wake, node()));
    return store;
  }

  /** Messages of the nodes are hints: each becomes a wake when enough nodes have sent it. */
  private follow({ kind, id: ballotId, key }: Wake, node: RedlockNode): void {
    const id = ballotId.slice(0, ballotId.lastIndexOf('/'));
    const ballot = this.ballots.get(id);
    if (ballot?.id !== ballotId) return;
    if (kind === 'contended') return this.listener({ kind, key, id });
    // A forced release took the lock away on this node. When a quorum of nodes has said so, the process looks whether they still have the
    // lease: messages may be forged. A request whose votes are still being counted is ended, because nobody would look at its grant.
    if (kind !== 'lost') return;
    ballot.standings[this.nodes.indexOf(node)]!.isTaken = true;
    if (ballot.takenOn < this.context.quorum) return;
    if (ballot.state === 'open') this.drop(ballot);
    this.listener({ kind, key, id });
  }

  private async attempt(request: AcquireRequest): Promise<AcquireOutcome> {
    const { key, id, queue, replaces } = request;
    const held = this.ballots.get(id);
    let ballot: Ballot | undefined;
    try {
      if (held !== undefined) {
        const { state } = await viewOf(key, this.nodes);
        // The holder was released meanwhile, and nobody would release a new grant.
        if (held.state !== 'held') return { kind: 'busy', retryInMs: 0 };
        if (state.holders.some((holder) => holder.id === id)) return { kind: 'granted', grant: held.grant() };
        this.drop(held);
      }
      // Each node runs requests in order: the replaced lease is released before the vote. A release that fails is repeated in the background.
      const replaced = replaces === undefined ? undefined : this.release({ key, id: replaces }).catch(() => undefined);
      const now = this.options.clock.now();
      const waitedMs = queue ? this.waiters.ask(id, key, now) : DOES_NOT_WAIT;
      ballot = new Ballot(this.context, request, `${id}/${(++this.attempts).toString(36)}`, waitedMs, this.tookMs);
      this.forgetEnded(now);
      this.ballots.set(id, ballot);
      const outcome = this.answered(request, await ballot.cast(), ballot);
      return replaced === undefined ? outcome : { ...outcome, replacedLost: (await replaced) === 'lost' };
    } finally {
      this.asking.delete(id);
      this.waiters.leave(id, key, true);
      if (ballot !== undefined && ballot.state !== 'held') this.forget(ballot);
    }
  }

  /** Notes whether the request goes on waiting, which asks again at once when its turn has come meanwhile. Only a ballot that is held is kept. */
  private answered({ key, id }: AcquireRequest, outcome: AcquireOutcome, ballot: Ballot): AcquireOutcome {
    this.tookMs = ballot.tookMs;
    if (ballot.state === 'held') this.waiters.served(key, this.options.clock.now());
    else this.forget(ballot);
    if (outcome.kind === 'busy') return this.waiters.told(id, key) ? { ...outcome, retryInMs: 0 } : outcome;
    this.waiters.leave(id, key);
    return outcome;
  }

  private agree<A extends string>(what: string, key: string | undefined, ask: (node: RedlockNode) => Promise<A>, namesNobody = false): Promise<A> {
    return agree(what, key, this.nodes, asking(key, ask), { namesNobody });
  }

  /** Removes the marks of this process, so that the node keeps the lock for nobody who does not wait. Sent once: marks also end by themselves. */
  private mark({ isUsable, store }: RedlockNode, key: string, mark = ''): void {
    if (isUsable) store.release({ key, id: `${this.options.process}.~${mark}` }).catch(() => undefined);
  }

  private async withdraw(node: RedlockNode, release: ReleaseRequest, until: number, lateUntil: number): Promise<void> {
    const { clock } = this.options;
    const sentAt = clock.now();
    const isAnswered = node.isUsable && (await node.store.release(release).then(() => true, () => false));
    if (this.isClosed || (isAnswered && sentAt > lateUntil) || clock.now() >= until) return;
    const timer = clock.setTimer(() => {
      this.withdrawals.delete(timer);
      void this.withdraw(node, release, until, lateUntil);
    }, SENDS_AGAIN_AFTER_MS);
    this.withdrawals.add(timer);
  }

  private drop(ballot: Ballot): void {
    this.forget(ballot);
    ballot.takeBack();
  }

  private forget(ballot: Ballot): void {
    const { id } = ballot.request;
    if (this.ballots.get(id) === ballot) this.ballots.delete(id);
  }

  /** Removes ballots whose lease has ended: their holders neither released nor renewed them. */
  private forgetEnded(now: number): void {
    let looked = 0;
    for (const ballot of this.ballots.values()) {
      if (++looked > 2) return;
      if (ballot.state === 'held' && ballot.endsAt < now) this.forget(ballot);
    }
  }
}

function noReplicas(key: string): LockStoreError {
  const message = `Lock '${key}': minReplicas cannot be counted on a Redlock, whose nodes are independent masters. Leave it out.`;
  return new LockStoreError(message, { key, retryable: false });
}
