/** The log lines about the server of a store: it stopped or resumed serving, or it does not say who it is. */
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
