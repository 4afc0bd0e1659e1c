/**
 * One node of a Redlock as this process sees it: whether it may be asked, and how it comes back.
 *
 *     away ──(opened)──▶ met ──(it remembers)──▶ votes
 *      ▲ │                └──(it may have forgotten)──▶ closed ──(maxLeaseMs; the fences of the others)──▶ votes
 *      └─┘ not there, or its address leads to the server of another node: tried again
 *     any of them ──(a fault that only an operator can fix)──▶ refused, until the process is restarted
 *
 * A server has one vote, however many addresses lead to it: with two it could make a majority of a minority. It belongs to the node
 * that met it first, for as long as that one's connection lasts.
 *
 * A node that may have forgotten something stays closed for maxLeaseMs. Then all leases that it forgot have ended, and the fences that
 * it forgot it has to get from a quorum among the *other* nodes that remember all they granted: each earlier grant stands on at least
 * one of those. They are read after maxLeaseMs, when no grant for which the node had voted can still be on its way. When so many nodes
 * forgot that no such quorum is left (or all are new), fences start from what all that can be asked remember, from what the processes
 * have seen, and from their clocks. Nodes that were out together count as forgetful for each other, also when one of them is admitted
 * first. A node that is silent is believed to remember: replace it if it is dead.
 */
import type { Timer } from '../../core/port/clock.js';
import { LockStoreError } from '../../core/port/errors.js';
import { blindNodeError } from '../wire/access-rule.js';
import type { Connect } from '../wire/connections.js';
import { NO_SERVER } from '../wire/redis-keys.js';
import { eachGroup, type NodeStore, type Survey } from './node-store.js';
import { answersOf, asking, poll, type Replies, type Reply } from './poll.js';
import { quorumOf } from './quorum.js';
import type { RedlockStore } from './redlock-store.js';

/** All processes see the end of a quarantine at the same time; within this many ms each acts at a random instant. */
const SPREAD_MS = 100;
/** The pause before a node is looked at again that cannot vote yet, in ms. */
const LOOKS_AGAIN_AFTER_MS = 500;
/** A node that is closed is looked at least this often, in ms, because an operator may open it early. */
const LOOKED_AT_EVERY_MS = 2_000;

export type Opened = Reply<'open'>;

export class RedlockNode {
  store: NodeStore;
  /** The node that was first to meet this node's server, when both addresses lead to one server. */
  twin: RedlockNode | undefined;
  /** Whether the application has not started yet. */
  private isBoot = true;
  private isOpen = false;
  /** How the memories of the server begin that answers on this connection, once it has said so. */
  private server: string | undefined;
  private connections = 0;
  private refusedWith: LockStoreError | undefined;
  private isLooking = false;
  private timer: Timer | undefined;
  private isClosed = false;
  /** The memory for which the log says that the node is out; undefined while it votes. */
  private outSince: string | undefined;
  /** The local instant until which it waits for what it may have forgotten to end. */
  private closedUntil = -Infinity;
  /** While the node is out, the nodes that were out at some time since then. */
  private outWith = new Set<RedlockNode>();

  constructor(
    private readonly connection: Connect,
    private readonly redlock: RedlockStore,
  ) {
    this.store = redlock.storeOf(this, connection);
  }

  get name(): string {
    return this.store.name;
  }

  /** Whether it may be asked. */
  get isUsable(): boolean {
    return this.server !== undefined && this.store.isConnected && this.refusedWith === undefined;
  }

  get isListening(): boolean {
    return this.isUsable && !this.store.isSilent;
  }

  /** Why it does not vote although it may be asked, as messages say it; undefined when it votes, as far as this process knows. */
  get closedText(): string | undefined {
    if (this.outSince === undefined) return undefined;
    const leftMs = Math.ceil(this.closedUntil - this.redlock.clock.now());
    if (leftMs <= 0) return 'lost its memory, and waits to be told the last fences by a quorum of other nodes';
    return `restarted or flushed, and stays out until what it may have forgotten has ended, in ${leftMs} ms`;
  }

  /** Why it must not be asked. */
  refusal(key: string | undefined, reason = this.twin !== undefined && this.store.isConnected ? `the same server as ${this.twin.name}` : 'not connected'): LockStoreError {
    if (this.refusedWith !== undefined) return this.refusedWith;
    const subject = key === undefined ? 'Locks' : `Lock '${key}'`;
    return new LockStoreError(`${subject}: ${this.name} is ${reason}.`, { key, nodes: [{ node: this.name, reason }] });
  }

  /** Opens the node. Resolves with what prevents it; at boot that is also another node with the same server. */
  async open(): Promise<Opened> {
    const { store } = this;
    let survey: Survey;
    try {
      await store.open();
      survey = await this.survey();
      if (this.isBoot && this.twin !== undefined) throw sameServer(this.twin, this);
    } catch (error) {
      await store.close();
      return error as LockStoreError;
    }
    store.onConnected(() => {
      this.connections += 1;
      this.server = undefined;
      void this.look();
    });
    store.onDoubt(() => this.look());
    this.isOpen = true;
    this.isBoot = false;
    void this.look(survey);
    return 'open';
  }

  /** Called when the application starts without this node: it joins when it is there. */
  async joinLater(opening: Promise<Opened>): Promise<void> {
    const { clock, log } = this.redlock;
    const since = clock.now();
    this.isBoot = false;
    const opened = await opening;
    if (this.isClosed) return;
    if (opened === 'open') return log.back(this.name, clock.now() - since);
    if (!opened.retryable) return this.refuse(opened);
    this.wait(() => {
      this.store = this.redlock.storeOf(this, this.connection);
      void this.joinLater(this.open());
    }, LOOKS_AGAIN_AFTER_MS);
  }

  /** Looks whether the node remembers what it granted, and brings it back if not, again and again until it votes. */
  async look(survey?: Survey): Promise<void> {
    if (this.isLooking || !this.isOpen || this.isClosed) return;
    this.isLooking = true;
    const { connections } = this;
    let againInMs: number | undefined = LOOKS_AGAIN_AFTER_MS;
    try {
      againInMs = await this.bringBack(survey ?? (await this.survey()));
    } catch (error) {
      if (!(error as LockStoreError).retryable) this.refuse(error as LockStoreError);
      // A new connection is looked at when it is there.
      if (!this.store.isConnected || this.refusedWith !== undefined) againInMs = undefined;
    }
    this.isLooking = false;
    if (connections !== this.connections) againInMs = 0;
    if (againInMs !== undefined) this.wait(() => void this.look(), againInMs);
  }

  async close(): Promise<void> {
    this.isClosed = true;
    this.wait();
    await this.store.close();
  }

  /** Asks the server who it is and what it remembers, and claims it for this node. */
  private async survey(): Promise<Survey> {
    const { connections, redlock: { nodes, log, options: { prefix } } } = this;
    const survey = await this.store.survey();
    if (survey.server === NO_SERVER) throw blindNodeError(this.name, prefix);
    await this.store.claimFormat();
    if (connections !== this.connections) return survey;
    const twin = nodes.find((other) => other !== this && other.isUsable && other.server === survey.server);
    this.server = twin === undefined ? survey.server : undefined;
    if (twin !== this.twin && !this.isBoot) {
      const news =
        twin === undefined
          ? ({ kind: `no twin ${this.name}`, level: 'info', message: `Locks: ${this.name} leads to a server of its own now.` } as const)
          : ({ kind: `twin ${this.name}`, level: 'error', message: twinText(twin, this) } as const);
      log.report(news);
    }
    this.twin = twin;
    return survey;
  }

  /** Returns in how many ms the node should be looked at again; undefined when it votes. */
  private async bringBack(survey: Survey): Promise<number | undefined> {
    const { log, floors, options: { maxLeaseMs } } = this.redlock;
    if (this.twin !== undefined) {
      this.wait(() => this.store.reconnect(), LOOKS_AGAIN_AFTER_MS);
      return undefined;
    }
    if (!survey.closed) {
      if (this.outSince !== undefined) log.votes(this.name);
      this.outSince = undefined;
      return undefined;
    }
    const leftMs = Math.max(0, survey.since + maxLeaseMs + 1 - survey.now);
    this.closedUntil = this.redlock.clock.now() + leftMs;
    this.tellOut(survey, leftMs);
    if (leftMs > 0) {
      // Should no quorum of others remember, what the processes have seen has to be enough.
      await this.store.admit(-1, maxLeaseMs, eachGroup((group) => floors.of(group)));
      return Math.min(leftMs, LOOKED_AT_EVERY_MS) + SPREAD_MS * Math.random();
    }
    const fences = await this.fencesOfOthers();
    if (fences === undefined) return LOOKS_AGAIN_AFTER_MS * (0.5 + Math.random());
    return (await this.store.admit(survey.since, maxLeaseMs, fences)) ? 0 : LOOKS_AGAIN_AFTER_MS;
  }

  /** For each slot group the fence that all new fences must exceed; undefined while too few nodes that may remember it answer. */
  private async fencesOfOthers(): Promise<readonly number[] | undefined> {
    const { nodes, floors, log } = this.redlock;
    const others = nodes.filter((other) => other !== this);
    const replies = await poll<RedlockNode, Survey, Replies<Survey>>(
      others,
      asking(undefined, ({ store }) => store.survey()),
      (all, count) => (count === others.length ? all : undefined),
    );
    const answers = answersOf(replies);
    const out = answers.filter(([{ closed }]) => closed).map(([, at]) => others[at]!);
    const whole = answers.length - out.length;
    const forgetful = new Set([this, ...out, ...this.outWith]).size;
    const quorum = quorumOf(nodes.length);
    if (whole < quorum && nodes.length - forgetful >= quorum) return undefined;
    if (whole < quorum) log.quorumForgot(forgetful);
    return eachGroup((group) => Math.max(floors.of(group), ...answers.map(([{ fences }]) => fences[group]!)));
  }

  private tellOut({ server, since }: Survey, leftMs: number): void {
    const memory = `${server}${since}`;
    if (this.outSince === memory) return;
    this.outSince = memory;
    const others = this.redlock.nodes.filter((other) => other !== this && other.outSince !== undefined);
    for (const other of others) other.outWith.add(this);
    this.outWith = new Set(others);
    this.redlock.log.forgot(this.name, leftMs);
  }

  private refuse(error: LockStoreError): void {
    if (this.isClosed) return;
    this.refusedWith = error;
    const message = `Locks: ${this.name} is not used until this process is restarted: ${error.message}`;
    this.redlock.log.report({ kind: `refused ${this.name}`, level: 'error', message });
  }

  /** Does this later, in place of what was to be done before. */
  private wait(act?: () => void, delayMs = 0): void {
    const { clock } = this.redlock;
    if (this.timer !== undefined) clock.clearTimer(this.timer);
    this.timer = act === undefined || this.isClosed ? undefined : clock.setTimer(act, delayMs);
  }
}

function twinText(one: RedlockNode, other: RedlockNode): string {
  const next = 'its vote does not count until it leads to a server of its own. Check where this address leads.';
  return `Locks: the Redlock nodes ${one.name} and ${other.name} are one server. ${other.name} joined later: ${next}`;
}

function sameServer(one: RedlockNode, other: RedlockNode): LockStoreError {
  const next = 'Give each node a server of its own: two votes of one server are no quorum.';
  const message = `Locks: the Redlock nodes ${one.name} and ${other.name} are one server. ${next}`;
  return new LockStoreError(message, { nodes: [{ node: other.name, reason: `the same server as ${one.name}` }], retryable: false });
}
