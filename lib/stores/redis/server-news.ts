/** The log lines about the server of a store: it stopped or resumed serving, or it does not say who it is. */
import type { Clock, Timer } from '../../core/port/clock.js';
import type { Report } from '../../core/port/report.js';
import { lasted, type OutageListener } from '../wire/outage.js';
import type { Memories } from './memories.js';

/** Reports the beginning and the end of an outage. */
export function outageNews(node: string, report: Report): Pick<OutageListener, 'away' | 'back'> {
  return {
    away: (reason) => report({ kind: 'store lost', level: 'warning', message: awayText(node, reason) }),
    back: (afterMs) => report({ kind: 'store back', level: 'info', message: `Locks: ${node} serves again, after ${lasted(afterMs)}.` }),
  };
}

/** Warns at boot that a restart of the server cannot be noticed, unless recovery is switched off. */
export function warnOfBlindness(memories: Memories, node: string, recoveryMs: number, report: Report): void {
  if (recoveryMs === 0 || !memories.areBlind) return;
  const message =
    `Locks: ${node} does not tell its user who it is, so a restart or a failover that loses data is not noticed: two may hold a lock then. ` +
    'Allow +info (and +cluster|myid on a Cluster).';
  report({ kind: `no recovery on ${node}`, level: 'warning', message });
}

function awayText(node: string, reason: string): string {
  const meanwhile = 'Locks that are held stay held until their leases end, calls wait as long as their waitMs allows, and the server is retried continuously.';
  return `Locks: ${node} does not serve: ${reason.replace(/\.$/, '')}. ${meanwhile}`;
}

/** Behind so many characters for the server, the name of a memory is the time from which it counts. */
const SERVER_LENGTH = 17;
/** A recovery that is not claimed by this process is looked at again after this long, in ms. */
const LOOKS_AFTER_MS = 500;

/** Reports that a server forgot what it granted, and that its recovery is over: one line each, however many slot groups there are. */
export class RecoveryNews {
  private timer: Timer | undefined;
  private before = 0;

  constructor(
    private readonly node: string,
    private readonly clock: Clock,
    private readonly report: Report,
    private readonly recovery: { readonly recoversForMs: number; readonly broughtBack: number },
  ) {}

  /** A slot group had the memory `before`, and has another one now. */
  forgot(before: string, memory: string): void {
    if (this.timer !== undefined) return;
    this.before = this.recovery.broughtBack;
    const message = `Locks: ${this.node} ${reasonOf(before, memory)}, and may have forgotten who holds what. It grants nothing new for ${lasted(this.recovery.recoversForMs)}; leases that are held are brought back meanwhile.`;
    this.report({ kind: `recovery of ${this.node}`, level: 'warning', message });
    this.lookAgain();
  }

  close(): void {
    if (this.timer !== undefined) this.clock.clearTimer(this.timer);
    this.timer = undefined;
  }

  private lookAgain(): void {
    this.timer = this.clock.setTimer(() => {
      if (this.recovery.recoversForMs > 0) return this.lookAgain();
      this.timer = undefined;
      const count = this.recovery.broughtBack - this.before;
      this.report({ kind: `end of the recovery of ${this.node}`, level: 'info', message: `Locks: ${this.node} grants again. This process brought back ${count} ${count === 1 ? 'lease' : 'leases'}.` });
    }, Math.max(LOOKS_AFTER_MS, this.recovery.recoversForMs));
  }
}

/** In a Cluster the second half of a server's name is that of the node, which a restart does not change. */
function reasonOf(before: string, memory: string): string {
  if (before.slice(0, SERVER_LENGTH) === memory.slice(0, SERVER_LENGTH)) return 'was flushed, or loaded other data';
  if (memory[SERVER_LENGTH - 1] !== '@') return 'was restarted, or another server took its place';
  return before.slice(8, SERVER_LENGTH) === memory.slice(8, SERVER_LENGTH) ? 'has a node that was restarted' : 'has another master for some slots';
}
