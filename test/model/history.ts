/**
 * A history: what requests for locks did and heard, as simulations and fault runs record it, and the same read as one
 * stay for each request to the store (not for each caller that a grant is handed on to) with the times in which it was
 * trusted.
 *
 * All times are on one clock; whoever records processes with clocks of their own converts first. So that nobody is
 * accused falsely, `asked`, `released` and `downgraded` are recorded before the command is sent, and the others when
 * the answer was heard.
 */
import type { LockMode } from '../../lib/core/port/lock-options.js';

interface Recorded {
  readonly at: number;
  readonly key: string;
  readonly id: string;
}

export type HistoryEvent =
  /** The request leaves; `owner` and `permits` as in the request. `passesQueue`: it adopts a hold, or takes a permit on from its process. */
  | (Recorded & { readonly kind: 'asked'; readonly mode: LockMode; readonly owner?: string | undefined; readonly permits?: number | undefined; readonly passesQueue?: boolean })
  /** It is known to have a place in the queue. */
  | (Recorded & { readonly kind: 'queued' })
  /** It is known to have lost its place, or gave it up. */
  | (Recorded & { readonly kind: 'left' })
  | (Recorded & { readonly kind: 'granted'; readonly mode: LockMode; readonly fence: number; readonly fences: number; readonly trustedUntil: number })
  | (Recorded & { readonly kind: 'renewed'; readonly trustedUntil: number })
  | (Recorded & { readonly kind: 'downgraded' })
  /** The end of the hold, whoever ended it. */
  | (Recorded & { readonly kind: 'released' | 'lost' });

/** A time in which one request trusted its lease in one mode. */
export interface TrustedWindow {
  readonly stay: Stay;
  readonly mode: LockMode;
  readonly from: number;
  until: number;
}

/** All that one request did. */
export interface Stay {
  readonly id: string;
  readonly owner: string | undefined;
  readonly passesQueue: boolean;
  readonly permits: number | undefined;
  readonly askedMode: LockMode;
  readonly askedAt: number;
  /** Since when it is known to wait. */
  queuedAt?: number;
  grant?: { readonly at: number; readonly mode: LockMode; readonly fence: number; readonly lastFence: number };
  /** How it holds the lock now: as granted, until a downgrade. */
  mode: LockMode;
  /** In order, not touching each other unless the mode changed. */
  readonly windows: TrustedWindow[];
  over: boolean;
}

/** The history as text, one event a line, to be printed when a run fails. */
export function formatHistory(history: readonly HistoryEvent[]): string {
  return history
    .map(({ at, key, id, kind, ...details }) => `${at.toFixed(3).padStart(12)}  ${key}  ${id.padEnd(10)} ${kind.padEnd(10)} ${JSON.stringify(details)}`)
    .join('\n');
}

/** The stays of all requests for one key. */
export function readStays(events: readonly HistoryEvent[]): Stay[] {
  const stays = new Map<string, Stay>();
  for (const event of [...events].sort((one, other) => one.at - other.at)) {
    const { id, at } = event;
    const stay = stays.get(id);
    if (event.kind === 'asked') {
      const { mode, owner, permits, passesQueue = false } = event;
      // The same request sent again is the same request. Nobody works under a grant that it had before: its process did not take that.
      if (stay !== undefined) distrust(stay, at);
      else stays.set(id, { id, owner, permits, passesQueue, askedMode: mode, askedAt: at, mode, windows: [], over: false });
    } else if (stay === undefined) {
      throw new Error(`history: '${id}' is ${event.kind} at ${at}, but never asked`);
    } else if (!stay.over) {
      follow(stay, event);
    }
  }
  return [...stays.values()];
}

function follow(stay: Stay, event: Exclude<HistoryEvent, { kind: 'asked' }>): void {
  switch (event.kind) {
    case 'queued':
      stay.queuedAt ??= event.at;
      break;
    case 'left':
      delete stay.queuedAt;
      break;
    case 'granted': {
      const { at, mode, fence, fences } = event;
      // Told twice, by a message and by an answer, it is still one grant.
      if (stay.grant === undefined) stay.mode = mode;
      stay.grant ??= { at, mode, fence, lastFence: fence + fences - 1 };
      trust(stay, at, event.trustedUntil);
      break;
    }
    case 'renewed':
      trust(stay, event.at, event.trustedUntil);
      break;
    case 'downgraded': {
      const until = distrust(stay, event.at);
      stay.mode = 'read';
      trust(stay, event.at, until);
      break;
    }
    case 'released':
    case 'lost':
      distrust(stay, event.at);
      // An answer to a renewal that was under way changes nothing any more.
      stay.over = true;
  }
}

function trust(stay: Stay, from: number, until: number): void {
  const last = stay.windows.at(-1);
  if (last !== undefined && last.mode === stay.mode && last.until >= from) last.until = Math.max(last.until, until);
  else if (until > from) stay.windows.push({ stay, mode: stay.mode, from, until });
}

/** Ends the present window, and tells until when it would have lasted. */
function distrust(stay: Stay, at: number): number {
  const last = stay.windows.at(-1);
  if (last === undefined) return at;
  const { until } = last;
  last.until = Math.min(until, at);
  return until;
}
