/**
 * The connections to the masters of a Cluster, one to each. A command goes to the master of its key's slot, and follows where the
 * nodes redirect it. The slots are read anew after a redirection and when a node is lost.
 *
 * A command that was not sent, because its node is only being connected, waits for it for a short time. One that was sent fails with
 * its connection, and is not sent again.
 *
 * The Clusters of the packages are not used, so that a Cluster is the same with both (docs/maintainers/decisions.md). That of node-redis
 * never follows a failover up to version 5.12, waits without end for a master that is frozen, and does not notice that a node has stopped
 * answering; that of ioredis cannot use nodes that do not name their hosts, and does not say which of its nodes was away.
 */
import { delay, type Clock, type Timer } from '../../core/port/clock.js';
import { nameOf, type Address, type Connection, type EvalAndWait, type Sender } from './connections.js';
import { Listened, LiveConnection, ServerConnection, type Locate, type Needs, type Source } from './server-connection.js';
import { NOT_CONNECTED, reasonOf } from './store-failure.js';

export interface ClusterEntry {
  /** Makes clients of the nodes that are asked first, one source for each. */
  readonly roots: readonly Source[];
  readonly ofNodes: Source;
  /** The address at which a node of the Cluster can be reached from here. */
  map(address: Address): Address;
}

/** How often a command is redirected, or tried again because its node could not serve it, at most. */
const MAX_REDIRECTIONS = 4;
const NEXT_TRY_MS = 100;
const TRY_AGAIN_MS = 10;
const REFRESH_AGAIN_MS = 100;
/** As many as a bundle has on one Redis (bundles.ts). */
const COMMANDS_PER_WRITE = 8;
/** How long a node may take to name the slots, in ms. */
const NAMES_SLOTS_WITHIN_MS = 1_000;
/** ASK: the slot is still being moved there. MOVED: it is there for good. A node that does not know its own host names only the port. */
const REDIRECTION = /^(ASK|MOVED) \d+ (\S+)$/;
/** Commands without a key. All others have it first, but for EVAL and EVALSHA. */
const KEYLESS = new Set(['cluster', 'client', 'info', 'ping', 'publish', 'pubsub', 'scan', 'time']);

/** Slots that follow each other, and the master that has them. */
interface Range {
  readonly from: number;
  readonly to: number;
  readonly master: Address;
}

interface Target {
  readonly node: ClusterNode;
  /** Whether the slot is still being moved to the node, so that the command ASKING must come first. */
  readonly asking: boolean;
}

type Deliver<T> = (to: Sender, connection: ServerConnection) => Promise<T>;

export class ClusterConnection extends Listened implements Connection {
  readonly state = { isOpen: false };
  readonly sender: Sender = {
    evalsha: (sha1, count, ...rest) => this.routed(String(rest[0]), (to) => to.evalsha(sha1, count, ...rest)),
    eval: (source, count, ...rest) => this.routed(count === 0 ? undefined : String(rest[0]), (to) => to.eval(source, count, ...rest)),
    call: (command, ...args) => this.routed(keyOf(command, args), (to) => to.call(command, ...args)),
  };
  /** Which master has which slots, as a node said last. */
  private ranges: readonly Range[] = [];
  /** The node that said so. */
  private told: ClusterNode | undefined;
  private readonly nodes = new Map<string, ClusterNode>();
  /** The nodes of the hash tags that were looked up, of which a store has few. It is emptied when the slots are read anew. */
  private readonly byTag = new Map<string, ClusterNode>();
  private isGathering = false;
  private starting: Promise<void> | undefined;
  private refreshing: Promise<void> | undefined;
  private closed = false;

  constructor(
    private readonly entry: ClusterEntry,
    private readonly needs: Needs,
    private readonly patienceMs: number,
  ) {
    super();
  }

  start(): Promise<void> {
    return (this.starting ??= this.refresh());
  }

  evalAndWait(run: EvalAndWait): Promise<readonly [unknown, unknown]> {
    return this.routed(run.keys[0], (_, connection) => connection.evalAndWait(run));
  }

  /** What `send` sends in this call is written to each node in pieces of {@link COMMANDS_PER_WRITE}: a write costs more than what is in it. */
  inFewWrites(send: () => void): void {
    this.isGathering = true;
    try {
      send();
    } finally {
      this.isGathering = false;
      for (const node of this.nodes.values()) node.write();
    }
  }

  /** Each node is given up by itself, after a silence. */
  drop(): void {}

  /** Calls `listener` when a node is connected, when a connection to one ended, and when slots have other masters than before. */
  onChange(listener: (isConcerned: (redisKey: string) => boolean) => void): void {
    this.events.on('change', listener);
  }

  masters(): readonly Sender[] {
    return [...this.masterNames()].flatMap((name) => this.nodes.get(name)?.connection.sender ?? []);
  }

  /** Leads to a node that is connected. */
  here(): Locate {
    const node = this.nodeFor(undefined);
    if (node === undefined) throw new Error('no node of the Cluster is connected');
    return node.connection.here();
  }

  close(): void {
    this.closed = true;
    for (const node of this.nodes.values()) node.close();
  }

  /** Nothing is awaited where the node is connected, so that commands of one turn of the event loop leave in it. */
  private routed<T>(key: string | undefined, deliver: Deliver<T>): Promise<T> {
    const node = this.nodeFor(key);
    if (node === undefined || !node.isOpen) return this.tried(key, deliver, undefined, MAX_REDIRECTIONS);
    return node.send(deliver, false, this.isGathering).then(node.heard, (error: unknown) => this.again(error, key, deliver, node, MAX_REDIRECTIONS));
  }

  /** Sends it to this target, or where it belongs once the node of that is connected, if it is while there are tries left. */
  private async tried<T>(key: string | undefined, deliver: Deliver<T>, target: Target | undefined, left: number): Promise<T> {
    let node = target?.node ?? this.nodeFor(key);
    while (node === undefined || !node.isOpen) {
      if (left === 0 || !this.state.isOpen || this.closed) throw new Error(NOT_CONNECTED);
      left -= 1;
      void this.refresh();
      await delay(this.needs.clock, NEXT_TRY_MS);
      [target, node] = [undefined, this.nodeFor(key)];
    }
    try {
      return node.heard(await node.send(deliver, target?.asking === true));
    } catch (error) {
      return this.again(error, key, deliver, node, left);
    }
  }

  /** Tries it once more where the Cluster refused it, and says so; else passes the error on. */
  private async again<T>(error: unknown, key: string | undefined, deliver: Deliver<T>, asked: ClusterNode, left: number): Promise<T> {
    asked.heard(undefined);
    const reason = reasonOf(error);
    const [, kind, address = ''] = REDIRECTION.exec(reason) ?? [];
    const waits = kind === undefined ? /^(TRYAGAIN|CLUSTERDOWN)\b/.exec(reason)?.[1] : undefined;
    if (kind === undefined && waits === undefined) throw error;
    if (kind === 'MOVED') void this.refresh();
    const node = kind === undefined ? undefined : this.nodeAt(addressOf(address, asked));
    if (node?.isOpen === false) await node.connection.start().catch(() => {});
    if (waits !== undefined) await delay(this.needs.clock, waits === 'TRYAGAIN' ? TRY_AGAIN_MS : NEXT_TRY_MS);
    if (waits === 'CLUSTERDOWN') void this.refresh();
    if (left === 0) throw new Error(`Too many Cluster redirections. Last error: ${reason}`, { cause: error });
    return this.tried(key, deliver, node && { node, asking: kind === 'ASK' }, left - 1);
  }

  /** The node for a key; any that is connected where there is no key. */
  private nodeFor(key: string | undefined): ClusterNode | undefined {
    if (key === undefined) {
      const open = this.open();
      return open[Math.floor(Math.random() * open.length)];
    }
    const tag = tagOf(key);
    let node = this.byTag.get(tag);
    if (node === undefined) {
      node = this.nodes.get(masterOf(this.ranges, slotOf(tag)) ?? '');
      if (node !== undefined) this.byTag.set(tag, node);
    }
    return node;
  }

  private masterNames(): Set<string> {
    return new Set(this.ranges.map(({ master }) => nameOf(master)));
  }

  private open(): ClusterNode[] {
    return [...this.nodes.values()].filter(({ isOpen }) => isOpen);
  }

  /** The connection to a node, which is made when there is none. */
  private nodeAt(address: Address): ClusterNode {
    const name = nameOf(address);
    const present = this.nodes.get(name);
    if (present !== undefined) return present;
    const { entry, needs, patienceMs } = this;
    const node = new ClusterNode({ ...entry.ofNodes, address: entry.map(address) }, needs, patienceMs);
    this.nodes.set(name, node);
    const isOfNode = (redisKey: string): boolean => masterOf(this.ranges, slotOf(redisKey)) === name;
    let wasOpen = false;
    node.connection.onOpen(() => {
      wasOpen = true;
      this.changed(isOfNode);
    });
    node.connection.onEnd(() => {
      // It may have been taken off the map meanwhile, or its master may have changed.
      if (this.nodes.get(name) === node && !this.closed) void this.refresh();
      const isNews = wasOpen;
      wasOpen = false;
      this.changed(isNews ? isOfNode : undefined);
    });
    node.connection.onError((error) => this.events.emit('problem', error));
    return node;
  }

  /** `isConcerned`: for which keys another server may answer from now on. A further try to connect that fails is no news. */
  private changed(isConcerned?: (redisKey: string) => boolean): void {
    const wasOpen = this.state.isOpen;
    this.state.isOpen = this.ranges.length > 0 && this.nodeFor(undefined) !== undefined && !this.closed;
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
        const ranges = node instanceof ClusterNode ? await this.ask(node.source, node.connection.sender) : await this.askRoot(node);
        if (ranges.length === 0) throw new Error('CLUSTERDOWN no node has slots');
        if (node instanceof ClusterNode) this.told = node;
        return ranges;
      } catch (error) {
        last = error;
      }
    }
    throw last;
  }

  private async askRoot(root: Source): Promise<readonly Range[]> {
    const live = new LiveConnection(root, this.needs);
    try {
      return await this.ask(root, (await live.open()).sender);
    } finally {
      live.end();
    }
  }

  private async ask(source: Source, sender: Sender): Promise<readonly Range[]> {
    const late = delay(this.needs.clock, NAMES_SLOTS_WITHIN_MS).then(() => Promise.reject(new Error('connect ETIMEDOUT')));
    // It rejects also after the answer has come, when nobody waits for it any more.
    late.catch(() => {});
    const reply = await Promise.race([sender.call('cluster', 'SLOTS'), late]);
    return Array.isArray(reply) ? reply.map((range: unknown) => rangeOf(range, source.address.host ?? 'localhost')) : [];
  }

  private async follow(ranges: readonly Range[]): Promise<void> {
    const before = this.ranges;
    const haveMoved = textOf(ranges) !== textOf(before);
    this.ranges = ranges;
    this.byTag.clear();
    const names = this.masterNames();
    for (const [name, node] of this.nodes) {
      if (names.has(name)) continue;
      this.nodes.delete(name);
      node.close();
    }
    await Promise.allSettled(ranges.map(({ master }) => this.nodeAt(master).connection.start()));
    const hasMoved = (redisKey: string): boolean => masterOf(before, slotOf(redisKey)) !== masterOf(ranges, slotOf(redisKey));
    this.changed(haveMoved ? hasMoved : undefined);
  }
}

/** A node, which is given up when it owes an answer and says nothing for so long, so that the others serve on: nobody else notices that. */
class ClusterNode {
  readonly connection: ServerConnection;
  private owed = 0;
  private since = 0;
  private unwritten = 0;
  private timer: Timer | undefined;
  private readonly clock: Clock;

  constructor(
    readonly source: Source,
    needs: Needs,
    private readonly patienceMs: number,
  ) {
    this.clock = needs.clock;
    this.connection = new ServerConnection(() => Promise.resolve(source), needs);
    this.connection.onEnd(() => (this.owed = 0));
  }

  get isOpen(): boolean {
    return this.connection.state.isOpen;
  }

  /** {@link heard} has to be called when it is answered. `gathers`: it may be written later, by {@link write}. */
  send<T>(deliver: Deliver<T>, asking: boolean, gathers = false): Promise<T> {
    const { connection, clock } = this;
    if (this.owed++ === 0) this.since = clock.now();
    if (this.timer === undefined) this.look(this.patienceMs);
    // If ASKING fails, the command behind it fails too.
    if (asking) connection.sender.call('asking').catch(() => {});
    if (gathers && this.unwritten++ === 0) connection.cork();
    const sent = deliver(connection.sender, connection);
    if (this.unwritten === COMMANDS_PER_WRITE) this.write();
    return sent;
  }

  /** Writes what was sent and not written yet. */
  write(): void {
    if (this.unwritten === 0) return;
    this.unwritten = 0;
    this.connection.uncork();
  }

  close(): void {
    if (this.timer !== undefined) this.clock.clearTimer(this.timer);
    this.connection.close();
  }

  /** Notes an answer, and returns it. */
  readonly heard = <T>(answer: T): T => {
    if (this.owed > 0) this.owed -= 1;
    this.since = this.clock.now();
    return answer;
  };

  /** The look comes one turn after the timer, so that replies which came while this process was busy are read first. */
  private look(afterMs: number): void {
    this.timer = this.clock.setTimer(() => this.clock.nextTurn(() => this.judge()), afterMs);
  }

  private judge(): void {
    this.timer = undefined;
    if (this.owed === 0) return;
    const leftMs = this.since + this.patienceMs - this.clock.now();
    if (leftMs > 0) this.look(leftMs);
    else this.connection.drop();
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
function addressOf(text: string, { source: { address } }: ClusterNode): Address {
  const colon = text.lastIndexOf(':');
  return { host: text.slice(0, colon) || (address.host ?? 'localhost'), port: Number(text.slice(colon + 1)) };
}

/** The first Redis key of a command; undefined when it has none, so that any node may serve it. */
function keyOf(command: string, args: readonly (string | number)[]): string | undefined {
  const name = command.toLowerCase();
  if (name === 'eval' || name === 'evalsha') return String(args[2]);
  return KEYLESS.has(name) || args.length === 0 ? undefined : String(args[0]);
}

const SLOTS = 16_384;

/** What decides on the slot of a Redis key: its hash tag, or the whole key. */
function tagOf(redisKey: string): string {
  const from = redisKey.indexOf('{') + 1;
  const to = redisKey.indexOf('}', from);
  return from > 0 && to > from ? redisKey.slice(from, to) : redisKey;
}

/** The slot of a Redis key in a Cluster: CRC16 (XMODEM) modulo 16,384. */
export function slotOf(redisKey: string): number {
  let crc = 0;
  for (const byte of Buffer.from(tagOf(redisKey))) {
    crc ^= byte << 8;
    for (let bit = 0; bit < 8; bit++) crc = crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1;
    crc &= 0xffff;
  }
  return crc % SLOTS;
}
