/** The servers of a world: how many, how they belong together, and where a process is led that asks for one. */
import type { Connect } from '../../lib/stores/wire/connections.js';
import { byIoredis } from '../../lib/stores/wire/ioredis.js';
import { RedisKeys } from '../../lib/stores/wire/redis-keys.js';
import type { Plan } from './plan.js';
import type { Random } from './random.js';
import { ReplicatedMaster } from './replicated-master.js';
import { SimClient } from './sim-client.js';
import type { SimProcess } from './sim-process.js';
import { SimServer } from './sim-server.js';
import type { Way } from './sim-socket.js';
import type { VirtualTime } from './virtual-time.js';

/** Less than half of the margin of trust each, so that any two clocks stay within it. */
const DRIFT = 0.004;
/** How far the clocks of a master and its replica are apart at most, in ms: a failover is a step by so much. */
const CLOCKS_APART_MS = 2;

export interface Setting {
  readonly servers: readonly SimServer[];
  /** Masters that have a replica. */
  readonly replicated: readonly ReplicatedMaster[];
  /** The server that decides about a lock. */
  homeOf(key: string): SimServer;
  /** Whether a slot is just being moved from or to this server. */
  moves?(server: SimServer): boolean;
  /** How a process connects: to one target, or to each node of a Redlock. */
  connections(process: SimProcess, ways: readonly Way[]): readonly Connect[];
}

/** How far a clock drifts from the world's. */
export function driftOf(random: Random): number {
  return random.between(-DRIFT, DRIFT);
}


/** One server, or the nodes of a Redlock. */
export class Independent implements Setting {
  readonly servers: readonly SimServer[];
  readonly replicated = [];

  constructor(plan: Plan, time: VirtualTime, random: Random) {
    this.servers = Array.from({ length: plan.nodes }, (_, n) => new SimServer(`redis${n + 1}`, time, driftOf(random)));
  }

  homeOf(): SimServer {
    return this.servers[0]!;
  }

  connections(_process: SimProcess, ways: readonly Way[]): readonly Connect[] {
    return ways.map((way) => byIoredis(SimClient.for(() => way)));
  }
}

/** A master with a replica, and Sentinels that lead each process to whom they take for the master. */
export class SentinelSetting implements Setting {
  readonly servers: readonly SimServer[];
  readonly replicated: readonly [ReplicatedMaster];
  /** Processes whose Sentinel does not know the present master. */
  private readonly misled = new Map<SimProcess, SimServer>();

  constructor(time: VirtualTime, random: Random) {
    const [master, replica] = pairOf(['redis1', 'redis2'], time, random);
    this.servers = [master, replica];
    this.replicated = [new ReplicatedMaster(master, replica, time, random.fork())];
  }

  homeOf(): SimServer {
    return this.replicated[0].master;
  }

  /** The process is led to this server, whoever is promoted, until it is told. */
  mislead(process: SimProcess, to: SimServer): void {
    this.misled.set(process, to);
  }

  tell(process: SimProcess): void {
    this.misled.delete(process);
  }

  connections(process: SimProcess, ways: readonly Way[]): readonly Connect[] {
    const way = (): Way => ways.find(({ server }) => server === (this.misled.get(process) ?? this.homeOf()))!;
    return [byIoredis(SimClient.for(way))];
  }
}

/** Two servers whose clocks go together. */
export function pairOf(names: readonly [string, string], time: VirtualTime, random: Random, drift = driftOf(random)): readonly [SimServer, SimServer] {
  const [one, other] = names.map((name) => new SimServer(name, time, drift)) as [SimServer, SimServer];
  other.stepClock(random.between(-CLOCKS_APART_MS, CLOCKS_APART_MS));
  return [one, other];
}

const keys = new RedisKeys('lock');

/** The Redis key of a lock. */
export function lockKeyOf(key: string): string {
  return keys.spotOf(key).lockKey;
}
