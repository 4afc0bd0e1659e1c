/**
 * The name of the memory that the server has for each slot group, as it was answered on the present connection (memory.lua). Each
 * request that may grant carries the name: while the server's record has the same one, the script need not find out who it is.
 *
 *     unknown ──(recall answered)──▶ known ──(the connection ended, a node came or went)──▶ unknown …
 *
 * The recall also tells the server the fences that this process has seen, and begins the recovery of a server that forgot. Its
 * answer is compared with the name that was known before: when the names differ, all leases of this process are renewed at once.
 */
import { delay, type Clock } from '../../core/port/clock.js';
import type { StoreRecovery } from '../../core/port/store-summary.js';
import { readRecallGroup, readRecallHead, recallCall, recallHeadSize } from '../wire/lua.generated.js';
import { listOf } from '../wire/lock-reply.js';
import { NO_SERVER, SLOT_GROUPS, UNKNOWN_MEMORY, type RedisKeys } from '../wire/redis-keys.js';
import type { ScriptRunner } from '../wire/script-runner.js';
import { marginOf } from '../wire/server-clock.js';
import type { Trust } from './trust.js';

/** The pause after a recall that failed, in ms. */
const RETRY_MS = 100;

export interface MemoriesParts {
  readonly runner: ScriptRunner;
  readonly keys: RedisKeys;
  readonly trust: Trust;
  readonly clock: Clock;
  readonly node: string;
  readonly isCluster: boolean;
  readonly recoveryMs: number;
  /** Called when a group has another memory than before, so that the leases in it may be forgotten. */
  changed(): void;
}

export class Memories implements StoreRecovery {
  recoveries = 0;
  /** The memories that were answered on the present connection, by slot group. */
  private known: string[] = unknownMemories();
  /** The memories that were answered last, also on earlier connections, by slot group. */
  private readonly last: string[] = unknownMemories();
  private connection = 0;
  private wanted = false;
  private recalling: Promise<void> | undefined;
  private state: 'closed' | 'open' = 'closed';
  /** The local instant at which the recovery ends, as far as the server has said. */
  private openAt = -Infinity;

  constructor(private readonly parts: MemoriesParts) {}

  /** Recalls the memories for the first time, at boot. Rejects with LockStoreError. */
  async learnAtBoot(): Promise<void> {
    await this.recallOnce();
    this.state = 'open';
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

  /** Whether this process did not know yet that the server has this memory. */
  isNews(memory: string): boolean {
    return this.state === 'open' && !this.known.includes(memory);
  }

  /** Asks for all memories, and repeats that until it is answered. A call that comes meanwhile makes it ask once more. */
  recall(): void {
    this.wanted = true;
    if (this.state === 'open') this.recalling ??= this.recallUntilAnswered().finally(() => (this.recalling = undefined));
  }

  private async recallUntilAnswered(): Promise<void> {
    while (this.wanted && this.state === 'open') {
      this.wanted = false;
      const { connection } = this;
      try {
        await this.recallOnce();
      } catch {
        await delay(this.parts.clock, RETRY_MS);
        // When there is no connection, the next one recalls the memories anyway.
        this.wanted ||= connection === this.connection;
      }
    }
  }

  private async recallOnce(): Promise<void> {
    const { isCluster } = this.parts;
    const groups = Array.from({ length: SLOT_GROUPS }, (_, group) => group);
    const { connection } = this;
    const told = isCluster ? await Promise.all(groups.map((group) => this.ask([group]))) : [await this.ask(groups)];
    if (connection !== this.connection) return void (this.wanted = true);
    this.learn(told.flat());
  }

  private learn(memories: readonly string[]): void {
    let hasChanged = false;
    memories.forEach((memory, group) => {
      this.known[group] = memory;
      hasChanged ||= this.last[group] !== UNKNOWN_MEMORY && this.last[group] !== memory;
      this.last[group] = memory;
    });
    if (hasChanged) this.parts.changed();
  }

  private ask(groups: readonly number[]): Promise<string[]> {
    const { runner, keys, trust, recoveryMs } = this.parts;
    const fenceKeys = groups.map((group) => keys.fence(group));
    return runner.run(recallCall({ fenceKeys }, { recoveryMs, floors: groups.map((group) => trust.floors.of(group)) }), (reply, sentAt, receivedAt) => {
      const told = listOf(reply);
      const { now, recoversForMs } = readRecallHead(told);
      if (recoversForMs > 0) this.recovering(receivedAt, recoversForMs + marginOf(recoversForMs));
      trust.observe(groups[0]!, { sentAt, receivedAt, serverNow: now });
      return groups.map((_, n) => readRecallGroup(told, recallHeadSize + n).memory);
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
