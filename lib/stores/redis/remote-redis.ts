/**
 * The Redis, Sentinel or Cluster of a store as this process knows it: how it is reached, and what is known of its clock, its fences, its memories,
 * and the holders that it told of. The parts of the store share it.
 */
import { FIRST_LEASE_MS, type AcquireRequest, type Grant } from '../../core/port/lock-store.js';
import { Bundles } from '../wire/bundles.js';
import { Outage, outageNews } from '../wire/store-failure.js';
import { NO_SERVER, RedisKeys, SLOT_GROUPS, UNKNOWN_MEMORY, type Spot } from '../wire/redis-keys.js';
import { ScriptRunner } from '../wire/script-runner.js';
import { ServerClock, trustOf, type Exchange } from '../wire/server-clock.js';
import { WakeChannel, type PushedGrant, type ServerGrant } from '../wire/wake-channel.js';
import { WireFormat } from '../wire/wire-format.js';
import type { RedisStoreOptions } from './redis-store.js';

/** The name of the channel for what concerns every process. No process can have it. */
const ALL = '~';
/** No shard: in a Cluster this clock sample comes from any master, and only bounds until when requests may act. */
const OF_ANY_MASTER = -1;

/** What the parts of a store share. */
export type RemoteRedis = ReturnType<typeof remoteRedis>;

export function remoteRedis(options: RedisStoreOptions) {
  const { prefix, process, maxLeaseMs, commandTimeoutMs: timeoutMs, clock, recoveryMs, redlock, report } = options;
  const connections = options.connection(timeoutMs, clock);
  const { node, isCluster } = connections;
  // In a Cluster each slot group may have another master; else one server answers for all groups.
  const keys = new RedisKeys(prefix, (group) => (isCluster ? group : 0));
  const outage = new Outage(clock, redlock?.outages ?? outageNews(node, report), () => void readClock());
  const runner = new ScriptRunner(connections, clock, timeoutMs, outage);
  const trust = new Trust(redlock?.floors);
  const format = new WireFormat(runner, keys, node, clock, maxLeaseMs, (longestMs) => {
    if (recoveryMs === 'lease') redis.recoveryMs = longestMs;
  });
  /** The time of the server, or of any master of a Cluster, from a script: a server that loads its data runs none. The next reply of a script brings it as well. */
  const readClock = (): Promise<void> =>
    runner.command<[string, string], void>(['eval', "return redis.call('TIME')", 0], undefined, ([seconds, micros], sentAt, receivedAt) => {
      trust.clock.observe(OF_ANY_MASTER, { sentAt, receivedAt, serverNow: Number(seconds) * 1000 + Math.floor(Number(micros) / 1000) });
    }).catch(() => {});
  const redis = {
    connections, node, isCluster, clock, process, report, format, timeoutMs, runner, outage, keys, trust, readClock,
    bundles: new Bundles(runner), memories: new Memories(), toldHolds: new ToldHolds(format),
    channel: new WakeChannel((listening) => connections.subscribe(listening), [keys.channel(process), keys.channel(ALL)], clock),
    /** How long the server grants nothing new after it forgot, in ms. */
    recoveryMs: recoveryMs === 'lease' ? maxLeaseMs : recoveryMs,
  };
  return redis;
}

/**
 * How far a fence in a message may be ahead of the server's clock, in ms. A fence is the server's clock or shortly after it, unless
 * the clock was set back. A message with a fence further ahead is not believed: anybody who may publish could use up all fences
 * of a slot group with it.
 */
const FURTHEST_AHEAD_MS = 86_400_000;

/** The year 2112 in µs, as in limits.lua. A greater number comes from no clock, and would use up the integers of a double. */
const HIGHEST_FLOOR = 2 ** 52;

/**
 * The highest fence that this process has seen in each slot group. It is sent with each request that may grant a lock, so that a
 * server that lost its memory, or a replica that was promoted without the last writes, does not grant a fence twice.
 *
 * A server believes every floor, because its own clock may be years behind (docs/maintainers/decisions.md). So a fence may only be noted here when
 * it came in a server's answer, or was compared with that server's clock.
 */
export class FenceFloors {
  /** By slot group; 0 where none was seen. Only this object writes it. */
  readonly highest = new Float64Array(SLOT_GROUPS);

  saw(group: number, fence: number): void {
    if (fence > this.highest[group]!) this.highest[group] = Math.min(fence, HIGHEST_FLOOR);
  }
}

/**
 * Decides until when a grant may be trusted, and whether its fence can be right, from the server's clock and the highest fences that were
 * seen.
 */
export class Trust {
  /** By shard (see Spot). */
  readonly clock = new ServerClock();

  constructor(readonly floors = new FenceFloors()) {}

  /** The grant from an answer, made by the server with this memory (Memories). */
  answered(group: number, grant: ServerGrant, { sentAt, serverNow }: Exchange, memory: string | undefined): Grant {
    return this.granted(group, grant, trustOf(grant.end - serverNow, sentAt), memory);
  }

  /**
   * The grant from a message, made by the server with this memory; undefined when the message is not enough to trust it, so that the
   * store has to be asked.
   */
  pushed({ request, spot: { group, shard }, floor }: Expected, push: PushedGrant, receivedAt: number, memory: string | undefined): Grant | undefined {
    if (request.minReplicas > 0 || push.fence <= floor || !couldAnswer(request, push)) return undefined;
    const serverNow = this.clock.lowerBound(shard, receivedAt, receivedAt);
    if (push.fence > 1_000 * (serverNow + FURTHEST_AHEAD_MS)) return undefined;
    const trustedUntil = this.clock.trustedUntil(shard, push.end, push.lengthMs, receivedAt);
    return trustedUntil === undefined ? undefined : this.granted(group, push, trustedUntil, memory);
  }

  private granted(group: number, { fence, fences, mode, contended }: ServerGrant, trustedUntil: number, memory: string | undefined): Grant {
    this.floors.saw(group, fence + fences - 1);
    return { fence, fences, mode, trustedUntil, contended, memory };
  }
}

/** A request that waits, and the fence that its grant must be above. */
interface Expected {
  readonly request: AcquireRequest;
  readonly spot: Pick<Spot, 'group' | 'shard'>;
  readonly floor: number;
}

/** True if a message can be the grant of this request. Messages are not signed, so one that grants more must come from somebody else. */
function couldAnswer({ mode, leaseMs, fences, owner }: AcquireRequest, push: PushedGrant): boolean {
  if (![push.fence, push.fences, push.end, push.lengthMs].every(Number.isSafeInteger)) return false;
  // A request that joins the present hold of its owner gets the mode of that hold.
  if (push.mode !== mode && owner === undefined) return false;
  return push.lengthMs <= Math.min(leaseMs, FIRST_LEASE_MS) && push.fences >= 1 && push.fences <= fences;
}

/** Behind so many characters for the server, the name of a memory is the server time in ms from which it counts. */
export const SERVER_LENGTH = NO_SERVER.length;

/**
 * The name of the memory that the server has for each slot group, as it was answered on the present connection (memory.lua). Each
 * request that may grant carries the name: while the server's record has the same one, the script need not find out who it is.
 *
 *     unknown ──(an answer of the server)──▶ known ──(the connection ended, a node came or went)──▶ unknown …
 */
export class Memories {
  /** Another number for each connection: what was asked on an earlier one may be the answer of another server. Only this object writes it. */
  generation = 0;
  /**
   * The memories that were answered on the present connection, by slot group, as they are sent to the server: UNKNOWN_MEMORY where none was. Only
   * this object writes it.
   */
  known = unknownMemories();
  /** The memories that were answered last, also on earlier connections, by slot group. */
  private readonly last = unknownMemories();

  /**
   * The memory that made a grant at this server time; undefined while it is not known, and when the present memory began only after
   * that, so that it may have forgotten the grant.
   */
  madeBy(group: number, serverTime: number): string | undefined {
    const memory = this.known[group]!;
    return memory !== UNKNOWN_MEMORY && beginningOf(memory) <= serverTime ? memory : undefined;
  }

  /** True if there is a group whose server does not say who it is. */
  get areBlind(): boolean {
    return this.known.some((memory) => memory.startsWith(NO_SERVER));
  }

  /** True if the server has another memory than this one by now, as far as this process knows. */
  isOutdated(group: number, memory: string | undefined): boolean {
    const known = this.known[group];
    return known !== UNKNOWN_MEMORY && known !== memory;
  }

  /** Forgets the memories of this connection, because another server may answer on the next one. */
  reset(): void {
    this.generation += 1;
    this.known = unknownMemories();
  }

  /** Notes what was asked for on the connection of this generation. Returns the memory that was there before, if the server has another one now. */
  learn(group: number, memory: string, generation: number): string | undefined {
    if (generation !== this.generation) return undefined;
    const before = this.last[group];
    this.known[group] = this.last[group] = memory;
    return before === memory || before === UNKNOWN_MEMORY ? undefined : before;
  }
}

/** The server time in ms from which a memory counts. */
export function beginningOf(memory: string): number {
  return Number(memory.slice(SERVER_LENGTH));
}

function unknownMemories(): string[] {
  return new Array<string>(SLOT_GROUPS).fill(UNKNOWN_MEMORY);
}

interface Told {
  /** As the script said it: since when the memory counts that told it comes first. */
  readonly holds: string;
  readonly at: number;
}

/**
 * What this process was told of those who hold the locks for which it waits, or which it was refused. A server that forgot them hears it
 * with the next request for the same lock (stand-in.lua), so that for whoever waited before nothing changes. They stand by key, the oldest
 * first. An entry goes when the lock is granted to this process, or when no hold can last so long. It is a Map itself, so that a grant, which
 * mostly finds no entry to delete, makes no call of ours for that.
 */
class ToldHolds extends Map<string, Told> {
  constructor(private readonly format: WireFormat) {
    super();
  }

  /** Notes what an answer says that came at the local instant `at`. One that says nothing may be that of a server that forgot. */
  note(key: string, holds: string, at: number): void {
    if (holds === '-') return;
    this.delete(key);
    this.set(key, { holds, at });
    for (const [old, told] of this) {
      if (at - told.at <= this.format.longestMs) break;
      this.delete(old);
    }
  }

  /** What a request for this lock says: how many ms ago this process was told at least, and what. */
  of(key: string, now: number): string | undefined {
    const told = this.get(key);
    if (told === undefined || now - told.at > this.format.longestMs) return undefined;
    return `${Math.max(0, Math.floor((now - told.at) * 0.99))},${told.holds}`;
  }
}
