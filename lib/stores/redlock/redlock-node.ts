/**
 * One node of a Redlock as this process sees it: whether it may be asked, and how it comes back.
 *
 *     away ──(opened)──▶ met ──(it remembers)──▶ votes
 *      ▲ │                └──(it may have forgotten)──▶ closed ──(maxLeaseMs; the fences of the others)──▶ votes
 *      └─┘ not there, or its address leads to the server of another node: tried again
 *     any of them ──(a fault that only an operator can fix)──▶ refused, until that is put right
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
import { pause } from '../../core/port/clock.js';
import { LockStoreError, LockUsageError } from '../../core/port/errors.js';
import { BackgroundRelease } from '../../core/lease/background-release.js';
import type { ReportLevel } from '../../core/port/lock-events.js';
import type { Reply } from '../../core/port/lock-store.js';
import { RedisStore, type RedisStoreOptions } from '../redis/redis-store.js';
import { beginningOf } from '../redis/remote-redis.js';
import { notAllowed } from '../redis/boot-probe.js';
import type { Connect } from '../wire/connections.js';
import { admitCall, readAdmit, type RecallReply } from '../wire/lua.generated.js';
import { eachGroup, NO_SERVER, UNTIL_TOLD_MS } from '../wire/redis-keys.js';
import { lasted, subjectOf } from '../wire/store-failure.js';
import { ANSWERS_WITHIN_MS, answersOf } from './quorum.js';
import type { RedlockStore, RedlockStoreOptions } from './redlock-store.js';

/** The pause before a node is looked at again that cannot vote yet, in ms: the longest where it is random. */
const LOOKS_AGAIN_AFTER_MS = 500;
/** A node that is closed is looked at least this often, in ms, because an operator may open it early. */
const LOOKED_AT_EVERY_MS = 2_000;

/** What a node remembers. */
export type Recalled = ReturnType<typeof recalledFrom>;

/** The store of a node: that of one Redis, whose recovery has no end of its own. @throws LockUsageError */
export function storeOfNode(connection: Connect, options: Omit<RedlockStoreOptions, 'nodes'>, redlock: RedisStoreOptions['redlock']): RedisStore {
  const store = new RedisStore({ ...options, connection, recoveryMs: UNTIL_TOLD_MS, redlock });
  if (store.redis.isCluster) throw new LockUsageError('Lock options: a node of a Redlock must be a single master, not a Cluster.');
  return store;
}

/** Asks a node what it remembers, and tells it the fences that this process has seen: should no quorum of others remember, they have to be enough. */
export function recall({ recovery }: RedisStore): Promise<Recalled> {
  return recovery.recall(eachGroup((group) => group)).then(recalledFrom);
}

function recalledFrom({ now, recoversForMs, groups }: RecallReply) {
  return {
    /** The time of the server, in ms. */
    now,
    /** How the names of its memories begin. */
    server: groups[0]!.memory.slice(0, NO_SERVER.length),
    /** True if it may have forgotten something, and waits to be told the last fences. */
    closed: recoversForMs > 0,
    /** The server time in ms from which it remembers, in the slot group that forgot last. */
    since: Math.max(...groups.map(({ memory }) => beginningOf(memory))),
    /** The last fence of each slot group; 0 where it never voted, and was told none. */
    fences: groups.map(({ fence }) => fence),
  };
}

/** Lets the node vote again, if it has not forgotten anything since that recall, and what it forgot had `maxLeaseMs` to end. */
export function admit({ redis: { runner, keys } }: RedisStore, since: number, maxLeaseMs: number, floors: readonly number[]): Promise<boolean> {
  const call = admitCall({ fenceKeys: eachGroup((group) => keys.fence(group)) }, { maxLeaseMs, since, floors });
  return runner.run(call, (reply) => readAdmit(reply) === 'admitted');
}

export class RedlockNode {
  store!: RedisStore;
  /** Releases its votes that nobody waits for. */
  background!: BackgroundRelease;
  /** The node that was first to meet this node's server, when both addresses lead to one server. */
  twin: RedlockNode | undefined;
  private isOpen = false;
  /** How the memories of the server begin that answers on this connection, once it has said so. */
  private server: string | undefined;
  /** What an operator has to put right; undefined again once the server has said who it is. */
  private refusedWith: LockStoreError | undefined;
  /** The server, and since when it remembers, as they were when the node was met last. */
  private memory: string | undefined;
  /** What the server has said that it remembers, until {@link serve} looks at it; or why it does not say so. */
  private recalled: Reply<Recalled> | undefined;
  /** Ends the present pause. */
  private goOn = (): void => {};
  /** While it does not vote, because it may have forgotten something: the memory for which the log says so. */
  private outMemory: string | undefined;
  /** The local instants from which it was out last, and from which it votes: Infinity while it is out. */
  private outFrom = -Infinity;
  private votesFrom = -Infinity;

  constructor(
    private readonly connection: Connect,
    private readonly redlock: RedlockStore,
  ) {
    this.makeStore();
  }

  get name(): string {
    return this.store.server;
  }

  /** True if the node serves, as the log tells it: it has served, and no outage of it was reported since. */
  get isServing(): boolean {
    return this.isOpen && !this.store.redis.outage.isAway;
  }

  /** True if it may be asked. */
  get isUsable(): boolean {
    return this.server !== undefined && this.store.redis.connections.commands.isOpen && this.refusedWith === undefined;
  }

  /** True while it does not vote, because it may have forgotten something, and the process knows that. */
  get isOut(): boolean {
    return this.outMemory !== undefined;
  }

  /** True if it may be asked, and owes no answer for long. */
  get isListening(): boolean {
    if (!this.isUsable) return false;
    const { owesSince } = this.store.redis.connections.masters()[0]!;
    return owesSince === undefined || this.redlock.clock.now() - owesSince < ANSWERS_WITHIN_MS;
  }

  /** The error that says why the node was not asked. */
  refusal(key: string | undefined): LockStoreError {
    if (this.refusedWith !== undefined) return this.refusedWith;
    const absence = this.twin !== undefined && this.store.redis.connections.commands.isOpen ? `the same server as ${this.twin.name}` : 'not connected';
    const reason = this.isUsable ? 'silent' : absence;
    return new LockStoreError(`${subjectOf(key)}: ${this.name} is ${reason}.`, { key, nodes: [{ node: this.name, reason }] });
  }

  /** Removes the mark of a request, so that the node keeps the lock for nobody who does not wait. Sent once: marks also end by themselves. */
  unmark(key: string, id: string): void {
    if (this.isUsable) void this.store.release({ key, id }, () => {});
  }

  async close(): Promise<void> {
    this.goOn();
    this.background.close();
    await this.store.close();
  }

  private makeStore(): void {
    const { connection, redlock, redlock: { options, floors, clock } } = this;
    const store = storeOfNode(connection, options, { floors, outages: this });
    store.recovery.onRecall = (answer) => {
      this.recalled = answer instanceof LockStoreError ? answer : recalledFrom(answer);
      this.goOn();
    };
    store.redis.connections.commands.events.on('open', () => (this.server = this.recalled = undefined));
    store.onWake((wake) => this.isUsable && redlock.follow(wake, this));
    this.store = store;
    this.background = new BackgroundRelease(store, clock, redlock.schedule);
  }

  /**
   * Opens the node, tells what came of each try, and looks at what it remembers whenever its recovery has asked for that: on a new connection,
   * and when it may have forgotten something. Then it lets it vote again.
   */
  async serve(told: (opened: Reply<'open'>) => void): Promise<void> {
    const { redlock } = this;
    while (!redlock.isClosed) {
      let pauseMs = LOOKS_AGAIN_AFTER_MS;
      try {
        if (!this.isOpen) await this.store.open();
        const { recalled } = this;
        this.recalled = undefined;
        if (recalled instanceof LockStoreError) throw recalled;
        if (recalled !== undefined) await this.meet(recalled);
        if (!this.isOpen) {
          this.isOpen = true;
          if (redlock.startedAt !== undefined && !redlock.isClosed) this.back(redlock.clock.now() - redlock.startedAt);
        }
        told('open');
        pauseMs = recalled === undefined ? Infinity : await this.readmit(recalled);
      } catch (thrown) {
        const error = thrown as LockStoreError;
        if (!this.isOpen) await this.store.close();
        told(error);
        if (!error.retryable) this.refuse(error);
      }
      if (redlock.isClosed || this.recalled !== undefined || !(await pause(redlock.clock, pauseMs, (end) => (this.goOn = end)))) continue;
      if (!this.isOpen) this.makeStore();
      else if (this.twin !== undefined) this.store.redis.connections.masters()[0]!.drop();
      else this.store.recovery.suspect();
    }
  }

  /** Learns who the server is, and takes it for this node unless another node has it. */
  private async meet({ server, since }: Recalled): Promise<void> {
    const { store: { redis: { memories, format } }, redlock, redlock: { options: { prefix } } } = this;
    const { generation } = memories;
    if (server === NO_SERVER) throw notAllowed(this.name, prefix, '+info', new Error('it does not say who it is, so a restart of it could not be noticed'));
    const memory = `${server}${since}`;
    // Another version may have used a server first that lost its data. Nothing else costs a round trip here, in which the node has no vote yet.
    if (memory !== this.memory) await format.agree();
    // The answer was given on a connection that has ended, and that of the present one comes next.
    if (generation !== memories.generation) return;
    this.memory = memory;
    this.refusedWith = undefined;
    const twin = redlock.usable.find((other) => other !== this && other.server === server);
    if (twin !== undefined && twin !== this.twin) {
      const next = `${this.name} has no vote until it leads to a server of its own, for two votes of one server are no quorum. Check where this address leads.`;
      const message = `Locks: the Redlock nodes ${twin.name} and ${this.name} are one server. ${next}`;
      const nodes = [{ node: this.name, reason: `the same server as ${twin.name}` }];
      if (redlock.startedAt === undefined) throw new LockStoreError(message, { nodes, retryable: false });
      this.tell('error', `twin ${this.name}`, message);
    }
    this.twin = twin;
    this.server = twin === undefined ? server : undefined;
    if (twin === undefined) redlock.nodeServes();
  }

  /** Lets the node vote again when it may. Returns in how many ms it should be looked at again; Infinity when it votes. */
  private async readmit({ closed, since, now }: Recalled): Promise<number> {
    const { store, redlock: { clock, nodes, usable } } = this;
    if (this.server === undefined) return LOOKS_AGAIN_AFTER_MS;
    if (!closed) {
      if (this.outMemory !== undefined) {
        this.outMemory = undefined;
        this.votesFrom = clock.now();
        this.tell('info', `votes ${this.name}`, `Locks: ${this.name} votes again.`);
      }
      return Infinity;
    }
    // A lease that the node forgot may be as long as the longest of all processes, of which the other nodes tell.
    await Promise.allSettled(usable.map(({ store: { redis } }) => redis.format.agree()));
    const maxLeaseMs = Math.max(...nodes.map(({ store: { redis } }) => redis.format.longestMs));
    const leftMs = Math.max(0, since + maxLeaseMs + 1 - now);
    if (this.outMemory !== this.memory) {
      this.outMemory = this.memory;
      this.outFrom = clock.now();
      this.votesFrom = Infinity;
      this.tellForgot(leftMs);
    }
    const fences = leftMs > 0 ? undefined : await this.fencesOfOthers();
    if (fences !== undefined && (await admit(store, since, maxLeaseMs, fences))) return 0;
    // All processes see the end of a quarantine at the same time, and each acts at a random instant.
    return Math.min(leftMs, LOOKED_AT_EVERY_MS) + LOOKS_AGAIN_AFTER_MS * Math.random();
  }

  /** For each slot group the fence that all new fences must exceed; undefined while too few nodes that may remember it answer. */
  private async fencesOfOthers(): Promise<readonly number[] | undefined> {
    const { nodes, usable, floors, quorum } = this.redlock;
    const others = usable.filter((other) => other !== this);
    const forgetful = nodes.filter(({ votesFrom }) => votesFrom > this.outFrom).length;
    const isRemembered = nodes.length - forgetful >= quorum;
    if (others.length < quorum && isRemembered) return undefined;
    const answers = answersOf(await Promise.all(others.map(({ store }) => recall(store).catch(() => undefined))));
    const whole = answers.filter(({ closed }) => !closed).length;
    if (whole < quorum && isRemembered) return undefined;
    if (whole < quorum) {
      const message =
        `Locks: ${forgetful} of ${nodes.length} Redlock nodes do not remember what they granted, as after a first installation: ` +
        `the fences of ${this.name} start from the clock and from what the other nodes and the running processes have seen.`;
      this.tell('warning', 'fences from clocks', message);
    }
    return eachGroup((group) => Math.max(floors.highest[group]!, ...answers.map(({ fences }) => fences[group]!)));
  }

  /** What an operator has to put right is an error of the boot, or is told. */
  private refuse(error: LockStoreError): void {
    const isKnown = this.refusedWith !== undefined;
    this.refusedWith = error;
    if (isKnown || this.redlock.isClosed || this.redlock.startedAt === undefined) return;
    this.tell('error', `refused ${this.name}`, `Locks: ${this.name} is not used until this is put right: ${error.message}`);
  }

  /** Its server does not serve. */
  away(reason: string): void {
    const { quorum, nodes, serving } = this.redlock;
    // The loss of the quorum has words of its own, because no lock can be had then.
    const [kind, next] =
      serving >= quorum
        ? ['node lost', 'which is a quorum: locks go on.']
        : ['store lost', 'which is no quorum: no lock can be granted until more of them are back, and leases end unless they can be renewed in time.'];
    this.tell('warning', kind, `Locks: the Redlock node ${this.name} does not serve: ${reason.replace(/\.$/, '')}. ${serving} of ${nodes.length} nodes serve, ${next}`);
  }

  /** Its server serves again, after so long. */
  back(afterMs: number): void {
    const { quorum, nodes, serving } = this.redlock;
    const [kind, next] = serving === quorum ? ['store back', ': there is a quorum again.'] : ['node back', '.'];
    this.tell('info', kind, `Locks: the Redlock node ${this.name} serves again, after ${lasted(afterMs)}. ${serving} of ${nodes.length} nodes serve${next}`);
  }

  /** It may have forgotten what it granted, and grants nothing for `leftMs` at least. */
  private tellForgot(leftMs: number): void {
    const { clock, nodes, quorum } = this.redlock;
    const at = new Date(clock.wallNow() + leftMs).toISOString();
    const until = leftMs > 0 ? `until ${at} (for ${lasted(leftMs)}), when all leases that it may have forgotten have ended` : 'until the last fences are told to it';
    const rest =
      nodes.filter(({ outMemory }) => outMemory === undefined).length >= quorum
        ? 'The other nodes are a quorum and go on.'
        : 'With it there is no quorum left, and no lock can be granted until then. If all nodes are new, and nothing was ever locked there, `npx holdfast redlock init` ends this at once.';
    this.tell('warning', `forgot ${this.name}`, `Locks: the Redlock node ${this.name} is new, was restarted or flushed. It grants nothing ${until}. ${rest}`);
  }

  private tell(level: ReportLevel, kind: string, message: string): void {
    this.redlock.options.report({ kind, level, message });
  }
}
