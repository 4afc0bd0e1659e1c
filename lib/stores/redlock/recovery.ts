/**
 * Brings back nodes that lost their memory. A node notices by itself that it did (shared/epoch.lua) and refuses grants for
 * maxLeaseMs. Then all leases that it forgot have ended. The fences that it forgot it has to get from the others.
 *
 *     greeted ──▶ whole                                                    votes
 *        └──▶ quarantined ──(maxLeaseMs)──▶ surveying ──▶ admitted         votes
 *                                             └──(not enough others)──▶ asked again later
 *
 * The fences come from a quorum among the *other* nodes that remember all they granted: each earlier grant stands on at least
 * one of those. They are read after the quarantine, when no grant for which the node had voted can still be on its way. When so many nodes lost
 * their memory that no such quorum is left (or all are new), fences start from what all that can be asked remember, from what
 * the processes have seen, and from their clocks. Nodes that were out together count as forgetful for each other, also when one
 * of them is admitted first. A node that is silent is believed to remember: replace it if it is dead.
 */
import type { Clock, Timer } from '../../core/port/clock.js';
import { SLOT_GROUPS } from '../wire/redis-keys.js';
import type { FenceFloors } from '../wire/fence-floors.js';
import type { Deadlines } from './deadlines.js';
import { answersOf, hearing, poll, type Reply } from './poll.js';
import type { MemoryLog } from './memory-log.js';
import type { Memory, Survey } from './node-memory.js';
import { quorumOf } from './quorum.js';
import type { RedlockNode } from './redlock-node.js';

export interface RecoverySurroundings {
  readonly nodes: readonly RedlockNode[];
  readonly clock: Clock;
  readonly deadlines: Deadlines;
  readonly commandTimeoutMs: number;
  readonly floors: FenceFloors;
  readonly log: MemoryLog;
}

/** All processes see the end of a quarantine at the same time; within this many ms each acts at a random instant. */
const SPREAD_MS = 100;
/** The pause before a node is greeted again that did not answer, or could not be let in, in ms. */
const GREETS_AGAIN_AFTER_MS = 500;
/** How long the other nodes have to tell their fences, in ms. */
const SURVEYED_WITHIN_MS = 500;
/** A node in quarantine is greeted at least this often, in ms, because an operator may end its quarantine early. */
const GREETED_EVERY_MS = 2_000;

export class Recovery {
  private readonly attending = new Set<RedlockNode>();
  private readonly timers = new Map<RedlockNode, Timer>();
  /** The run id of each node that was reported, so that each loss of memory is reported once. */
  private readonly reported = new Map<RedlockNode, string>();
  /** For each node that is out, the nodes that were out at some time since then. */
  private readonly outTogether = new Map<RedlockNode, Set<RedlockNode>>();
  private closed = false;

  constructor(private readonly around: RecoverySurroundings) {}

  /** Greets a node that has just been connected or refused to vote because it forgot, and greets it again until it may vote. */
  async attend(node: RedlockNode): Promise<void> {
    if (this.attending.has(node) || this.closed) return;
    this.attending.add(node);
    this.cancelTimer(node);
    let againInMs: number | undefined = GREETS_AGAIN_AFTER_MS;
    try {
      const memory = await node.memory.greet(this.seen());
      // A server that is a node already is greeted as that one.
      againInMs = node.link.twin === undefined ? await this.lookAt(node, memory) : undefined;
    } catch {
      // A node without a connection is greeted when it is connected again.
      if (!node.link.reachable) againInMs = undefined;
    } finally {
      this.attending.delete(node);
      if (againInMs !== undefined) this.attendIn(node, againInMs);
    }
  }

  close(): void {
    this.closed = true;
    this.around.log.close();
    for (const node of [...this.timers.keys()]) this.cancelTimer(node);
  }

  /** Returns in how many ms the node should be greeted again; undefined when it votes. */
  private async lookAt(node: RedlockNode, memory: Memory): Promise<number | undefined> {
    if (memory.whole) {
      this.outTogether.delete(node);
      if (this.reported.delete(node)) this.around.log.votes(node.name);
      return undefined;
    }
    this.tell(node, memory);
    if (memory.leftMs > 0) return Math.min(memory.leftMs, GREETED_EVERY_MS) + SPREAD_MS * Math.random();
    const fences = await this.survey(node);
    if (fences === undefined) return GREETS_AGAIN_AFTER_MS * (0.5 + Math.random());
    return (await node.memory.admit(memory, fences)) ? 0 : GREETS_AGAIN_AFTER_MS;
  }

  /** For each slot group the fence that all new fences must exceed; undefined while too few nodes that may remember it answer. */
  private async survey(node: RedlockNode): Promise<readonly number[] | undefined> {
    const { nodes, deadlines, commandTimeoutMs, floors, log } = this.around;
    const quorum = quorumOf(nodes.length);
    const others = nodes.filter((other) => other !== node);
    const replies = await poll({
      nodes: others,
      deadlines,
      timeoutMs: Math.min(commandTimeoutMs, SURVEYED_WITHIN_MS),
      ask: (other, hear) => hearing(other.memory.survey(), hear),
      decide: (replies: ReadonlyMap<RedlockNode, Reply<Survey>>) => (replies.size === others.length ? new Map(replies) : undefined),
    });
    const answers = answersOf(replies);
    const surveys = answers.map(([, survey]) => survey);
    const whole = surveys.filter((survey) => survey.whole).length;
    const out = answers.filter(([, survey]) => !survey.whole).map(([other]) => other);
    const forgetful = new Set([node, ...out, ...(this.outTogether.get(node) ?? [])]).size;
    if (whole < quorum && nodes.length - forgetful >= quorum) return undefined;
    if (whole < quorum) log.quorumForgot(forgetful);
    return Array.from({ length: SLOT_GROUPS }, (_, group) => Math.max(floors.of(group), ...surveys.map(({ fences }) => fences[group] ?? 0)));
  }

  private tell(node: RedlockNode, { runId, since, leftMs }: Memory): void {
    const incarnation = `${runId} ${since}`;
    if (this.reported.get(node) === incarnation) return;
    this.reported.set(node, incarnation);
    for (const others of this.outTogether.values()) others.add(node);
    this.outTogether.set(node, new Set(this.outTogether.keys()));
    this.around.log.forgot(node.name, leftMs);
  }

  private seen(): ReadonlyMap<number, number> {
    const seen = new Map<number, number>();
    for (let group = 0; group < SLOT_GROUPS; group++) if (this.around.floors.of(group) > 0) seen.set(group, this.around.floors.of(group));
    return seen;
  }

  private attendIn(node: RedlockNode, delayMs: number): void {
    if (this.closed) return;
    this.timers.set(node, this.around.clock.setTimer(() => void this.attend(node), delayMs));
  }

  private cancelTimer(node: RedlockNode): void {
    const timer = this.timers.get(node);
    if (timer !== undefined) this.around.clock.clearTimer(timer);
    this.timers.delete(node);
  }
}
