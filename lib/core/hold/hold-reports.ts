/** The log lines about holds: a lease was lost, a renewal failed, a hold outlasted the shutdown. */
import type { LockStoreError } from '../port/errors.js';
import { failuresOf } from '../port/hold-errors.js';

/** What a log line tells about a hold. */
export interface ReportedHold {
  readonly keys: readonly string[];
  readonly heldMs: number;
  readonly options: { readonly label?: string | undefined };
}

/** How many holds the log line about a shutdown names at most. */
const MAX_HOLDS_NAMED = 10;

export function lostText(reason: string, { heldMs, options: { label } }: ReportedHold): string {
  return `${reason} It was held${label === undefined ? '' : ` by ${label}`} for ${Math.round(heldMs)} ms.`;
}

export function renewFailedText(key: string, cause: LockStoreError, trustedForMs: number): string {
  const left = Math.max(0, Math.round(trustedForMs));
  return `Lock '${key}' could not be renewed: ${failuresOf(cause)}. It stays held for another ${left} ms and is lost after that, unless a retry succeeds.`;
}

export function keptText(holds: readonly ReportedHold[], graceMs: number): string {
  const named = holds.slice(0, MAX_HOLDS_NAMED).map(({ keys, heldMs, options: { label } }) => {
    const whose = label === undefined ? '' : ` by ${label}`;
    return `${keys.map((key) => `'${key}'`).join(', ')}${whose} for ${Math.round(heldMs)} ms`;
  });
  const more = holds.length > MAX_HOLDS_NAMED ? `; and ${holds.length - MAX_HOLDS_NAMED} more` : '';
  return (
    `The shutdown waited ${graceMs} ms (shutdownGraceMs), and work still goes on under ${holds.length === 1 ? 'a lock' : `${holds.length} holds`}: ` +
    `${named.join('; ')}${more}. Their signals have aborted; the locks stay taken until their leases end.`
  );
}
