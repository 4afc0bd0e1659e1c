/**
 * What a simulated process has in place of a Cluster of ioredis: a pool of clients, one for each node, a map of the slots, and what
 * ioredis does about redirections and lost nodes: it asks elsewhere, or again a little later, four times at most.
 *
 *     wait ──▶ connecting ──(the slots are known)──▶ ready ──(no node is left)──▶ close ──▶ reconnecting ──▶ connecting …
 *                                                                                   └────▶ end
 */
import { EventEmitter } from 'node:events';
import type { Cluster, ClusterOptions } from 'ioredis';
import type { Timer } from '../../lib/core/port/clock.js';
import { slotOf as realSlotOf } from '../../lib/stores/wire/key-slot.js';
import { slotOf } from './cluster-setting.js';
import type { LuaReply } from './lua-interpreter.js';
import { SimClient, type Argument } from './sim-client.js';
import { SimPipeline } from './sim-pipeline.js';
import type { Way } from './sim-socket.js';

interface Node {
  readonly client: SimClient;
  isMaster: boolean;
}

interface Errand {
  readonly command: string;
  readonly args: readonly Argument[];
  readonly slot: number | undefined;
  readonly resolve: (reply: LuaReply) => void;
  readonly reject: (error: Error) => void;
  /** How often it may still be sent elsewhere, or again. */
  left: number;
}

/** Commands that wait until they are sent again. */
interface Delayed {
  readonly errands: (() => void)[];
  timer: Timer | undefined;
}

const SLOTS_WITHIN_MS = 1_000;
const CLOSED = 'Connection is closed.';
const NOT_READY = "Cluster isn't ready and enableOfflineQueue options is false";
const NONE_LEFT = 'Failed to refresh slots cache.';

export class SimCluster extends EventEmitter {
  readonly isCluster = true;
  status: 'wait' | 'connecting' | 'ready' | 'disconnecting' | 'close' | 'reconnecting' | 'end' = 'wait';
  private readonly pool = new Map<string, Node>();
  private readonly owners = new Map<number, string>();
  private readonly delayed = new Map<string, Delayed>();
  private refreshing: ((error?: Error) => void)[] | undefined;
  private ended = false;

  constructor(
    private readonly ways: readonly Way[],
    readonly options: ClusterOptions = {},
  ) {
    super();
    this.setMaxListeners(0);
  }

  /** The masters by the slots of a real Cluster, which has more of them. */
  get slots(): string[][] {
    const slots: string[][] = [];
    for (const [slot, address] of this.owners) slots[realSlotOf(`{lock:${slot}}`)] = [address];
    return slots;
  }

  /** As the application's client that a store is given. */
  static for(ways: readonly Way[]): Cluster {
    return new SimCluster(ways) as unknown as Cluster;
  }

  duplicate(_nodes: readonly unknown[], options: ClusterOptions): SimCluster {
    return new SimCluster(this.ways, { ...this.options, ...options });
  }

  /** By this a client of ioredis is told from those of other packages. */
  defineCommand(): void {}

  nodes(role: 'all' | 'master' = 'all'): SimClient[] {
    return [...this.pool.values()].filter(({ isMaster }) => role === 'all' || isMaster).map(({ client }) => client);
  }

  evalsha(...args: Argument[]): Promise<LuaReply> {
    return this.ask('evalsha', args, String(args[2]));
  }

  eval(...args: Argument[]): Promise<LuaReply> {
    return this.ask('eval', args, String(args[2]));
  }

  call(command: string, ...args: Argument[]): Promise<LuaReply> {
    if (command === 'eval' || command === 'evalsha') return this.ask(command, args, String(args[2]));
    const isKeyless = args.length === 0 || command === 'publish' || command === 'pubsub';
    return this.ask(command, args, isKeyless ? undefined : String(args[0]));
  }

  /** All commands of a pipeline go to the node of the first one's key. */
  pipeline(): SimPipeline {
    let node: SimClient | undefined;
    return new SimPipeline((command, args) => {
      node ??= this.nodeOf(slotOf(String(args[2])));
      return node === undefined ? Promise.reject(new Error(NOT_READY)) : node.ask(command, args);
    });
  }

  connect(): Promise<void> {
    this.setStatus('connecting');
    this.fill(this.ways.map((way) => ({ address: addressOf(way), isMaster: true })));
    return new Promise((resolve, reject) => {
      this.once('close', () => this.closed());
      this.refreshSlotsCache((error) => {
        if (error === undefined) {
          this.setStatus('ready');
          return resolve();
        }
        this.emit('error', error);
        this.fill([]);
        reject(error);
      });
    });
  }

  disconnect(): void {
    this.ended = true;
    for (const { timer } of this.delayed.values()) if (timer !== undefined) this.clock.clearTimer(timer);
    if (this.status === 'wait' || this.status === 'reconnecting') return this.setStatus('end');
    this.setStatus('disconnecting');
    this.fill([]);
  }

  /** Asks one node after the other who has which slot. */
  refreshSlotsCache(done: (error?: Error) => void = () => {}): void {
    if (this.refreshing !== undefined) return void this.refreshing.push(done);
    this.refreshing = [done];
    void this.askForSlots().then((error) => {
      const told = this.refreshing ?? [];
      this.refreshing = undefined;
      for (const one of told) one(error);
    });
  }

  private get clock(): Way['process']['clock'] {
    return this.ways[0]!.process.clock;
  }

  private async askForSlots(): Promise<Error | undefined> {
    for (const { client } of [...this.pool.values()].sort(() => Math.random() - 0.5)) {
      const told = await this.slotsOf(client);
      if (this.status !== 'connecting' && this.status !== 'ready') return new Error('Cluster is disconnected.');
      if (told === undefined) continue;
      this.learn(told);
      return undefined;
    }
    return new Error(NONE_LEFT);
  }

  /** What a node says of the slots; undefined when it does not answer in time. */
  private slotsOf(client: SimClient): Promise<readonly Slot[] | undefined> {
    const { clock } = this;
    const asker = client.duplicate({ enableOfflineQueue: true, retryStrategy: null });
    asker.on('error', () => {});
    return new Promise((resolve) => {
      const told = (slots: readonly Slot[] | undefined): void => {
        clock.clearTimer(timer);
        asker.disconnect();
        resolve(slots);
      };
      const timer = clock.setTimer(() => told(undefined), SLOTS_WITHIN_MS);
      asker.ask('cluster', ['SLOTS']).then((reply) => told(reply as unknown as readonly Slot[]), () => told(undefined));
    });
  }

  private learn(told: readonly Slot[]): void {
    const masters = new Map<string, boolean>();
    for (const [slot, , ...nodes] of told) {
      nodes.forEach(([host, port], at) => {
        const address = `${host}:${port}`;
        if (at === 0) this.owners.set(slot, address);
        masters.set(address, (masters.get(address) ?? false) || at === 0);
      });
    }
    this.fill([...masters].map(([address, isMaster]) => ({ address, isMaster })));
  }

  /** The pool has these nodes, and no others. */
  private fill(nodes: readonly { readonly address: string; readonly isMaster: boolean }[]): void {
    const gone = [...this.pool].filter(([address]) => !nodes.some((node) => node.address === address));
    for (const [address] of gone) this.pool.delete(address);
    for (const [, { client }] of gone) client.disconnect();
    for (const { address, isMaster } of nodes) this.nodeAt(address, isMaster).isMaster = isMaster;
  }

  private nodeAt(address: string, isMaster: boolean): Node {
    const known = this.pool.get(address);
    if (known !== undefined) return known;
    const way = this.ways.find((one) => addressOf(one) === address)!;
    const client = new SimClient(() => way, { ...this.options.redisOptions, enableOfflineQueue: true, retryStrategy: null });
    const node: Node = { client, isMaster };
    this.pool.set(address, node);
    client.on('error', () => {});
    client.once('end', () => {
      if (this.pool.get(address)?.client === client) this.pool.delete(address);
      this.emit('-node', client);
      if (this.pool.size === 0) this.setStatus('close');
    });
    this.emit('+node', client);
    return node;
  }

  private nodeOf(slot: number | undefined): SimClient | undefined {
    const address = slot === undefined ? undefined : this.owners.get(slot);
    return (address === undefined ? undefined : this.pool.get(address)?.client) ?? this.anyNode();
  }

  private anyNode(): SimClient | undefined {
    const masters = this.nodes('master');
    const some = masters.length > 0 ? masters : this.nodes();
    return some[Math.floor(Math.random() * some.length)];
  }

  private ask(command: string, args: readonly Argument[], key: string | undefined): Promise<LuaReply> {
    if (this.status === 'end') return Promise.reject(new Error(CLOSED));
    return new Promise((resolve, reject) => {
      const slot = key === undefined ? undefined : slotOf(key);
      this.send({ command, args, slot, resolve, reject, left: this.options.maxRedirections ?? 16 }, () => this.nodeOf(slot));
    });
  }

  private send(errand: Errand, choose: () => SimClient | undefined, asking = false): void {
    if (this.status === 'end') return errand.reject(new Error('Cluster is ended.'));
    const node = this.status === 'ready' ? choose() : undefined;
    if (node === undefined) return errand.reject(new Error(NOT_READY));
    if (node.status !== 'ready' && node.status !== 'wait') return this.failed(errand, new Error(CLOSED));
    // As ioredis does, it leaves the rejection of this to nobody.
    if (asking) void node.asking();
    node.ask(errand.command, errand.args).then(errand.resolve, (error: Error) => this.failed(errand, error));
  }

  private failed(errand: Errand, error: Error): void {
    if (errand.left-- <= 0) return errand.reject(new Error(`Too many Cluster redirections. Last error: ${String(error)}`));
    const [word, slot, address = ''] = error.message.split(' ');
    const anywhere = (): void => this.send(errand, () => this.anyNode());
    const { options } = this;
    if (word === 'MOVED') {
      this.owners.set(Number(slot), address);
      this.nodeAt(address, true);
      this.send(errand, () => this.nodeOf(Number(slot)));
      this.refreshSlotsCache();
    } else if (word === 'ASK') {
      this.nodeAt(address, true);
      this.send(errand, () => this.pool.get(address)?.client, true);
    } else if (word === 'TRYAGAIN') this.later('tryagain', anywhere, options.retryDelayOnTryAgain);
    else if (word === 'CLUSTERDOWN') this.later('clusterdown', anywhere, options.retryDelayOnClusterDown, true);
    else if (error.message === CLOSED && this.status === 'ready') this.later('failover', anywhere, options.retryDelayOnFailover, true);
    else errand.reject(error);
  }

  private later(name: string, errand: () => void, delayMs = 100, refreshes = false): void {
    const delayed: Delayed = this.delayed.get(name) ?? { errands: [], timer: undefined };
    this.delayed.set(name, delayed);
    delayed.errands.push(errand);
    if (delayed.timer !== undefined) return;
    const run = (): void => {
      this.delayed.delete(name);
      for (const one of delayed.errands) one();
    };
    delayed.timer = this.clock.setTimer(() => (refreshes ? this.refreshSlotsCache(run) : run()), delayMs);
  }

  private setStatus(status: SimCluster['status']): void {
    this.status = status;
    process.nextTick(() => this.emit(status));
  }

  private closed(): void {
    const delayMs = this.ended ? null : this.options.clusterRetryStrategy?.(1);
    if (typeof delayMs !== 'number') return this.setStatus('end');
    this.setStatus('reconnecting');
    this.clock.setTimer(() => {
      if (this.status === 'reconnecting') this.connect().catch(() => {}); // another try follows
    }, delayMs);
  }
}

type Slot = readonly [from: number, to: number, ...nodes: (readonly [host: string, port: number])[]];

function addressOf({ server }: Way): string {
  return `${server.name}:6379`;
}
