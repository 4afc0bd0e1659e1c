/**
 * The log lines about nodes of a Redlock that do not remember what they granted. Nodes that forgot, or vote again, at about the
 * same time share a line: at a first boot all of them do.
 */
import type { Clock, Timer } from '../../core/port/clock.js';
import type { Report } from '../../core/port/report.js';
import { lasted } from '../wire/outage.js';
import { quorumOf } from './quorum.js';

/** Findings about several nodes within this time, in ms, become one line. */
const GATHER_MS = 500;

export class MemoryLog {
  /** Nodes that do not vote, and that the log names or will name. */
  private readonly out = new Set<string>();
  /** The nodes that the next line names, with the local instant until which each grants nothing. */
  private readonly forgetful = new Map<string, number>();
  private readonly voting = new Set<string>();
  /** How many nodes had forgotten at a time when they were no minority; 0 when that did not happen. */
  private forgottenByQuorum = 0;
  private timer: Timer | undefined;

  constructor(
    private readonly nodes: number,
    private readonly clock: Clock,
    private readonly report: Report,
  ) {}

  forgot(node: string, leftMs: number): void {
    this.out.add(node);
    this.forgetful.set(node, this.clock.now() + leftMs);
    this.gather();
  }

  /** Notes that a node votes again which the log had named. */
  votes(node: string): void {
    this.out.delete(node);
    this.forgetful.delete(node);
    this.voting.add(node);
    this.gather();
  }

  /** Reports that no quorum of nodes remembers the fences. */
  quorumForgot(forgetful: number): void {
    this.forgottenByQuorum = Math.max(this.forgottenByQuorum, forgetful);
  }

  close(): void {
    if (this.timer !== undefined) this.clock.clearTimer(this.timer);
  }

  private gather(): void {
    this.timer ??= this.clock.setTimer(() => {
      this.timer = undefined;
      this.tellForgetful();
      this.tellVoting();
    }, GATHER_MS);
  }

  private tellForgetful(): void {
    const { clock, forgetful, nodes } = this;
    if (forgetful.size === 0) return;
    const leftMs = Math.max(...forgetful.values()) - clock.now();
    const at = new Date(clock.wallNow() + leftMs).toISOString();
    const until = leftMs > 0 ? `until ${at} (for ${lasted(leftMs)}), when all leases that may have been forgotten have ended` : 'until the last fences are told to them';
    const isQuorumLeft = nodes - this.out.size >= quorumOf(nodes);
    const rest = isQuorumLeft
      ? 'The other nodes are a quorum and go on.'
      : 'No lock can be granted until then. If all nodes are new, and nothing was ever locked there, `npx holdfast redlock init` ends this at once.';
    const who = `${forgetful.size} of ${nodes} Redlock nodes (${[...forgetful.keys()].join(', ')})`;
    const message = `Locks: ${who} are new, were restarted or flushed. They grant nothing ${until}. ${rest}`;
    forgetful.clear();
    this.report({ kind: 'nodes forgot', level: 'warning', message });
  }

  private tellVoting(): void {
    const { voting, nodes } = this;
    if (voting.size === 0) return;
    const news = `Locks: ${[...voting].join(', ')} ${voting.size === 1 ? 'votes' : 'vote'} again.`;
    voting.clear();
    const forgetful = this.forgottenByQuorum;
    if (forgetful === 0) return this.report({ kind: 'nodes vote', level: 'info', message: news });
    this.forgottenByQuorum = 0;
    const message =
      `${news} ${forgetful} of ${nodes} Redlock nodes do not remember what they granted, as after a first installation: ` +
      'fences start from the clock and from what the other nodes and the running processes have seen.';
    this.report({ kind: 'nodes vote', level: 'warning', message });
  }
}
