/**
 * One simulated world: servers, processes with the whole library in each, the ways between them, and those who watch. What
 * happens to it is decided by the nemesis and by the callers.
 */
import { wholeNode } from './whole-node.js';
import { LockService } from '../../lib/lock.service.js';
import { RedlockStore } from '../../lib/stores/redlock/redlock-store.js';
import { RedisStore } from '../../lib/stores/redis/redis-store.js';
import { decodeKey, encodeKey, FORMAT_VERSION, RedisKeys } from '../../lib/stores/wire/redis-keys.js';
import type { LockStoreError } from '../../lib/core/port/errors.js';
import type { LockStore } from '../../lib/core/port/lock-store.js';
import type { Finding } from '../../lib/core/port/lock-events.js';
import type { HistoryEvent } from '../model/history.js';
import { ForcedReleases } from './forced-releases.js';
import { PhaseJudge } from './phase-judge.js';
import type { Fault, Plan } from './plan.js';
import type { Random } from './random.js';
import { acquire, bringBack, forceRelease } from '../../lib/stores/wire/lua.generated.js';
import { RecordCheck, readHolders, type Holder } from './record-check.js';
import { RecordingStore, type Recorder } from './recording-store.js';
import { driftOf, lockKeyOf, type Setting } from './setting.js';
import { SimProcess } from './sim-process.js';
import type { ScriptWatch, SimServer } from './sim-server.js';
import { Way } from './sim-socket.js';
import { settingOf } from './topologies.js';
import { VirtualTime } from './virtual-time.js';
import { Witness } from './witness.js';

export interface Member {
  readonly process: SimProcess;
  readonly locks: LockService;
  readonly ways: readonly Way[];
  /** It was told to shut down. */
  closing: boolean;
  opened: boolean;
}

/** A message, and a renewal there and back. */
const TOLD_WITHIN_MS = 25;
/** A renewal that is a little late, there and back. */
const TOLD_BY_A_RENEWAL_MS = 50;
/** With no other faults, renewals get through. */
const TELLING: ReadonlySet<Fault> = new Set<Fault>(['force release', 'deaf', 'crash']);
/** So long after a server forgot it, the processes that run have written the wire format again, in ms. */
const FORMAT_BACK_WITHIN_MS = 3_000;
/** How long a process with another wire format tries to boot, in ms. */
const OTHER_BOOT_TIMEOUT_MS = 5_000;
/** So long after a failed boot nothing of it is left, in ms. */
const OTHER_GONE_WITHIN_MS = 2_000;

export class World implements Recorder {
  readonly time = new VirtualTime();
  readonly history: HistoryEvent[] = [];
  private readonly crashed = new Set<string>();
  readonly happened: string[] = [];
  readonly violations: string[] = [];
  readonly setting: Setting;
  readonly members: Member[] = [];
  readonly records = new RecordCheck();
  readonly witness: Witness;
  readonly phases: PhaseJudge;
  /** On a Redlock. */
  readonly forced: ForcedReleases | undefined;
  storeCalls = 0;
  readonly handedOff = new Set<string>();
  /** Until when two holders are excused, and since when none is promised. */
  excusedUntil = -Infinity;
  private wentBackAt = -Infinity;
  /** Until when fences are not compared: whoever saw the highest may not have told it to a server whose clock is behind. */
  fencesExcusedUntil = -Infinity;
  /** When the server lost its memory last. */
  forgottenAt = -Infinity;
  private joined = 0;
  /** A process with another wire format may have written it, on a server that forgot the present one. */
  isFormatDisputed = false;

  /** When an operator called for a forced release last. */
  forcedAt = -Infinity;
  /** Processes that did not reach all nodes, until when. */
  readonly hindered = new Map<SimProcess, number>();
  /** By how much clocks of servers were set back in all, in ms: what was taken before ends so much later. */
  setBackMs = 0;

  constructor(readonly plan: Plan, readonly random: Random, private readonly tracing: boolean) {
    this.setting = settingOf(plan, this.time, random);
    for (const server of this.servers) {
      server.watch = plan.topology === 'redlock' ? this.watchNode : this.watch;
      // As after a quarantine: nothing was granted before the world began.
      if (plan.topology === 'redlock') for (const [key, value] of wholeNode('lock', server.runId, server.nowMs())) server.put(key, value);
    }
    if (plan.topology === 'redlock') this.forced = this.forcedReleases();
    this.witness = new Witness(() => this.time.now, {
      overlap: (at) => at <= this.excusedUntil,
      blind: (at) => at >= this.wentBackAt && at <= this.wentBackAt + TOLD_WITHIN_MS,
      fences: (at) => at <= Math.max(this.excusedUntil, this.fencesExcusedUntil),
      knows: (key, fence, forMs) => this.stands(key, fence, forMs),
      forced: (key, fence) => this.forced?.excuses(key, fence) === true,
      fencesByProcess: plan.faults.includes('clock jump') && plan.faults.includes('empty restart'),
    });
    this.phases = new PhaseJudge(() => this.time.now, this.orderIsPromised);
  }

  get servers(): readonly SimServer[] {
    return this.setting.servers;
  }

  /** Whether the order of service can be promised: nobody was silent, nothing was forgotten. */
  get orderIsPromised(): boolean {
    return this.plan.topology !== 'redlock' && this.plan.faults.length === 0;
  }

  /** Whether nobody may be passed again and again: all nodes and processes are there, and no owner passes those who wait. */
  get turnsArePromised(): boolean {
    return this.plan.topology === 'redlock' && this.plan.faults.length === 0 && this.plan.fancy === 0;
  }

  /** A former master may still grant what the present one grants. */
  get isParted(): boolean {
    return !this.plan.certain && this.setting.replicated.some(({ former }) => former !== undefined);
  }

  /** Whether requests may have heard what excludes each other: then the witness alone judges who holds. */
  get historyIsExcused(): boolean {
    const { excusedUntil, fencesExcusedUntil, plan, forgottenAt } = this;
    const isForgotten = this.setting.replicated.length > 0 && forgottenAt > 0 && !plan.certain;
    // A request hears of a grant before the library sees that the machine slept meanwhile.
    if (this.members.some(({ process }) => process.hasSlept)) return true;
    return excusedUntil > 0 || fencesExcusedUntil > 0 || isForgotten || (plan.faults.includes('force release') && this.forced === undefined);
  }

  /** How a key stands in Redis. */
  encoded(key: string): string {
    return encodeKey(key);
  }

  note(what: string): void {
    const line = `${this.time.now.toFixed(3).padStart(12)}  ${what}`;
    this.happened.push(line);
    if (this.tracing) console.log(line);
  }

  /** A server lost its memory, all of it or the last of it. */
  forgets(server: SimServer): void {
    const { plan, records, witness, time } = this;
    // A part of a lock is left on the other server.
    if (this.setting.moves?.(server) === true) records.lenient = true;
    const longestMs = Math.max(...plan.leasesMs);
    this.forgottenAt = time.now;
    records.forget();
    if (plan.recoveryMs === 0) return this.excuse(longestMs);
    // Clocks of a master and its replica go together, and nothing new is granted for longer than they are apart.
    if (this.setting.replicated.length === 0) this.fencesExcusedUntil = time.now + longestMs + plan.recoveryMs;
    if (!plan.certain && plan.recoveryMs < plan.maxLeaseMs) witness.doubtAll();
    this.losesWhatTheDeadHeld();
  }

  /** Nobody brings back the leases of a process that has crashed. */
  private losesWhatTheDeadHeld(): void {
    const held = new Map(this.history.filter(({ id }) => this.crashed.has(id.split('.')[0]!)).map(({ key, id }) => [`${key} ${id}`, { key, id }]));
    for (const { key, id } of held.values()) this.history.push({ at: this.time.now, key, id, kind: 'lost' });
  }

  /** A running server loaded older data. What it grants before those who hold have heard of it and come back is not undone. */
  goesBack(): void {
    const { plan, records, time } = this;
    const longestMs = Math.max(...plan.leasesMs);
    this.forgottenAt = this.wentBackAt = time.now;
    records.forget();
    this.fencesExcusedUntil = time.now + longestMs + plan.recoveryMs;
    this.excuse(plan.recoveryMs === 0 ? longestMs : TOLD_WITHIN_MS);
  }

  /** From here on, and for a lease, the store does not know what it granted: no exclusion is promised. */
  excuse(forMs: number): void {
    this.excusedUntil = Math.max(this.excusedUntil, this.time.now + forMs);
  }

  /** A process starts. */
  async join(): Promise<Member> {
    const { plan, time, random } = this;
    const process = new SimProcess(`p${++this.joined}`, time, random.fork(), driftOf(random));
    const ways = this.servers.map((server) => new Way(process, server, random.fork(), time));
    const store = new RecordingStore(this.storeFor(process, ways), process, this);
    const { commandTimeoutMs, maxLeaseMs, handOn } = plan;
    const locks = new LockService({ store, process: process.name, clock: process.clock, commandTimeoutMs, maxLeaseMs, handOn, shutdownGraceMs: 1_500 });
    const member: Member = { process, locks, ways, closing: false, opened: false };
    this.members.push(member);
    this.note(`${process.name} starts`);
    await locks.open().catch((error: unknown) => {
      process.crash();
      throw error;
    });
    member.opened = true;
    return member;
  }

  /**
   * A process with another wire format boots. It must be refused, for the others write the format again on a server that forgot it; it may be let in only while they have not heard of that. Returns what was found wrong.
   */
  async bootsWithOtherFormat(): Promise<string | undefined> {
    const { time, random } = this;
    const process = new SimProcess(`p${++this.joined}`, time, random.fork(), driftOf(random));
    const ways = this.servers.map((server) => new Way(process, server, random.fork(), time));
    const store = this.storeFor(process, ways, { bootTimeoutMs: OTHER_BOOT_TIMEOUT_MS });
    for (const { redis } of store instanceof RedlockStore ? store.nodes.map((node) => node.store) : [store as RedisStore]) Object.assign(redis.format, { version: 1 });
    const began = time.now;
    this.isFormatDisputed = true;
    const error = await store.open().then(() => undefined, (reason: LockStoreError) => reason);
    this.note(`${process.name} ${error === undefined ? 'was let in' : `was not let in: ${error.message}`}`);
    const isForgotten = this.forgottenAt + FORMAT_BACK_WITHIN_MS > began;
    await store.close();
    if (error === undefined) this.putFormatRight();
    await new Promise<void>((resolve) => void time.after(OTHER_GONE_WITHIN_MS, resolve));
    this.isFormatDisputed = false;
    const left = process.timers.size + ways.reduce((sum, way) => sum + way.sockets.size, 0);
    process.crash();
    if (left > 0) return `${process.name} has ${left} timers and connections after its boot failed`;
    return error === undefined && !isForgotten ? `${process.name} was let in with another wire format` : undefined;
  }

  /** As an operator does who is told that two formats are in use. */
  private putFormatRight(): void {
    const { format } = new RedisKeys('lock');
    for (const server of this.servers) {
      const text = server.text(format);
      if (text !== undefined) server.put(format, text.replace(/version=\d+/, `version=${FORMAT_VERSION}`));
    }
  }

  crash(member: Member): void {
    this.note(`${member.process.name} crashes`);
    member.process.crash();
    this.crashed.add(member.process.name);
    this.witness.forget(member.process);
    for (const way of member.ways) for (const socket of [...way.sockets]) socket.cut(false);
  }

  /** Something was found wrong. */
  get broken(): boolean {
    return this.found.length > 0;
  }

  /** All that was found wrong so far. */
  get found(): string[] {
    return [...this.violations, ...this.witness.violations, ...this.phases.violations, ...this.records.violations, ...(this.forced?.violations ?? [])];
  }

  /** Whether the server that decides about a lock has the lease with this fence in its records, for so long at least. */
  private stands(key: string, fence: number, forMs: number): boolean {
    const server = this.setting.homeOf(key);
    const holders = readHolders(server.text(lockKeyOf(key)) ?? '');
    return holders.some((holder) => has(holder, fence) && holder.end >= server.nowMs() + Math.max(0, forMs));
  }

  private readonly watch: ScriptWatch = (server, keys, reply, source) => {
    // What bring-back.lua refuses it leaves as it was.
    if (source !== bringBack.source && !this.isReplica(server)) this.records.after(server, keys, reply);
    if (source === bringBack.source) this.lookForSuperseded(server, keys);
    this.witness.lookForDoubted();
    if (this.setting.replicated.length > 0 && !this.plan.certain) this.lookForStrays(server, keys);
    if (source !== forceRelease.source || !Array.isArray(reply) || reply[0] !== 1) return;
    const [lockKey = '', , fenceKey = ''] = keys;
    // All holders were sent away; whoever holds it after this script was let in by it.
    const present = readHolders(server.text(lockKey) ?? '').map(({ fence }) => fence);
    this.witness.force(decodeKey(lockKey.slice(lockKey.indexOf('}:l:') + 4)), Math.min(parseInt(server.text(fenceKey) ?? '0', 10), ...present.map((fence) => fence - 1)));
  };

  private readonly watchNode: ScriptWatch = (server, keys, reply, source, run) => {
    const locks = keys.filter((redisKey) => redisKey.includes('}:l:')).map((lockKey) => decodeKey(lockKey.slice(lockKey.indexOf('}:l:') + 4)));
    if (source === acquire.source) this.forced?.voted(server, run);
    if (source === forceRelease.source && Array.isArray(reply) && reply[0] !== 2) this.forced?.ran(server, locks[0]!, run, reply[0] === 1);
    for (const key of locks) this.forced?.look(key);
  };

  renewed(id: string, sentAt: number): void {
    this.forced?.renewed(id, sentAt);
  }

  wasTold(process: SimProcess, key: string, sentAt: number): void {
    if (this.plan.topology !== 'redlock' && this.plan.recoveryMs > 0) this.witness.wasTold(process, key, sentAt);
  }

  private forcedReleases(): ForcedReleases {
    const { plan: { faults, fancy, leasesMs }, servers, history, time } = this;
    const isPrompt = fancy === 0 && faults.every((fault) => TELLING.has(fault));
    const withinMs = Math.max(...leasesMs) / 3 + TOLD_BY_A_RENEWAL_MS;
    return new ForcedReleases({
      servers, history, now: () => time.now,
      whenTold: isPrompt ? (then) => void time.after(withinMs, then) : undefined,
      whoTrusts: (key, since, isIt) => this.witness.whoTrusts(key, since, isIt).filter((process) => (this.hindered.get(process) ?? -Infinity) < since),
    });
  }

  private isReplica(server: SimServer): boolean {
    return this.setting.replicated.some(({ replication }) => replication?.replica === server);
  }

  /** A former master goes on granting and renewing, of which the present one knows nothing. */
  private lookForStrays(server: SimServer, keys: readonly string[]): void {
    for (const lockKey of keys.filter((redisKey) => redisKey.includes('}:l:'))) {
      const key = decodeKey(lockKey.slice(lockKey.indexOf('}:l:') + 4));
      if (server === this.setting.homeOf(key)) continue;
      for (const holder of readHolders(server.text(lockKey) ?? '')) this.witness.stray(key, holder.end - server.nowMs(), (fence) => has(holder, fence));
    }
  }

  /** A lease that was brought back may have taken the place of others. */
  private lookForSuperseded(server: SimServer, keys: readonly string[]): void {
    for (const lockKey of keys.filter((redisKey) => redisKey.includes('}:l:'))) {
      const key = decodeKey(lockKey.slice(lockKey.indexOf('}:l:') + 4));
      if (server !== this.setting.homeOf(key)) continue;
      const holders = readHolders(server.text(lockKey) ?? '');
      this.witness.broughtBack(key, (fence) => holders.some((holder) => has(holder, fence)));
    }
  }

  private storeFor(process: SimProcess, ways: readonly Way[], { bootTimeoutMs = 60_000 } = {}): LockStore {
    const { commandTimeoutMs, maxLeaseMs } = this.plan;
    const common = {
      prefix: 'lock',
      process: process.name,
      maxLeaseMs,
      commandTimeoutMs,
      recoveryMs: this.plan.recoveryMs,
      bootTimeoutMs,
      clock: process.clock,
      report: ({ message }: Finding) => this.note(`${process.name} reports: ${message}`),
    };
    const nodes = this.setting.connections(process, ways);
    return this.plan.topology === 'redlock' ? new RedlockStore({ ...common, nodes }) : new RedisStore({ ...common, connection: nodes[0]! });
  }
}

function has({ fence: first, fences }: Holder, fence: number): boolean {
  return first <= fence && fence < first + fences;
}
