/** What operators are told of the server behind the store: that it is away or back, and that it does not say who it is. */
import type { Report } from '../../core/port/report.js';
import { lasted, type OutageListener } from '../wire/outage.js';
import type { Memories } from './memories.js';

/** Tells of an outage's beginning and end; `ask` asks the server whether it serves again. */
export function outageNews(node: string, report: Report, ask: () => void): OutageListener {
  return {
    away: (reason) => report({ kind: 'store lost', level: 'warning', message: awayText(node, reason) }),
    back: (afterMs) => report({ kind: 'store back', level: 'info', message: `Locks: ${node} serves again, after ${lasted(afterMs)}.` }),
    ask,
  };
}

/** Tells once, at boot, that a restart of the server cannot be noticed, where something was to be done about it. */
export function warnOfBlindness(memories: Memories, node: string, recoveryMs: number, report: Report): void {
  const message = recoveryMs > 0 ? memories.blindness : undefined;
  if (message !== undefined) report({ kind: `no recovery on ${node}`, level: 'warning', message });
}

function awayText(node: string, reason: string): string {
  const meanwhile = 'Locks that are held stay held until their leases end, calls wait as long as their waitMs allows, and the server is tried again all the time.';
  return `Locks: ${node} does not serve: ${reason.replace(/\.$/, '')}. ${meanwhile}`;
}
