/** Which master of a Cluster has which slots, as its nodes say. */
import { delay } from '../../../core/port/clock.js';
import type { Address } from '../connections.js';
import { LiveConnection } from './live-connection.js';
import type { ClientSource, SocketOptions } from './node-redis-client.js';
import type { Needs, SingleConnection } from './single-connection.js';

export interface ClusterEntry {
  /** Makes clients of the nodes that are asked first, one source for each. */
  readonly roots: readonly ClientSource[];
  readonly ofNodes: ClientSource;
  /** The address at which a node of the Cluster can be reached from here. */
  map(address: Address): SocketOptions;
}

interface Range {
  readonly from: number;
  readonly to: number;
  readonly master: Address;
}

/** How long a node may take to name the slots, in ms. */
const ANSWERS_WITHIN_MS = 1_000;

export class ClusterMap {
  masters: readonly Address[] = [];
  private ranges: readonly Range[] = [];
  /** The node that was believed last. */
  private told: SingleConnection | undefined;

  constructor(
    private readonly target: ClusterEntry,
    private readonly needs: Needs,
  ) {}

  get isKnown(): boolean {
    return this.ranges.length > 0;
  }

  masterOf(slot: number): Address | undefined {
    return this.ranges.find(({ from, to }) => from <= slot && slot <= to)?.master;
  }

  /**
   * Asks the nodes that are connected, and then those that the user named. Rejects when none of them knows. The node that was believed
   * last is asked after the others: one that is cut off from them goes on saying what was before. Resolves with whether any slot has
   * another master than before.
   */
  async read(connected: readonly SingleConnection[]): Promise<boolean> {
    let last: unknown;
    const inTurn = [...connected.filter((node) => node !== this.told), ...connected.filter((node) => node === this.told)];
    const ways = [
      ...inTurn.map((node) => async () => {
        const ranges = await this.ask(node.source, (args) => node.send(args));
        this.told = node;
        return ranges;
      }),
      ...this.target.roots.map((root) => () => this.askRoot(root)),
    ];
    for (const ask of ways) {
      try {
        const ranges = await ask();
        if (ranges.length === 0) throw new Error('CLUSTERDOWN no node has slots');
        const before = this.ranges;
        this.ranges = ranges;
        const named = new Map(ranges.map(({ master }) => [nameOf(master), master]));
        this.masters = [...named.values()];
        return textOf(ranges) !== textOf(before);
      } catch (error) {
        last = error;
      }
    }
    throw last;
  }

  private async askRoot(root: ClientSource): Promise<readonly Range[]> {
    const { clock, timeoutMs } = this.needs;
    const live = new LiveConnection(root, timeoutMs, clock);
    try {
      await live.open();
      return await this.ask(root, (args) => live.client.sendCommand(args));
    } finally {
      live.end();
    }
  }

  private async ask(node: ClientSource | undefined, send: (args: string[]) => Promise<unknown>): Promise<readonly Range[]> {
    const late = delay(this.needs.clock, ANSWERS_WITHIN_MS).then(() => Promise.reject(new Error('connect ETIMEDOUT')));
    // It rejects also after the answer has come, when nobody waits for it any more.
    late.catch(() => {});
    const reply = await Promise.race([send(['CLUSTER', 'SLOTS']), late]);
    return Array.isArray(reply) ? reply.map((range: unknown) => rangeOf(range, hostOf(node))) : [];
  }
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

/** The host at which a node was asked. */
export function hostOf(node: ClientSource | undefined): string {
  return node?.given.socket?.host ?? 'localhost';
}

export function nameOf({ host, port }: Address): string {
  return `${host}:${port}`;
}
