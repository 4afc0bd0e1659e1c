/**
 * The log lines about nodes of a Redlock: that they stop and resume serving, and that they do not remember what they granted.
 */
import type { Report } from '../../core/port/lock-events.js';
import { lasted } from '../wire/store-failure.js';
import type { RedlockNode } from './redlock-node.js';
import type { RedlockStore } from './redlock-store.js';

export class NodeLog {
  /** The local instant at which the quorum was lost; undefined while there is one. */
  private lostAt: number | undefined;

  constructor(
    private readonly redlock: Pick<RedlockStore, 'nodes' | 'quorum' | 'clock'>,
    readonly report: Report,
  ) {}

  /** A node does not serve: a warning. The loss of the quorum has words of its own, because no lock can be had then. */
  lost(node: RedlockNode, reason: string): void {
    node.isAway = true;
    const news = `Locks: the Redlock node ${node.name} does not serve: ${reason.replace(/\.$/, '')}. ${this.served}`;
    if (this.isQuorum) return this.report({ kind: 'node lost', level: 'warning', message: `${news}, which is a quorum: locks go on.` });
    this.lostAt ??= this.redlock.clock.now();
    const message = `${news}, which is no quorum: no lock can be granted until more of them are back, and leases end unless they can be renewed in time.`;
    this.report({ kind: 'store lost', level: 'warning', message });
  }

  back(node: RedlockNode, afterMs: number): void {
    node.isAway = false;
    const news = `Locks: the Redlock node ${node.name} serves again, after ${lasted(afterMs)}. ${this.served}`;
    const { lostAt } = this;
    if (lostAt === undefined || !this.isQuorum) return this.report({ kind: 'node back', level: 'info', message: `${news}.` });
    this.lostAt = undefined;
    const message = `${news}: there is a quorum again, after ${lasted(this.redlock.clock.now() - lostAt)}.`;
    this.report({ kind: 'store back', level: 'info', message });
  }

  /** A node may have forgotten what it granted, and grants nothing for `leftMs` at least. */
  forgot({ name }: RedlockNode, leftMs: number): void {
    const { clock, nodes, quorum } = this.redlock;
    const at = new Date(clock.wallNow() + leftMs).toISOString();
    const until = leftMs > 0 ? `until ${at} (for ${lasted(leftMs)}), when all leases that it may have forgotten have ended` : 'until the last fences are told to it';
    const rest =
      nodes.filter(({ outSince }) => outSince === undefined).length >= quorum
        ? 'The other nodes are a quorum and go on.'
        : 'With it there is no quorum left, and no lock can be granted until then. If all nodes are new, and nothing was ever locked there, `npx holdfast redlock init` ends this at once.';
    this.report({ kind: `forgot ${name}`, level: 'warning', message: `Locks: the Redlock node ${name} is new, was restarted or flushed. It grants nothing ${until}. ${rest}` });
  }

  /** So many nodes may have forgotten that no quorum of others could tell the last fences to this one. */
  quorumForgot({ name }: RedlockNode, forgetful: number): void {
    const message =
      `Locks: ${forgetful} of ${this.redlock.nodes.length} Redlock nodes do not remember what they granted, as after a first installation: ` +
      `the fences of ${name} start from the clock and from what the other nodes and the running processes have seen.`;
    this.report({ kind: 'fences from clocks', level: 'warning', message });
  }

  private get serving(): number {
    return this.redlock.nodes.filter(({ isAway }) => !isAway).length;
  }

  private get isQuorum(): boolean {
    return this.serving >= this.redlock.quorum;
  }

  private get served(): string {
    return `${this.serving} of ${this.redlock.nodes.length} nodes serve`;
  }
}
