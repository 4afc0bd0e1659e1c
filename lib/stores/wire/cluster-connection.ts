/**
 * The connections to the masters of a Cluster, one to each. A command goes to the master of its key's slot, and follows where the
 * nodes redirect it. The slots are read anew after a redirection and when a node is lost.
 *
 * The Clusters of the packages are not used, so that a Cluster is the same with both (docs/maintainers/decisions.md). That of node-redis
 * never follows a failover up to version 5.12, waits without end for a master that is frozen, and does not notice that a node has stopped
 * answering; that of ioredis cannot use nodes that do not name their hosts, and does not say which of its nodes was away.
 */
import { pause } from '../../core/port/clock.js';
import { answerWithin, askOnce, BaseConnection, nameOf, ServerConnection, type Address, type Timing, type Sender, type Source, type Target } from './server-connection.js';

export interface ClusterEntry {
  /** Makes clients of the nodes that are asked first, one source for each. */
  readonly roots: readonly Source[];
  readonly ofNodes: Source;
  /** The address at which a node of the Cluster can be reached from here. */
  map(address: Address): Address;
}

const REFRESH_AGAIN_MS = 100;
/** How long a node may take to name the slots, in ms. */
const NAMES_SLOTS_WITHIN_MS = 1_000;
/** ASK: the slot is still being moved there. MOVED: it is there for good. A node that does not know its own host names only the port. */
const REDIRECTION = /^(ASK|MOVED) \d+ (\S+)$/;

/** Slots that follow each other, and the master that has them, as a node says. */
interface Range {
  readonly from: number;
  readonly to: number;
  readonly master: Address;
}

export class ClusterConnection extends BaseConnection {
  /** The master of each slot, as a node said last; empty before. */
  private masterOf: readonly (ServerConnection | undefined)[] = [];
  /** The node that said so. */
  private told: ServerConnection | undefined;
  private readonly nodes = new Map<string, ServerConnection>();
  private starting: Promise<void> | undefined;
  private refreshing: Promise<void> | undefined;
  private closed = false;

  constructor(
    private readonly entry: ClusterEntry,
    private readonly timing: Timing,
  ) {
    super();
  }

  start(): Promise<void> {
    return (this.starting ??= this.refresh());
  }

  masters(): readonly ServerConnection[] {
    return [...new Set(this.masterOf)].flatMap((node) => node ?? []);
  }

  /** A node that is connected. */
  async here(): Promise<Source> {
    const node = this.serving();
    if (node === undefined) throw new Error('no node of the Cluster is connected');
    return node.here();
  }

  close(): void {
    this.closed = true;
    for (const node of this.nodes.values()) node.close();
  }

  /** The node for a key, and any for a command without one; undefined while it is not connected. */
  serving(redisKey?: string): ServerConnection | undefined {
    if (redisKey === undefined) {
      const open = this.open();
      return open[Math.floor(Math.random() * open.length)];
    }
    const node = this.masterOf[slotOf(redisKey)];
    return node?.isOpen ? node : undefined;
  }

  /** Where a command is sent again that this node refused for this reason; undefined when that is its answer. */
  elsewhere(reason: string, refusedBy: ServerConnection): Promise<Target> | undefined {
    const [, kind, address = ''] = REDIRECTION.exec(reason) ?? [];
    if (kind === 'MOVED' || reason.startsWith('CLUSTERDOWN')) void this.refresh();
    if (kind === undefined) return undefined;
    const to = this.nodeAt(addressOf(address, refusedBy));
    return to.start().catch(() => {}).then(() => ({ to, asking: kind === 'ASK' }));
  }

  private open(): ServerConnection[] {
    return [...this.nodes.values()].filter(({ isOpen }) => isOpen);
  }

  /** The connection to a node, which is made when there is none. */
  private nodeAt(address: Address): ServerConnection {
    const name = nameOf(address);
    const present = this.nodes.get(name);
    if (present !== undefined) return present;
    const source = { ...this.entry.ofNodes, address: this.entry.map(address) };
    const node = new ServerConnection(() => Promise.resolve(source), this.timing);
    this.nodes.set(name, node);
    const isOfNode = (redisKey: string): boolean => this.masterOf[slotOf(redisKey)] === node;
    node.events.on('open', () => this.changed(isOfNode));
    node.events.on('change', () => this.changed(isOfNode));
    // It may have been taken off the map meanwhile, or its master may have changed.
    node.events.on('end', () => this.nodes.get(name) === node && !this.closed && void this.refresh());
    node.events.on('problem', (error) => this.events.emit('problem', error));
    return node;
  }

  /** `isConcerned`: for which keys another server may answer from now on: those of a node that came or went, and of slots with another master. */
  private changed(isConcerned?: (redisKey: string) => boolean): void {
    const wasOpen = this.isOpen;
    this.isOpen = this.masterOf.length > 0 && this.serving() !== undefined && !this.closed;
    if (wasOpen && !this.isOpen) this.events.emit('end');
    if (isConcerned) this.events.emit('change', isConcerned);
    if (!wasOpen && this.isOpen) this.events.emit('open');
  }

  /** Reads the slots anew, connects to their masters, and leaves the nodes that have none; again and again until each slot has a master. */
  private refresh(): Promise<void> {
    this.refreshing ??= this.untilKnown().finally(() => (this.refreshing = undefined));
    return this.refreshing;
  }

  private async untilKnown(): Promise<void> {
    while (!this.closed) {
      try {
        const ranges = await this.readRanges();
        if (!this.closed) await this.follow(ranges);
        // During a failover a node may say that some slots have no master. When they have one, no connection ends, and nothing else would tell.
        if (this.masterOf.includes(undefined)) throw new Error('some slots have no master');
        return;
      } catch (error) {
        this.events.emit('problem', error as Error);
        // While a node serves, nothing has ended: only the slots may be others by now.
        if (!this.isOpen) this.events.emit('end');
        await pause(this.timing.clock, REFRESH_AGAIN_MS);
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
        const ranges = node instanceof ServerConnection
          ? await answerWithin(slotsOf(node.source!, node.sender), NAMES_SLOTS_WITHIN_MS, this.timing.clock)
          : await askOnce(node, this.timing, (sender) => slotsOf(node, sender), NAMES_SLOTS_WITHIN_MS);
        if (ranges.length === 0) throw new Error('no node has slots');
        if (node instanceof ServerConnection) this.told = node;
        return ranges;
      } catch (error) {
        last = error;
      }
    }
    throw last;
  }

  private async follow(ranges: readonly Range[]): Promise<void> {
    const before = this.masterOf;
    const now = new Array<ServerConnection | undefined>(SLOTS).fill(undefined);
    for (const { from, to, master } of ranges) now.fill(this.nodeAt(master), from, to + 1);
    const masters = new Set(now);
    // The new table counts when all its masters have been tried, because a command that finds its node not connected fails.
    await Promise.allSettled([...masters].map(async (node) => node?.start()));
    this.masterOf = now;
    for (const [name, node] of this.nodes) {
      if (masters.has(node)) continue;
      this.nodes.delete(name);
      node.close();
      if (node.source) this.events.emit('left', node.source);
    }
    const hasMoved = (slot: number): boolean => before[slot] !== now[slot];
    this.changed(now.some((_, slot) => hasMoved(slot)) ? (redisKey) => hasMoved(slotOf(redisKey)) : undefined);
  }
}

/** What the server of this source says of the slots. */
async function slotsOf(source: Source, sender: Sender): Promise<readonly Range[]> {
  const reply = await sender.call('cluster', 'SLOTS');
  return (reply as unknown[]).map((range) => rangeOf(range, source.address.host ?? 'localhost'));
}

/** A node that does not know its own address names none; then it is that at which it was asked. */
function rangeOf(told: unknown, asked: string): Range {
  const [from, to, [host, port]] = told as [number, number, [string | null, number]];
  return { from, to, master: { host: host || asked, port } };
}

/** The address in a redirection. A server that does not know its own host names only the port: then it is on the host of the node that was asked. */
function addressOf(text: string, { source }: ServerConnection): Address {
  const colon = text.lastIndexOf(':');
  return { host: text.slice(0, colon) || (source?.address.host ?? 'localhost'), port: Number(text.slice(colon + 1)) };
}

const SLOTS = 16_384;

/** The slots of the hash tags that were asked for: a store has one for each slot group, and one more. */
const slots = new Map<string, number>();

/** The slot of a Redis key in a Cluster: CRC16 (XMODEM) of its hash tag, or else of the whole key, modulo 16,384. */
export function slotOf(redisKey: string): number {
  const from = redisKey.indexOf('{') + 1;
  const to = redisKey.indexOf('}', from);
  const tag = from > 0 && to > from ? redisKey.slice(from, to) : redisKey;
  const known = slots.get(tag);
  if (known !== undefined) return known;
  let crc = 0;
  for (const byte of Buffer.from(tag)) {
    crc ^= byte << 8;
    for (let bit = 0; bit < 8; bit++) crc = crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1;
    crc &= 0xffff;
  }
  slots.set(tag, crc % SLOTS);
  return crc % SLOTS;
}
