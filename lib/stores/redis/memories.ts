/**
 * The name of the memory that the server has for each slot group, as it was answered on the present connection (memory.lua). Each
 * request that may grant carries the name: while the server's record has the same one, the script need not find out who it is.
 *
 *     unknown ──(recall answered)──▶ known ──(the connection ended, a node came or went)──▶ unknown …
 *
 * The recall also tells the server the fences that this process has seen, and begins the recovery of a server that forgot. Its
 * answer is compared with the name that was known before: when the names differ, the leases that an earlier memory knew are renewed.
 * When the memories are recalled is decided in recalls.ts.
 */
import { delay, type Clock } from '../../core/port/clock.js';
import type { StoreRecovery } from '../../core/port/store-summary.js';
import { readRecallGroup, readRecallHead, recallCall, recallHeadSize } from '../wire/lua.generated.js';
import { listOf } from '../wire/lock-reply.js';
import { NO_SERVER, SLOT_GROUPS, UNKNOWN_MEMORY, type RedisKeys } from '../wire/redis-keys.js';
import type { ScriptRunner } from '../wire/script-runner.js';
import { marginOf } from '../wire/server-clock.js';
import { Recalls } from './recalls.js';
import type { Trust } from './trust.js';

/** Behind so many characters for the server, the name of a memory is the server time in ms from which it counts. */
const SERVER_LENGTH = NO_SERVER.length;

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

export class Memories implements StoreRecovery {
  recoveries = 0;
  readonly recalls: Recalls;
  /** The memories that were answered on the present connection, by slot group. */
  private known: string[] = unknownMemories();
  /** The memories that were answered last, also on earlier connections, by slot group. */
  private readonly last: string[] = unknownMemories();
  private connection = 0;
  /** Whether {@link MemoriesParts.changed} is called in the next turn of the event loop. */
  private willTell = false;
  /** The local instant at which the recovery ends, as far as the server has said. */
  private openAt = -Infinity;

  constructor(private readonly parts: MemoriesParts) {
    const groups = Array.from({ length: SLOT_GROUPS }, (_, group) => group);
    // In a Cluster each group may have another master than the others.
    const together = parts.isCluster ? groups.map((group) => [group]) : [groups];
    this.recalls = new Recalls({ clock: parts.clock, together, ask: (some, timeoutMs) => this.ask(some, timeoutMs), connection: () => this.connection });
  }

  /** Recalls the memories for the first time, at boot. Rejects with LockStoreError. */
  async learnAtBoot(): Promise<void> {
    await this.recalls.begin();
    // The connection may have been replaced meanwhile.
    if (this.known.includes(UNKNOWN_MEMORY)) this.recalls.atOnce();
  }

  /** Waits for the end of a recovery, so that an application that starts on an empty server is not refused its first locks. */
  async recovered(atMostMs: number): Promise<void> {
    const leftMs = Math.min(this.openAt - this.parts.clock.now(), atMostMs);
    if (leftMs > 0) await delay(this.parts.clock, leftMs);
  }

  get recoversForMs(): number {
    return Math.max(0, this.openAt - this.parts.clock.now());
  }

  of(group: number): string {
    return this.known[group]!;
  }

  /** The memory of a group; undefined while it is not known. */
  knownOf(group: number): string | undefined {
    const memory = this.of(group);
    return memory === UNKNOWN_MEMORY ? undefined : memory;
  }

  /**
   * The memory that made a grant at this server time; undefined while it is not known, and when the present memory began only after
   * that, so that it may have forgotten the grant.
   */
  madeBy(group: number, serverTime: number): string | undefined {
    const memory = this.knownOf(group);
    return memory !== undefined && beganBy(memory, serverTime) ? memory : undefined;
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
    this.recalls.atOnce();
  }

  /** Hears that the server has this memory. If that is news, all memories are recalled, and the leases that others knew are renewed then. */
  hear(memory: string): void {
    if (!this.known.includes(memory)) this.recalls.atOnce();
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
    if (this.willTell) return;
    this.willTell = true;
    this.parts.clock.nextTurn(() => {
      this.willTell = false;
      if (this.recalls.isOpen) this.parts.changed();
    });
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
    if (now > this.openAt && this.recalls.isOpen) this.recoveries += 1;
    this.openAt = Math.max(this.openAt, now + forMs);
  }
}

/** Whether a memory that is known had begun by this time of its server. */
export function beganBy(memory: string, serverTime: number): boolean {
  return Number(memory.slice(SERVER_LENGTH)) <= serverTime;
}

function unknownMemories(): string[] {
  return new Array<string>(SLOT_GROUPS).fill(UNKNOWN_MEMORY);
}
