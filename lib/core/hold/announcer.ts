/** Announces what happens to locks: as events to the application, and as log lines for operators where they should act. */
import type { StoreLease } from '../lease/store-lease.js';
import { isLockError, type LockLostError, type LockStoreError, quoted } from '../port/errors.js';
import { failuresOf } from '../port/hold-errors.js';
import type { ReleaseOutcome } from '../port/lease.js';
import type { LockEvent, Report } from '../port/lock-events.js';
import type { ResolvedOptions } from '../port/lock-options.js';
import type { Hold } from './hold.js';
import type { Call } from '../queue/call.js';

/** Receives the events. While it is not observed, no events are made: LockCore then tells the announcer of no grant and no release. */
export interface EventSink {
  readonly observed: boolean;
  next(event: LockEvent): void;
}

export class Announcer {
  /** The holds that the end of a shutdown has ended, until {@link shutdownLost} logs them. */
  private overstayed: Hold[] = [];

  constructor(
    readonly events: EventSink,
    /** Takes what is for the log alone. */
    readonly report: Report = () => {},
  ) {}

  waiting({ key, number: call, options }: Call): void {
    if (this.events.observed) this.events.next({ type: 'waiting', key, call, ...siteOf(options) });
  }

  began(type: 'granted' | 'adopted', hold: Hold, waitedMs: number): void {
    this.events.next({ ...factsOf(hold), type, waitedMs });
  }

  released(hold: Hold, outcome: ReleaseOutcome): void {
    const { heldMs } = hold;
    if (hold.isHandedOff && outcome === 'released') this.events.next({ ...factsOf(hold), type: 'handedOff', heldMs });
    else this.events.next({ ...factsOf(hold), type: 'released', heldMs, outcome });
  }

  lost(hold: Hold, cause: LockLostError): void {
    if (this.events.observed) this.events.next({ ...factsOf(hold), type: 'lost', heldMs: hold.heldMs, cause });
    // A nested hold has no lease of its own, so its loss is logged only for the hold around it.
    if (hold.isNested) return;
    if (cause.reason === 'shutdown') this.overstayed.push(hold);
    else this.report({ kind: 'lease lost', level: 'warning', message: `${cause.message} It was held${heldText(hold)}.` });
  }

  renewFailed(lease: StoreLease, cause: LockStoreError, trustedForMs: number): void {
    const { key, mode } = lease;
    if (this.events.observed) this.events.next({ type: 'renewFailed', key, mode, call: undefined, label: undefined, template: undefined, cause });
    const { trustedUntil } = lease;
    const isStill = (): boolean => lease.state === 'held' && lease.trustedUntil === trustedUntil;
    this.report({ kind: 'renewal failed', level: 'warning', message: renewFailedText(key, cause, trustedForMs), isStill });
  }

  /** Work under a ticket failed, and its hold did not go back to the ticket. A loss has its own line. */
  notHandedBack({ key, loss }: Hold, { message }: Error): void {
    if (!loss) this.report({ kind: 'hand-back', level: 'warning', message: `Lock '${key}' is not with its ticket again, so the next attempt must take it anew. ${message}` });
  }

  /** Logs the holds that went on for longer than the shutdown waits, the longest first. */
  shutdownLost(graceMs: number): void {
    const holds = this.overstayed.sort((a, b) => b.heldMs - a.heldMs);
    this.overstayed = [];
    if (holds.length > 0) this.report({ kind: 'shutdown', level: 'warning', message: keptText(holds, graceMs) });
  }

  /** The function of a leader failed. */
  termFailed(hold: Hold, cause: unknown, restMs: number): void {
    const { key, call, fence, options } = hold;
    if (this.events.observed) this.events.next({ type: 'termFailed', key, call, fence, ...siteOf(options), restMs, cause });
  }

  /** A call ended without a lock, because of `cause`; of none when its signal aborted. */
  refused({ key, number: call, options }: Call, cause: unknown, waitedMs: number): void {
    if (!this.events.observed) return;
    const common = { key, call, ...siteOf(options), waitedMs };
    if (!isLockError(cause)) this.events.next({ ...common, type: 'cancelled' });
    else if (cause.code === 'LOCK_TIMEOUT') this.events.next({ ...common, type: 'busy' });
    else this.events.next({ ...common, type: 'failed', cause });
  }
}

function siteOf({ mode, label, template }: ResolvedOptions): Pick<ResolvedOptions, 'mode' | 'label' | 'template'> {
  return { mode, label, template };
}

function factsOf(hold: Hold): ReturnType<typeof siteOf> & { key: string; call: number; fence: number; nested: boolean } {
  const { key, call, isNested: nested } = hold;
  return { ...siteOf(hold.options), key, call, nested, fence: hold.fences.get(key)! };
}

// The log lines about holds: a lease was lost, a renewal failed, a hold outlasted the shutdown.

/** How many holds the log line about a shutdown names at most. */
const MAX_HOLDS_NAMED = 10;

/** By whom something is held, and for how long. */
function heldText({ heldMs, options: { label } }: Hold): string {
  return `${label === undefined ? '' : ` by ${label}`} for ${Math.round(heldMs)} ms`;
}

function renewFailedText(key: string, cause: LockStoreError, trustedForMs: number): string {
  const left = Math.max(0, Math.round(trustedForMs));
  return `Lock '${key}' could not be renewed: ${failuresOf(cause)}. It stays held for another ${left} ms and is lost after that, unless a retry succeeds.`;
}

function keptText(holds: readonly Hold[], graceMs: number): string {
  const named = holds.slice(0, MAX_HOLDS_NAMED).map((hold) => `${quoted(hold.keys)}${heldText(hold)}`);
  const more = holds.length > MAX_HOLDS_NAMED ? `; and ${holds.length - MAX_HOLDS_NAMED} more` : '';
  return (
    `The shutdown waited ${graceMs} ms (shutdownGraceMs), and work still goes on under ${holds.length === 1 ? 'a hold' : `${holds.length} holds`}: ` +
    `${named.join('; ')}${more}. Their signals have aborted; the locks stay taken until their leases end.`
  );
}
