/**
 * What happened to the locks of this process in the last minutes: counts per time slice for the charts, and the last
 * losses and refusals word for word. Its memory is bounded whatever happens.
 */
import type { Clock } from '../core/port/clock.js';
import type { LockEvent } from '../core/port/lock-events.js';

const SLICE_MS = 10_000;
const SLICES = 60;
const MOST_INCIDENTS = 20;

/** Who gives up sooner did not mean to wait (`tryAcquire`, `onBusy: 'skip'`), and is no trouble. */
const SHORTEST_WAIT_MS = 250;

const COUNTED = ['granted', 'waiting', 'refused', 'gaveUp', 'lost', 'renewFailed', 'failed'] as const;
type Counted = (typeof COUNTED)[number];

/** Something that an operator should know of, though it is over. */
export interface Incident {
  /** Wall clock, in ms. */
  readonly at: number;
  readonly type: 'lost' | 'gaveUp' | 'failed';
  readonly key: string;
  readonly label: string | undefined;
  readonly message: string;
}

export interface HistoryView {
  readonly sliceMs: number;
  /** Per slice, the oldest first; the last one is still growing. */
  readonly counts: Readonly<Record<Counted, readonly number[]>>;
  /** The newest first. */
  readonly incidents: readonly Incident[];
}

export class LockHistory {
  private readonly counts: Record<Counted, number[]> = {
    granted: zeros(),
    waiting: zeros(),
    refused: zeros(),
    gaveUp: zeros(),
    lost: zeros(),
    renewFailed: zeros(),
    failed: zeros(),
  };
  private readonly incidents: Incident[] = [];
  private readonly startedAt: number;
  private slice = 0;

  constructor(private readonly clock: Clock) {
    this.startedAt = clock.now();
  }

  record(event: LockEvent): void {
    const type = countedAs(event);
    if (type === undefined) return;
    this.advance();
    const counts = this.counts[type];
    counts[SLICES - 1] = (counts[SLICES - 1] ?? 0) + 1;
    if (type !== 'lost' && type !== 'gaveUp' && type !== 'failed') return;
    const { key, label } = event;
    this.incidents.unshift({ at: this.clock.wallNow(), type, key, label, message: messageOf(event) });
    this.incidents.length = Math.min(this.incidents.length, MOST_INCIDENTS);
  }

  view(): HistoryView {
    this.advance();
    return { sliceMs: SLICE_MS, counts: this.counts, incidents: this.incidents };
  }

  private advance(): void {
    const slice = Math.floor((this.clock.now() - this.startedAt) / SLICE_MS);
    const passed = Math.min(slice - this.slice, SLICES);
    this.slice = slice;
    if (passed <= 0) return;
    for (const type of COUNTED) {
      const counts = this.counts[type];
      counts.splice(0, passed);
      while (counts.length < SLICES) counts.push(0);
    }
  }
}

function zeros(): number[] {
  return new Array<number>(SLICES).fill(0);
}

function countedAs(event: LockEvent): Counted | undefined {
  // A call inside a hold adds no hold: what is counted is the outermost one.
  if ('nested' in event && event.nested) return undefined;
  switch (event.type) {
    case 'busy':
      return event.waitedMs < SHORTEST_WAIT_MS ? 'refused' : 'gaveUp';
    case 'released':
    case 'cancelled':
      return undefined;
    case 'termFailed':
      return 'failed';
    default:
      return event.type;
  }
}

function messageOf(event: LockEvent): string {
  if (event.type === 'termFailed') return `the function of the leader failed: ${textOf(event.cause)}`;
  if ('cause' in event) return event.cause.message;
  return event.type === 'busy' ? `the lock was still busy after ${Math.round(event.waitedMs)} ms` : event.type;
}

/** What the function of a leader threw may be anything. */
function textOf(cause: unknown): string {
  return typeof cause === 'object' && cause !== null && 'message' in cause ? String(cause.message) : String(cause);
}
