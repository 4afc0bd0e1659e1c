/**
 * The log lines about nodes of a Redlock: that they stop and resume serving, and that they do not remember what they granted. Nodes
 * that forgot at about the same time share a line: at a first boot all of them do.
 */
import type { Clock, Timer } from '../../core/port/clock.js';
import type { Report } from '../../core/port/lock-events.js';
import { lasted } from '../wire/outage.js';
import { quorumOf } from './quorum.js';

/** Nodes that forgot within this time, in ms, become one line. */
const GATHER_MS = 500;

export class NodeLog {
  private readonly away = new Set<string>();
  /** The local instant at which the quorum was lost; undefined while there is one. */
  private lostAt: number | undefined;
  /** The nodes that do not vote, with the local instant until which each grants nothing at least. */
  private readonly out = new Map<string, number>();
  /** How many nodes had forgotten at a time when they were no minority; 0 when that did not happen. */
  private forgottenByQuorum = 0;
  private timer: Timer | undefined;

  constructor(
    private readonly nodes: number,
    private readonly clock: Clock,
    readonly report: Report,
  ) {}

  /** Notes a node that was missing at boot. The boot has its own line for it. */
  missing(name: string): void {
    this.away.add(name);
  }

  /** A node does not serve: a warning. The loss of the quorum has words of its own, because no lock can be had then. */
  lost(name: string, reason: string): void {
    this.away.add(name);
    const news = `Locks: the Redlock node ${name} does not serve: ${reason.replace(/\.$/, '')}. ${this.served()}`;
    if (this.isQuorum) return this.report({ kind: 'node lost', level: 'warning', message: `${news}, which is a quorum: locks go on.` });
    this.lostAt ??= this.clock.now();
    const message = `${news}, which is no quorum: no lock can be granted until more of them are back, and leases end unless they can be renewed in time.`;
    this.report({ kind: 'store lost', level: 'warning', message });
  }

  back(name: string, afterMs: number): void {
    this.away.delete(name);
    const news = `Locks: the Redlock node ${name} serves again, after ${lasted(afterMs)}. ${this.served()}`;
    const { lostAt } = this;
    if (lostAt === undefined || !this.isQuorum) return this.report({ kind: 'node back', level: 'info', message: `${news}.` });
    this.lostAt = undefined;
    const message = `${news}: there is a quorum again, after ${lasted(this.clock.now() - lostAt)}.`;
    this.report({ kind: 'store back', level: 'info', message });
  }

  /** A node may have forgotten what it granted, and grants nothing for `leftMs` at least. */
  forgot(name: string, leftMs: number): void {
    this.out.set(name, this.clock.now() + leftMs);
    this.timer ??= this.clock.setTimer(() => this.tellForgetful(), GATHER_MS);
  }

  /** Notes that a node votes again which the log had named. */
  votes(name: string): void {
    const { out, nodes, forgottenByQuorum: forgetful } = this;
    out.delete(name);
    if (out.size === 0) this.forgottenByQuorum = 0;
    const news = `Locks: ${name} votes again.`;
    if (forgetful === 0) return this.report({ kind: 'nodes vote', level: 'info', message: news });
    const message =
      `${news} ${forgetful} of ${nodes} Redlock nodes do not remember what they granted, as after a first installation: ` +
      'fences start from the clock and from what the other nodes and the running processes have seen.';
    this.report({ kind: 'nodes vote', level: 'warning', message });
  }

  /** So many nodes may have forgotten that no quorum of others remembers the fences. */
  quorumForgot(forgetful: number): void {
    this.forgottenByQuorum = Math.max(this.forgottenByQuorum, forgetful);
  }

  close(): void {
    if (this.timer !== undefined) this.clock.clearTimer(this.timer);
  }

  private get isQuorum(): boolean {
    return this.nodes - this.away.size >= quorumOf(this.nodes);
  }

  private served(): string {
    return `${this.nodes - this.away.size} of ${this.nodes} nodes serve`;
  }

  private tellForgetful(): void {
    const { clock, nodes, out } = this;
    this.timer = undefined;
    if (out.size === 0) return;
    const longestMs = Math.max(...out.values()) - clock.now();
    const at = new Date(clock.wallNow() + longestMs).toISOString();
    const until = longestMs > 0 ? `until ${at} (for ${lasted(longestMs)}), when all leases that may have been forgotten have ended` : 'until the last fences are told to them';
    const rest =
      nodes - out.size >= quorumOf(nodes)
        ? 'The other nodes are a quorum and go on.'
        : 'No lock can be granted until then. If all nodes are new, and nothing was ever locked there, `npx holdfast redlock init` ends this at once.';
    const who = `${out.size} of ${nodes} Redlock nodes (${[...out.keys()].join(', ')})`;
    this.report({ kind: 'nodes forgot', level: 'warning', message: `Locks: ${who} are new, were restarted or flushed. They grant nothing ${until}. ${rest}` });
  }
}
