/**
 * What happened to the locks of this process in the last ten minutes, in bounded memory: counts per time slice for the charts, and
 * the messages of the last losses and failures.
 */
import type { Clock } from '../core/port/clock.js';
import { messageOf } from '../core/port/errors.js';
import type { LockEvent, StoreEvent } from '../core/port/lock-events.js';

const SLICE_MS = 10_000;
const SLICES = 60;
const MAX_INCIDENTS = 20;

/** A call that is refused after a shorter wait, in ms, did not mean to wait (`tryAcquire`, `onBusy: 'skip'`), so it is no incident. */
const SHORTEST_WAIT_MS = 250;

const COUNTED = ['waiting', 'refused', 'gaveUp', 'lost', 'failed'] as const;
type Counted = (typeof COUNTED)[number];

/** A lost lease, a call that gave up, or a call that failed. */
interface Incident {
  /** When it happened, in ms of the wall clock. */
  readonly at: number;
  readonly type: 'lost' | 'gaveUp' | 'failed';
  readonly key: string;
  readonly label: string | undefined;
  readonly message: string;
}

export interface HistoryView {
  readonly sliceMs: number;
  /** The counts of each slice, the oldest first. The last slice is the present one. */
  readonly counts: Readonly<Record<Counted, readonly number[]>>;
  /** The last incidents, the newest first. */
  readonly incidents: readonly Incident[];
}

export class LockHistory {
  private readonly counts = Object.fromEntries(COUNTED.map((type) => [type, zeros()])) as Record<Counted, number[]>;
  private readonly incidents: Incident[] = [];
  private readonly startedAt: number;
  private slice = 0;

  constructor(private readonly clock: Clock) {
    this.startedAt = clock.now();
  }

  record(event: LockEvent): void {
    // What happens to the store is on the board as its state.
    if (event.key === undefined) return;
    const type = countedAs(event);
    if (type === undefined) return;
    this.advance();
    const counts = this.counts[type];
    counts[SLICES - 1] = (counts[SLICES - 1] ?? 0) + 1;
    if (type !== 'lost' && type !== 'gaveUp' && type !== 'failed') return;
    const { key, label } = event;
    this.incidents.unshift({ at: this.clock.wallNow(), type, key, label, message: storyOf(event) });
    this.incidents.length = Math.min(this.incidents.length, MAX_INCIDENTS);
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

function countedAs(event: Exclude<LockEvent, StoreEvent>): Counted | undefined {
  // A nested call has no hold of its own in the store, so only the loss of the outermost hold is counted.
  if ('nested' in event && event.nested) return undefined;
  switch (event.type) {
    case 'busy':
      return event.waitedMs < SHORTEST_WAIT_MS ? 'refused' : 'gaveUp';
    case 'termFailed':
      return 'failed';
    case 'waiting':
    case 'lost':
    case 'failed':
      return event.type;
    default:
      return undefined;
  }
}

function storyOf(event: LockEvent): string {
  if (event.type === 'termFailed') return `the function of the leader failed: ${messageOf(event.cause)}`;
  if ('cause' in event) return event.cause.message;
  return event.type === 'busy' ? `the lock was still busy after ${Math.round(event.waitedMs)} ms` : event.type;
}
