/**
 * A Cluster of three masters, each with a replica. Its slots are the groups of locks; while one is moved key by key, two nodes have a
 * part of it each:
 *
 *     owned ──(it is migrating)──▶ ASK for what has left, TRYAGAIN for what is here in part ──(all is there)──▶ owned by the other
 */
import type { Redis, RedisOptions } from 'ioredis';
import type { Connect } from '../../lib/stores/wire/connections.js';
import { byIoredis, type IoredisPackage } from '../../lib/stores/wire/ioredis.js';
import { slotOf } from '../../lib/stores/wire/cluster-connection.js';
import { SLOT_GROUPS } from '../../lib/stores/wire/redis-keys.js';
import type { LuaReply } from './lua-interpreter.js';
import { ServerError } from './lua-values.js';
import type { Random } from './random.js';
import { ReplicatedMaster } from './replicated-master.js';
import { driftOf, lockKeyOf, pairOf, type Setting } from './setting.js';
import { SimClient } from './sim-client.js';
import type { SimProcess } from './sim-process.js';
import type { ClusterBus, SimServer } from './sim-server.js';
import type { Way } from './sim-socket.js';
import type { VirtualTime } from './virtual-time.js';

const MASTERS = 3;
/** The slots that are used: those of the groups of locks, and that of the wire format. */
const SLOTS: readonly number[] = [...new Set([...Array.from({ length: SLOT_GROUPS }, (_, group) => `{lock:${group}}`), '{lock}'].map(slotOf))];
const SORTED = [...SLOTS].sort((one, other) => one - other);
/** How long a message takes from node to node, in ms. */
const BUS_MS: readonly [number, number] = [0.2, 3];

export class ClusterSetting implements Setting, ClusterBus {
  readonly servers: readonly SimServer[];
  readonly replicated: readonly ReplicatedMaster[];
  /** By slot. */
  private readonly owners: Map<number, ReplicatedMaster>;
  /** Slots that are being moved, and where to. */
  private readonly moving = new Map<number, ReplicatedMaster>();

  constructor(private readonly time: VirtualTime, private readonly random: Random) {
    const drift = driftOf(random);
    const pairs = Array.from({ length: MASTERS }, (_, n) => pairOf([`redis${n + 1}`, `redis${n + 1 + MASTERS}`], time, random, drift));
    this.replicated = pairs.map(([master, replica]) => new ReplicatedMaster(master, replica, time, random.fork()));
    this.servers = pairs.flat();
    for (const server of this.servers) server.cluster = this;
    // A master may have been added just now, and have no slot before one is moved to it.
    const owning = random.chance(0.3) ? this.replicated.slice(1) : this.replicated;
    this.owners = new Map(SLOTS.map((slot) => [slot, random.pick(owning)]));
  }

  homeOf(key: string): SimServer {
    const lockKey = lockKeyOf(key);
    const target = this.moving.get(slotOf(lockKey))?.master;
    return target?.has(lockKey) === true ? target : this.ownerOf(key).master;
  }

  ownerOf(key: string): ReplicatedMaster {
    return this.owners.get(slotOf(lockKeyOf(key)))!;
  }

  connections(_process: SimProcess, ways: readonly Way[]): readonly Connect[] {
    /** Makes the clients of the nodes. */
    const Client = function ({ host, ...options }: RedisOptions): Redis {
      return SimClient.for(() => ways.find(({ server }) => server.name === host)!, options);
    };
    const ioredis = { Redis: Client } as unknown as IoredisPackage;
    return [byIoredis({ cluster: this.servers.map(({ name }) => ({ host: name, port: PORT })) }, ioredis)];
  }

  /** Whether a part of a slot has left this server, or has come to it. */
  moves(server: SimServer): boolean {
    return [...this.moving].some(([slot, { master }]) => server === master || server === this.owners.get(slot)!.master);
  }

  beginMove(slot: number, to: ReplicatedMaster): void {
    this.moving.set(slot, to);
  }

  /** Moves one key. False when none is left. */
  moveKey(slot: number): boolean {
    const { master } = this.owners.get(slot)!;
    const left = master.keys().filter((key) => slotOf(key) === slot);
    if (left.length > 0) master.migrate(this.random.pick(left), this.moving.get(slot)!.master);
    return left.length > 1;
  }

  endMove(slot: number): void {
    while (this.moveKey(slot));
    this.owners.set(slot, this.moving.get(slot)!);
    this.moving.delete(slot);
  }

  admit(server: SimServer, keys: readonly string[], asking: boolean): void {
    const all = [...new Set(keys)];
    const [slot, ...others] = new Set(all.map(slotOf));
    if (slot === undefined) return;
    if (others.length > 0) throw new ServerError("CROSSSLOT Keys in request don't hash to the same slot");
    const owner = this.owners.get(slot)!;
    const to = this.moving.get(slot);
    const isHere = server === owner.master || server === owner.former;
    if (!isHere && !(asking && server === to?.master)) throw new ServerError(`MOVED ${slot} ${addressOf(owner.master)}`);
    if (to === undefined) return;
    const missing = all.filter((key) => !server.has(key)).length;
    if (isHere && missing === all.length) throw new ServerError(`ASK ${slot} ${addressOf(to.master)}`);
    if (missing > 0 && all.length > 1) throw new ServerError('TRYAGAIN Multiple keys request during rehashing of slot');
  }

  slots(server: SimServer): LuaReply {
    return [...this.owners].map(([slot, pair]) => {
      // A former master does not know that it is one.
      const master = pair.former === server ? server : pair.master;
      const replica = pair.replication?.replica;
      // It has the slots that nobody uses as well, up to the next that somebody does.
      const next = SORTED[SORTED.indexOf(slot) + 1] ?? 16_384;
      return [slot === SORTED[0] ? 0 : slot, next - 1, [master.name, PORT], ...(replica === undefined ? [] : [[replica.name, PORT]])];
    });
  }

  spread(from: SimServer, channel: string, message: string): void {
    for (const server of this.servers) {
      if (server === from) continue;
      const arrive = (): void => void (server.state === 'up' && server.isAlone === from.isAlone && server.tell(channel, message));
      this.time.after(this.random.between(...BUS_MS), arrive, true);
    }
  }
}

const PORT = 6379;

const addressOf = (server: SimServer): string => `${server.name}:${PORT}`;
