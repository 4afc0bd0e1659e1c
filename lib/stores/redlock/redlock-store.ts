/**
 * The lock store over an odd number of independent Redis masters: a lease is held when a quorum of them has granted it. There
 * is no queue across nodes, but each node keeps marks of the processes that it refused, and keeps a free lock for the process
 * that has waited longest (shared/marks.lua).
 *
 * A holder stands on the nodes as a ballot with the id `<holder id>/<n>`, a new one for each attempt (ballot.ts). Nodes that lost
 * their memory stay out until they cannot do harm (recovery.ts).
 */
import type { Clock } from '../../core/port/clock.js';
import { LockUsageError } from '../../core/port/errors.js';
import type { Report } from '../../core/port/report.js';
import type { StoreSummary } from '../../core/port/store-summary.js';
import type { ListOptions, LockState } from '../../core/port/lock-state.js';
import type {
  AcquireOutcome,
  AcquireRequest,
  HeartbeatOutcome,
  HolderRef,
  LockStore,
  ReleaseRequest,
  RenewOutcome,
  RenewRequest,
  StoreCapabilities,
  Wake,
} from '../../core/port/lock-store.js';
import { DamagedLocks } from '../wire/damaged-locks.js';
import { FenceFloors } from '../wire/fence-floors.js';
import type { Connect } from '../wire/connections.js';
import { checkProcess, RedisKeys } from '../wire/redis-keys.js';
import { Ballot } from './ballot.js';
import { Ballots } from './ballots.js';
import { Deadlines } from './deadlines.js';
import { forceReleaseByQuorum } from './forced-release.js';
import { Members } from './members.js';
import { agree, hearing, leaseTimeoutMs, type Hear } from './poll.js';
import { renewByQuorum } from './quorum-renewals.js';
import { NodeNews } from './node-news.js';
import type { QuorumContext } from './quorum-context.js';
import { listByQuorum, viewOf } from './quorum-view.js';
import { leavingCall } from './node-calls.js';
import { DOES_NOT_WAIT, voteRequestOf } from './node-vote.js';
import { quorumOf } from './quorum.js';
import { redlockSummary } from './redlock-summary.js';
import type { RedlockNode } from './redlock-node.js';
import { refusalOf } from './refusals.js';
import { retryPause } from './retry-pause.js';
import { Waiters } from './waiters.js';
import { Withdrawals } from './withdrawals.js';

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

export class RedlockStore implements LockStore {
  readonly capabilities: StoreCapabilities;
  summary: StoreSummary | undefined;
  private readonly clock: Clock;
  private readonly keys: RedisKeys;
  private readonly members: Members;
  private readonly context: QuorumContext;
  private readonly ballots = new Ballots();
  private readonly waiters: Waiters;
  /** Unanswered requests by holder id, so that a request that is made twice is one attempt. */
  private readonly asking = new Map<string, Promise<AcquireOutcome>>();
  private readonly damaged: DamagedLocks;
  private attempts = 0;
  /** How long the nodes took to answer the last ballot, in ms. */
  private tookMs = 0;
  private closed = false;
  private listener: (wake: Wake) => void = () => {};

  /** @throws LockUsageError */
  constructor(private readonly options: RedlockStoreOptions) {
    const { nodes, prefix, process, maxLeaseMs, clock, commandTimeoutMs, report } = options;
    if (nodes.length < 3 || nodes.length % 2 === 0) {
      throw new LockUsageError(`Lock options: a Redlock needs an odd number of at least 3 independent masters, got ${nodes.length}.`);
    }
    checkProcess(process);
    this.capabilities = { queue: false, replicas: false, permits: false, maxLeaseMs };
    this.clock = clock;
    this.keys = new RedisKeys(prefix);
    const quorum = quorumOf(nodes.length);
    const waiters = (this.waiters = new Waiters(quorum));
    const withdrawals = new Withdrawals(clock);
    this.damaged = new DamagedLocks(report, clock);
    const deadlines = new Deadlines(clock);
    const news = new NodeNews({ ballots: this.ballots, waiters, clock, quorum, drop: (ballot) => this.drop(ballot), tell: (wake) => this.listener(wake) });
    const floors = new FenceFloors();
    this.members = new Members(nodes, { ...options, keys: this.keys, news, floors, deadlines });
    const answeredIn = (tookMs: number): void => void (this.tookMs = tookMs);
    const forgetful = (node: RedlockNode): void => this.members.forgot(node);
    this.context = { nodes: this.members.nodes, quorum, clock, deadlines, commandTimeoutMs, floors, withdrawals, answeredIn, forgetful };
  }

  async open(): Promise<void> {
    try {
      await this.members.open();
      this.summary = redlockSummary(this.options.prefix, this.members.nodes);
    } catch (error) {
      await this.close();
      throw error;
    }
  }

  onWake(listener: (wake: Wake) => void): void {
    this.listener = listener;
  }

  acquire(request: AcquireRequest): Promise<AcquireOutcome> {
    const { id } = request;
    const present = this.asking.get(id);
    if (present !== undefined) return present;
    const refusal = refusalOf(request, this.closed, this.clock.now());
    if (refusal !== undefined) return Promise.reject(refusal);
    const outcome = this.attempt(request); // The attempt removes this entry when it was answered, which is after it was set.
    this.asking.set(id, outcome);
    return outcome;
  }

  async renew(requests: readonly RenewRequest[]): Promise<readonly RenewOutcome[]> {
    const outcomes = await renewByQuorum(requests, this.context, (id) => this.ballots.get(id));
    requests.forEach(({ id }, at) => {
      const ballot = this.ballots.get(id);
      if (ballot === undefined) return;
      if (outcomes[at]?.kind === 'lost' && ballot.state === 'held') this.drop(ballot);
      else this.ballots.touch(ballot);
    });
    return outcomes;
  }

  /** A Redlock has no queue, so that no waiter has a place to keep alive. */
  async heartbeat(waiters: readonly HolderRef[]): Promise<readonly HeartbeatOutcome[]> {
    return waiters.map(() => ({ kind: 'gone' }));
  }

  release({ key, id, abandoned = false }: ReleaseRequest): Promise<'released' | 'lost'> {
    if (this.waiters.leave(id)) this.context.withdrawals.unmark(this.keys.nodeSpotOf(key), this.members.nodes);
    const ballot = this.ballots.get(id);
    if (ballot === undefined) return Promise.resolve('lost');
    this.ballots.remove(ballot);
    const leaving = ballot.close(abandoned);
    const call = leavingCall(leaving, this.options.process);
    return this.agree('a release', key, leaseTimeoutMs(ballot.leaseMs, this.options.commandTimeoutMs), (node, hear) => {
      if (!ballot.standing.mayBeOn(node)) return hear({ kind: 'answer', answer: 'lost' });
      node.giveBack(call, leaving, (reply) => {
        if (reply.kind === 'answer') ballot.standing.withdrawIfMute(node);
        else ballot.standing.withdraw(node);
        hear(reply);
      });
    });
  }

  whenSent(_keys: readonly string[], done: () => void): void {
    this.members.whenSent(done);
  }

  async downgrade({ key, id }: HolderRef): Promise<'downgraded' | 'lost'> {
    const ballot = this.ballots.get(id);
    if (ballot?.state !== 'held') return 'lost';
    const timeoutMs = leaseTimeoutMs(ballot.leaseMs, this.options.commandTimeoutMs);
    const result = await this.agree<'downgraded' | 'lost'>('a downgrade', key, timeoutMs, (node, hear) => hearing(node.downgrade(key, ballot.id), hear));
    if (result === 'downgraded') ballot.downgraded();
    return result;
  }

  async inspect(key: string): Promise<LockState> {
    return (await viewOf(key, this.context)).state;
  }

  list({ startsWith = '' }: ListOptions = {}): AsyncIterable<LockState> {
    return listByQuorum(startsWith, this.context, this.damaged);
  }

  forceRelease(key: string, fence?: number): Promise<boolean> {
    return forceReleaseByQuorum(key, fence, this.context);
  }

  async tryOut(): Promise<void> {
    await this.agree('a trial', undefined, this.options.commandTimeoutMs, (node, hear) => hearing(node.tryOut(), hear));
  }

  async close(): Promise<void> {
    this.closed = true;
    this.context.withdrawals.close();
    this.members.close();
    this.ballots.clear();
    this.waiters.clear();
    this.context.deadlines.close();
  }

  private async attempt(request: AcquireRequest): Promise<AcquireOutcome> {
    const { key, id, replaces } = request;
    const held = this.ballots.get(id);
    let ballot: Ballot | undefined;
    try {
      if (held !== undefined) {
        const again = await this.stillHeld(held);
        if (again !== undefined) return again;
        // The holder was released meanwhile, and nobody would release a new grant.
        if (this.ballots.get(id) !== held) return { kind: 'busy', retryInMs: retryPause({ waitedMs: Infinity, tookMs: 0, leftMs: 0 }, Math.random()) };
        this.drop(held);
      }
      // Each node runs requests in order: the replaced lease is released before the vote. A release that fails is repeated in the background.
      const replaced = replaces === undefined ? undefined : this.release({ key, id: replaces }).catch(() => undefined);
      ballot = this.ballotFor(request);
      const outcome = this.answered(request, await ballot.cast(request.notAfter), ballot);
      return replaced === undefined ? outcome : { ...outcome, replacedLost: (await replaced) === 'lost' };
    } finally {
      this.asking.delete(id);
      this.waiters.leaveUnlessTold(id);
      if (ballot !== undefined && ballot.state !== 'held') this.ballots.remove(ballot);
    }
  }

  private ballotFor(request: AcquireRequest): Ballot {
    const { key, id, queue } = request;
    const now = this.clock.now();
    const waitedMs = queue ? this.waiters.ask(id, key, now) : DOES_NOT_WAIT;
    const vote = voteRequestOf(request, this.keys.nodeSpotOf(key), `${id}/${(++this.attempts).toString(36)}`, waitedMs, this.tookMs);
    const ballot = new Ballot(this.context, id, vote);
    this.ballots.add(ballot, now);
    return ballot;
  }

  /** Notes whether the request goes on waiting, which asks again at once when its turn has come meanwhile. Only a ballot that is held is kept. */
  private answered({ key, id }: AcquireRequest, outcome: AcquireOutcome, ballot: Ballot): AcquireOutcome {
    if (ballot.state === 'held') this.waiters.served(key, this.clock.now());
    else this.ballots.remove(ballot);
    if (outcome.kind === 'busy') return this.waiters.told(id) ? { ...outcome, retryInMs: 0 } : outcome;
    this.waiters.leave(id);
    return outcome;
  }

  /** Returns the same grant again, not prolonged, if a quorum still knows it. */
  private async stillHeld(ballot: Ballot): Promise<AcquireOutcome | undefined> {
    const trustedUntil = (await viewOf(ballot.key, this.context)).ends.get(ballot.id);
    if (trustedUntil === undefined || ballot.state !== 'held') return undefined;
    return { kind: 'granted', grant: ballot.grantUntil(trustedUntil) };
  }

  private agree<A extends string>(what: string, key: string | undefined, timeoutMs: number, ask: (node: RedlockNode, hear: Hear<A>) => void): Promise<A> {
    const { nodes, deadlines } = this.context;
    return agree(what, key, { nodes, deadlines, timeoutMs, ask });
  }

  private drop(ballot: Ballot): void {
    this.ballots.remove(ballot);
    ballot.takeBack();
  }
}
