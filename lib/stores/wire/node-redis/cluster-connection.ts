/**
 * The connections to the masters of a Cluster, one to each. A command goes to the master of its key's slot, and follows where the
 * nodes redirect it. The slots are read anew after a redirection and when a node is lost.
 *
 * A command that was not sent, because its node is only being connected, waits for it for a short time. One that was sent fails with
 * its connection, and is not sent again.
 *
 * createCluster() of node-redis is not used: up to version 5.12 it never follows a failover, it waits without end for a master that is
 * frozen, and it does not notice that a node has stopped answering (docs/maintainers/decisions.md).
 */
import { EventEmitter } from 'node:events';
import { delay } from '../../../core/port/clock.js';
import type { Address, Connection, EvalAndWait, Sender } from '../connections.js';
import { redirectionOf } from '../redirection.js';
import { NOT_CONNECTED, reasonOf } from '../store-failure.js';
import { slotOf } from '../key-slot.js';
import { at, type ClientSource, type SocketOptions } from './node-redis-client.js';
import { LiveConnection, NodeRedisConnection, Silence, WordSender, type Locate, type Needs } from './node-redis-connection.js';

export interface ClusterEntry {
  /** Makes clients of the nodes that are asked first, one source for each. */
  readonly roots: readonly ClientSource[];
  readonly ofNodes: ClientSource;
  /** The address at which a node of the Cluster can be reached from here. */
  map(address: Address): SocketOptions;
}

/** How often a command is redirected, or tried again because its node could not serve it, at most. */
const MAX_REDIRECTIONS = 4;
const NEXT_TRY_MS = 100;
const TRY_AGAIN_MS = 10;
const REFRESH_AGAIN_MS = 100;
/** How long a node may take to name the slots, in ms. */
const NAMES_SLOTS_WITHIN_MS = 1_000;
/** Commands without a key. All others have it first, but for EVAL and EVALSHA. */
const KEYLESS = new Set(['cluster', 'client', 'info', 'ping', 'publish', 'pubsub', 'scan', 'time']);

/** Slots that follow each other, and the master that has them. */
interface Range {
  readonly from: number;
  readonly to: number;
  readonly master: Address;
}

interface Target {
  readonly node: NodeRedisConnection;
  /** Whether the slot is still being moved to the node, so that the command ASKING must come first. */
  readonly asking: boolean;
}

export class ClusterConnection implements Connection {
  readonly state = { isOpen: false, isAstray: false };
  readonly sender: Sender = new WordSender((words) => this.routed(keyOf(words), (node) => node.send(words)));
  /** Which master has which slots, as a node said last. */
  private ranges: readonly Range[] = [];
  /** The node that said so. */
  private told: NodeRedisConnection | undefined;
  private readonly nodes = new Map<string, NodeRedisConnection>();
  private readonly events = new EventEmitter().setMaxListeners(0);
  private starting: Promise<void> | undefined;
  private refreshing: Promise<void> | undefined;
  private closed = false;

  constructor(
    private readonly entry: ClusterEntry,
    private readonly needs: Needs,
    private readonly patienceMs: number,
  ) {}

  start(): Promise<void> {
    return (this.starting ??= this.refresh());
  }

  evalAndWait(run: EvalAndWait): Promise<readonly [unknown, unknown]> {
    return this.routed(run.keys[0], (node) => node.evalAndWait(run));
  }

  /** Each node is given up by itself, after a silence. */
  drop(): void {}

  onOpen(listener: () => void): () => void {
    this.events.on('open', listener);
    return () => void this.events.off('open', listener);
  }

  onEnd(listener: () => void): void {
    this.events.on('end', listener);
  }

  onError(listener: (error: Error) => void): () => void {
    this.events.on('problem', listener);
    return () => void this.events.off('problem', listener);
  }

  /** Calls `listener` when a node is connected, when a connection to one ended, and when slots have other masters than before. */
  onChange(listener: (isConcerned: (redisKey: string) => boolean) => void): void {
    this.events.on('change', listener);
  }

  masters(): readonly NodeRedisConnection[] {
    return [...this.masterNames()].flatMap((name) => this.nodes.get(name) ?? []);
  }

  /** Leads to a node that is connected. */
  here(): Locate {
    const node = this.anyOpen();
    if (node === undefined) throw new Error('no node of the Cluster is connected');
    return node.here();
  }

  close(): void {
    this.closed = true;
    for (const node of this.nodes.values()) node.close();
  }

  private async routed<T>(key: string | undefined, deliver: (node: NodeRedisConnection) => Promise<T>): Promise<T> {
    const tries = { left: MAX_REDIRECTIONS };
    let next: Target | undefined = this.targetOf(key);
    for (;;) {
      // Nothing is awaited where the node is connected, so that commands of one turn of the event loop leave in it.
      const target: Target = next?.node.state.isOpen ? next : await this.openTarget(key, tries);
      try {
        // If ASKING fails, the command behind it fails too.
        if (target.asking) target.node.send(['ASKING']).catch(() => {});
        return await deliver(target.node);
      } catch (error) {
        const reason = reasonOf(error);
        const redirected = await this.redirected(reason, key, target.node);
        if (redirected === undefined) throw error;
        if (tries.left === 0) throw new Error(`Too many Cluster redirections. Last error: ${reason}`, { cause: error });
        tries.left -= 1;
        next = redirected.target;
      }
    }
  }

  /** Waits until the node of this key is connected, if it is while there are tries left. */
  private async openTarget(key: string | undefined, tries: { left: number }): Promise<Target> {
    while (tries.left > 0 && this.state.isOpen && !this.closed) {
      tries.left -= 1;
      void this.refresh();
      await delay(this.needs.clock, NEXT_TRY_MS);
      const target = this.targetOf(key);
      if (target?.node.state.isOpen) return target;
    }
    throw new Error(NOT_CONNECTED);
  }

  /** Where a command goes that was answered with this error; undefined when it is no matter of the Cluster. */
  private async redirected(reason: string, key: string | undefined, asked: NodeRedisConnection): Promise<{ target: Target | undefined } | undefined> {
    const redirection = redirectionOf(reason);
    if (redirection !== undefined) {
      const { kind, address } = redirection;
      if (kind === 'MOVED') void this.refresh();
      const node = this.nodeAt(addressOf(address, asked));
      if (!node.state.isOpen) await node.start().catch(() => {});
      return { target: { node, asking: kind === 'ASK' } };
    }
    if (!/^(TRYAGAIN|CLUSTERDOWN)\b/.test(reason)) return undefined;
    await delay(this.needs.clock, reason.startsWith('TRYAGAIN') ? TRY_AGAIN_MS : NEXT_TRY_MS);
    if (reason.startsWith('CLUSTERDOWN')) void this.refresh();
    return { target: this.targetOf(key) };
  }

  private targetOf(key: string | undefined): Target | undefined {
    const node = key === undefined ? this.anyOpen() : this.masterOf(slotOf(key));
    return node && { node, asking: false };
  }

  private masterOf(slot: number): NodeRedisConnection | undefined {
    return this.nodes.get(masterOf(this.ranges, slot) ?? '');
  }

  private masterNames(): Set<string> {
    return new Set(this.ranges.map(({ master }) => nameOf(master)));
  }

  private open(): NodeRedisConnection[] {
    return [...this.nodes.values()].filter(({ state }) => state.isOpen);
  }

  private anyOpen(): NodeRedisConnection | undefined {
    const open = this.open();
    return open[Math.floor(Math.random() * open.length)];
  }

  /** The connection to a node, which is made when there is none. */
  private nodeAt(address: Address): NodeRedisConnection {
    const name = nameOf(address);
    const present = this.nodes.get(name);
    if (present !== undefined) return present;
    const source = at(this.entry.ofNodes, this.entry.map(address));
    const silence = new Silence(this.needs.clock, this.patienceMs, () => node.drop());
    const node: NodeRedisConnection = new NodeRedisConnection(() => Promise.resolve(source), this.needs, silence);
    this.nodes.set(name, node);
    const isOfNode = (redisKey: string): boolean => masterOf(this.ranges, slotOf(redisKey)) === name;
    let wasOpen = false;
    node.onOpen(() => {
      wasOpen = true;
      this.changed(isOfNode);
    });
    node.onEnd(() => {
      // It may have been taken off the map meanwhile, or its master may have changed.
      if (this.nodes.get(name) === node && !this.closed) void this.refresh();
      const isNews = wasOpen;
      wasOpen = false;
      this.changed(isNews ? isOfNode : undefined);
    });
    node.onError((error) => this.events.emit('problem', error));
    return node;
  }

  /** `isConcerned`: for which keys another server may answer from now on. A further try to connect that fails is no news. */
  private changed(isConcerned?: (redisKey: string) => boolean): void {
    const wasOpen = this.state.isOpen;
    this.state.isOpen = this.ranges.length > 0 && this.anyOpen() !== undefined && !this.closed;
    if (wasOpen && !this.state.isOpen) this.events.emit('end');
    if (isConcerned) this.events.emit('change', isConcerned);
    if (!wasOpen && this.state.isOpen) this.events.emit('open');
  }

  /** Reads the slots anew, and tries again until that succeeds. Then it connects to their masters, and leaves the nodes that have none. */
  private refresh(): Promise<void> {
    this.refreshing ??= this.untilKnown().finally(() => (this.refreshing = undefined));
    return this.refreshing;
  }

  private async untilKnown(): Promise<void> {
    while (!this.closed) {
      try {
        const ranges = await this.readRanges();
        if (!this.closed) await this.follow(ranges);
        return;
      } catch (error) {
        this.events.emit('problem', error);
        // While a node serves, nothing has ended: only the slots may be others by now.
        if (!this.state.isOpen) this.events.emit('end');
        await delay(this.needs.clock, REFRESH_AGAIN_MS);
      }
    }
  }

  /**
   * Asks the nodes that are connected, and then those that the user named. Rejects when none of them knows. The node that was believed
   * last is asked after the others: one that is cut off from them goes on saying what was before.
   */
  private async readRanges(): Promise<readonly Range[]> {
    let last: unknown;
    const connected = this.open().sort((a, b) => Number(a === this.told) - Number(b === this.told));
    for (const node of [...connected, ...this.entry.roots]) {
      try {
        const ranges = node instanceof NodeRedisConnection ? await this.ask(node.source, node) : await this.askRoot(node);
        if (ranges.length === 0) throw new Error('CLUSTERDOWN no node has slots');
        if (node instanceof NodeRedisConnection) this.told = node;
        return ranges;
      } catch (error) {
        last = error;
      }
    }
    throw last;
  }

  private async askRoot(root: ClientSource): Promise<readonly Range[]> {
    const live = new LiveConnection(root, this.needs);
    try {
      const client = await live.open();
      return await this.ask(root, { send: (words) => client.sendCommand(words) });
    } finally {
      live.end();
    }
  }

  private async ask(source: ClientSource | undefined, node: Pick<NodeRedisConnection, 'send'>): Promise<readonly Range[]> {
    const late = delay(this.needs.clock, NAMES_SLOTS_WITHIN_MS).then(() => Promise.reject(new Error('connect ETIMEDOUT')));
    // It rejects also after the answer has come, when nobody waits for it any more.
    late.catch(() => {});
    const reply = await Promise.race([node.send(['CLUSTER', 'SLOTS']), late]);
    return Array.isArray(reply) ? reply.map((range: unknown) => rangeOf(range, hostOf(source))) : [];
  }

  private async follow(ranges: readonly Range[]): Promise<void> {
    const before = this.ranges;
    const haveMoved = textOf(ranges) !== textOf(before);
    this.ranges = ranges;
    const names = this.masterNames();
    for (const [name, node] of this.nodes) {
      if (names.has(name)) continue;
      this.nodes.delete(name);
      node.close();
    }
    await Promise.allSettled(ranges.map(({ master }) => this.nodeAt(master).start()));
    const hasMoved = (redisKey: string): boolean => masterOf(before, slotOf(redisKey)) !== masterOf(ranges, slotOf(redisKey));
    this.changed(haveMoved ? hasMoved : undefined);
  }
}

/** The name of the master of a slot. */
function masterOf(ranges: readonly Range[], slot: number): string | undefined {
  const range = ranges.find(({ from, to }) => from <= slot && slot <= to);
  return range && nameOf(range.master);
}

/** A node that does not know its own address names none; then it is that at which it was asked. */
function rangeOf(told: unknown, asked: string): Range {
  const [from, to, [host, port]] = told as [number, number, [string | null, number]];
  return { from, to, master: { host: host || asked, port } };
}

/** The same for the same masters of the same slots: nodes name the ranges in different orders. */
function textOf(ranges: readonly Range[]): string {
  return ranges.map(({ from, to, master }) => `${from}-${to} ${nameOf(master)}`).sort().join(', ');
}

/** The address in a redirection. A server that does not know its own host names only the port: then it is on the host of the node that was asked. */
function addressOf(text: string, asked: NodeRedisConnection): Address {
  const colon = text.lastIndexOf(':');
  return { host: text.slice(0, colon) || hostOf(asked.source), port: Number(text.slice(colon + 1)) };
}

/** The host at which a node was asked. */
function hostOf(node: ClientSource | undefined): string {
  return node?.given.socket?.host ?? 'localhost';
}

function nameOf({ host, port }: Address): string {
  return `${host}:${port}`;
}

/** The first Redis key of a command; undefined when it has none, so that any node may serve it. */
function keyOf([command = '', ...args]: readonly string[]): string | undefined {
  const name = command.toLowerCase();
  if (name === 'eval' || name === 'evalsha') return args[2];
  return KEYLESS.has(name) ? undefined : args[0];
}
