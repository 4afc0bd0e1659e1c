/**
 * The name of the memory that the server has for each slot group, as it was answered on the present connection (memory.lua). Each
 * request that may grant carries the name: while the server's record has the same one, the script need not find out who it is.
 *
 *     unknown ──(recall answered)──▶ known ──(the connection ended, a node came or went)──▶ unknown …
 *
 * The recall also tells the server the fences that this process has seen, and begins the recovery of a server that forgot. Its
 * answer is compared with the name that was known before: when the names differ, the leases that an earlier memory knew are renewed.
 */
import { delay, type Clock, type Timer } from '../../core/port/clock.js';
import type { StoreRecovery } from '../../core/port/store-summary.js';
import { readRecallGroup, readRecallHead, recallCall, recallHeadSize } from '../wire/lua.generated.js';
import { listOf } from '../wire/lock-reply.js';
import { NO_SERVER, SLOT_GROUPS, UNKNOWN_MEMORY, type RedisKeys } from '../wire/redis-keys.js';
import type { ScriptRunner } from '../wire/script-runner.js';
import { marginOf } from '../wire/server-clock.js';
import type { Trust } from './trust.js';

/** The pause after a recall that failed, in ms. */
const RETRY_MS = 100;
/** A recall without an answer is sent again after this long, in ms: a late answer counts all the same. */
const ANSWERS_WITHIN_MS = 300;
/** How long nodes that come and go are followed by no other recall than the first, in ms. A node that is down does so ten times a second. */
const NODES_SETTLE_MS = 300;
/** How long a new connection waits with its recall for the subscription, after which a recall has to follow in any case, in ms. */
const AFTER_SUBSCRIPTION_MS = 300;

export interface MemoriesParts {
  readonly runner: ScriptRunner;
  readonly keys: RedisKeys;
  readonly trust: Trust;
  readonly clock: Clock;
  readonly node: string;
  readonly isCluster: boolean;
  readonly recoveryMs: number;
  /** Called when a group has another memory than before, so that the leases that the earlier one knew may be forgotten. */
  changed(): void;
}

/** What one command asks about. */
interface Question {
  readonly groups: readonly number[];
  /** Whether it has to be sent once more. */
  isWanted: boolean;
  /** Whether it is being asked at present. */
  isOut: boolean;
}

export class Memories implements StoreRecovery {
  recoveries = 0;
  /** The memories that were answered on the present connection, by slot group. */
  private known: string[] = unknownMemories();
  /** The memories that were answered last, also on earlier connections, by slot group. */
  private readonly last: string[] = unknownMemories();
  private connection = 0;
  /** In a Cluster there is one for each group, which may have another master than the others. */
  private readonly questions: readonly Question[];
  private hasChanged = false;
  private later: Timer | undefined;
  /** Runs for {@link NODES_SETTLE_MS} after a node came or went. */
  private settling: Timer | undefined;
  /** Whether another node came or went meanwhile. */
  private hasChangedAgain = false;
  private state: 'closed' | 'open' = 'closed';
  /** The local instant at which the recovery ends, as far as the server has said. */
  private openAt = -Infinity;

  constructor(private readonly parts: MemoriesParts) {
    const groups = Array.from({ length: SLOT_GROUPS }, (_, group) => group);
    this.questions = (parts.isCluster ? groups.map((group) => [group]) : [groups]).map((some) => ({ groups: some, isWanted: false, isOut: false }));
  }

  /** Recalls the memories for the first time, at boot. Rejects with LockStoreError. */
  async learnAtBoot(): Promise<void> {
    await Promise.all(this.questions.map(({ groups }) => this.ask(groups)));
    this.state = 'open';
    // The connection may have been replaced meanwhile.
    if (this.known.includes(UNKNOWN_MEMORY)) this.recall();
  }

  /** Waits for the end of a recovery, so that an application that starts on an empty server is not refused its first locks. */
  async recovered(atMostMs: number): Promise<void> {
    const leftMs = Math.min(this.openAt - this.parts.clock.now(), atMostMs);
    if (leftMs > 0) await delay(this.parts.clock, leftMs);
  }

  get recoversForMs(): number {
    return Math.max(0, this.openAt - this.parts.clock.now());
  }

  close(): void {
    this.state = 'closed';
    this.stopTimer();
    if (this.settling !== undefined) this.parts.clock.clearTimer(this.settling);
    this.settling = undefined;
  }

  of(group: number): string {
    return this.known[group]!;
  }

  /** The memory of a group; undefined while it is not known. */
  knownOf(group: number): string | undefined {
    const memory = this.of(group);
    return memory === UNKNOWN_MEMORY ? undefined : memory;
  }

  /** Why a restart of the server cannot be noticed, when the server does not say who it is; else undefined. */
  get blindness(): string | undefined {
    if (!this.known.some((memory) => memory.startsWith(NO_SERVER))) return undefined;
    return (
      `Locks: ${this.parts.node} does not tell its user who it is, so a restart or a failover that loses data is not noticed: two may hold a lock then. ` +
      'Allow +info (and +cluster|myid on a Cluster).'
    );
  }

  /** Forgets the memories of this connection, because another server may answer on the next one. */
  reset(): void {
    this.connection += 1;
    this.known = unknownMemories();
  }

  /** Whether the server has another memory than this one by now, as far as this process knows. */
  isOutdated(group: number, memory: string | undefined): boolean {
    const known = this.known[group];
    return known !== memory && known !== UNKNOWN_MEMORY;
  }

  /**
   * Compares the memory that has granted or brought back a lease with the one that is known. If they differ, either the answer is
   * older than the last recall, so that the lease may be forgotten, or the message of the new memory was missed.
   */
  compare(group: number, memory: string | undefined): void {
    if (!this.isOutdated(group, memory)) return;
    this.tellOfChange();
    this.recall();
  }

  /** Hears that the server has this memory. If that is news, all memories are recalled, and the leases that others knew are renewed then. */
  hear(memory: string): void {
    if (!this.known.includes(memory)) this.recall();
  }

  /** Asks for all memories, and repeats that until it is answered. A call that comes meanwhile makes it ask once more. */
  recall(): void {
    this.stopTimer();
    if (this.state === 'open') for (const question of this.questions) void this.askUntilAnswered(question);
  }

  /** Recalls after a node of a Cluster came or went, while the others serve on: at once, and then once for all that follow shortly. */
  recallAfterChange(): void {
    if (this.state !== 'open') return;
    this.hasChangedAgain = this.settling !== undefined;
    if (this.hasChangedAgain) return;
    this.recall();
    this.settling = this.parts.clock.setTimer(() => {
      this.settling = undefined;
      if (this.hasChangedAgain) this.recallAfterChange();
    }, NODES_SETTLE_MS);
  }

  /**
   * Recalls on a new connection. The subscription is made anew as well, and a recall follows it, because messages may have been
   * missed before it: one recall serves both, unless the subscription takes too long.
   */
  recallSoon(): void {
    this.stopTimer();
    if (this.state === 'open') this.later = this.parts.clock.setTimer(() => this.recall(), AFTER_SUBSCRIPTION_MS);
  }

  /** Each question is repeated by itself, because a master of a Cluster that is silent must not hold up the others. */
  private async askUntilAnswered(question: Question): Promise<void> {
    question.isWanted = true;
    if (question.isOut) return;
    question.isOut = true;
    while (question.isWanted && this.state === 'open') {
      question.isWanted = false;
      const { connection } = this;
      try {
        await this.ask(question.groups, ANSWERS_WITHIN_MS);
      } catch {
        await delay(this.parts.clock, RETRY_MS);
        // When there is no connection, the next one recalls the memories anyway.
        question.isWanted ||= connection === this.connection;
      }
    }
    question.isOut = false;
  }

  private learn(groups: readonly number[], memories: readonly string[]): void {
    groups.forEach((group, at) => {
      const memory = memories[at]!;
      this.known[group] = memory;
      if (this.last[group] !== UNKNOWN_MEMORY && this.last[group] !== memory) this.tellOfChange();
      this.last[group] = memory;
    });
  }

  /** Tells of it in the next turn of the event loop: by then all leases are known whose grants were answered before. */
  private tellOfChange(): void {
    if (this.hasChanged) return;
    this.hasChanged = true;
    this.parts.clock.nextTurn(() => {
      this.hasChanged = false;
      if (this.state === 'open') this.parts.changed();
    });
  }

  private stopTimer(): void {
    if (this.later !== undefined) this.parts.clock.clearTimer(this.later);
    this.later = undefined;
  }

  private ask(groups: readonly number[], timeoutMs?: number): Promise<void> {
    const { runner, keys, trust, recoveryMs } = this.parts;
    const { connection } = this;
    const fenceKeys = groups.map((group) => keys.fence(group));
    const call = recallCall({ fenceKeys }, { recoveryMs, floors: groups.map((group) => trust.floors.of(group)) });
    return runner.run({ ...call, timeoutMs }, (reply, sentAt, receivedAt) => {
      const told = listOf(reply);
      const { now, recoversForMs } = readRecallHead(told);
      if (recoversForMs > 0) this.recovering(receivedAt, recoversForMs + marginOf(recoversForMs));
      trust.observe(groups[0]!, { sentAt, receivedAt, serverNow: now });
      // Another server may answer on the present connection, which has its own recall.
      if (connection !== this.connection) return;
      this.learn(groups, groups.map((_, n) => readRecallGroup(told, recallHeadSize + n).memory));
    });
  }

  private recovering(now: number, forMs: number): void {
    // A recovery that begins while this process boots is that of a server that was empty.
    if (now > this.openAt && this.state === 'open') this.recoveries += 1;
    this.openAt = Math.max(this.openAt, now + forMs);
  }
}

function unknownMemories(): string[] {
  return new Array<string>(SLOT_GROUPS).fill(UNKNOWN_MEMORY);
}
