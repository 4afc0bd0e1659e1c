/**
 * The log lines about nodes of a Redlock that stop and resume serving. A node that is lost is a warning. The loss of the quorum
 * has a line of its own, because no lock can be had then.
 */
import type { Clock } from '../../core/port/clock.js';
import type { Report } from '../../core/port/report.js';
import { lasted } from '../wire/outage.js';
import { quorumOf } from './quorum.js';

export class NodeOutages {
  private readonly gone = new Set<string>();
  /** The local instant at which the quorum was lost; undefined while there is one. */
  private lostAt: number | undefined;

  constructor(
    private readonly nodes: number,
    private readonly clock: Clock,
    private readonly report: Report,
  ) {}

  /** Notes a node that was missing at boot. The boot has its own line for it. */
  missing(name: string): void {
    this.gone.add(name);
  }

  away(name: string, reason: string): void {
    this.gone.add(name);
    const news = `Locks: the Redlock node ${name} does not serve: ${reason.replace(/\.$/, '')}. ${this.left()}`;
    if (this.isQuorum) return this.report({ kind: 'node lost', level: 'warning', message: `${news}, which is a quorum: locks go on.` });
    this.lostAt ??= this.clock.now();
    const message = `${news}, which is no quorum: no lock can be granted until more of them are back, and leases end unless they can be renewed in time.`;
    this.report({ kind: 'store lost', level: 'warning', message });
  }

  back(name: string, afterMs: number): void {
    this.gone.delete(name);
    const news = `Locks: the Redlock node ${name} serves again, after ${lasted(afterMs)}. ${this.left()}`;
    const { lostAt } = this;
    if (lostAt === undefined || !this.isQuorum) return this.report({ kind: 'node back', level: 'info', message: `${news}.` });
    this.lostAt = undefined;
    const message = `${news}: there is a quorum again, after ${lasted(this.clock.now() - lostAt)}.`;
    this.report({ kind: 'store back', level: 'info', message });
  }

  private get isQuorum(): boolean {
    return this.nodes - this.gone.size >= quorumOf(this.nodes);
  }

  private left(): string {
    return `${this.nodes - this.gone.size} of ${this.nodes} nodes serve`;
  }
}
