/**
 * What one simulated master sends to its replica: every write, in order, some time later. What the replica has not got when it is
 * promoted is lost: the tail.
 *
 *     linked ──▶ cut ──▶ linked        what was written meanwhile follows
 *        └────────┴────▶ ended         the replica is a master now, or copies another one
 */
import type { Random } from './random.js';
import type { Changes } from './redis-data.js';
import type { SimServer } from './sim-server.js';
import type { VirtualTime } from './virtual-time.js';

/** What a command wrote; undefined when all data went. */
type Written = Changes | undefined;

interface Sent {
  readonly offset: number;
  readonly written: Written;
}

/** Somebody waits until the replica has acknowledged an offset. */
interface Awaiting {
  readonly offset: number;
  readonly acknowledged: () => void;
}

const USUAL_LAG_MS: readonly [number, number] = [0.2, 2];

export class Replication {
  /** How long a write takes to the replica, and the acknowledgement back, in ms. */
  lagMs = USUAL_LAG_MS;
  private state: 'linked' | 'cut' | 'ended' = 'linked';
  private offset = 0;
  /** What the replica has acknowledged, as the master knows it. */
  private known = 0;
  private readonly pending: Sent[] = [];
  private awaiting: Awaiting[] = [];
  private arrivesAt = 0;

  constructor(readonly master: SimServer, readonly replica: SimServer, private readonly time: VirtualTime, private readonly random: Random) {
    this.copy();
  }

  /** How many commands wrote something that the replica has not got. */
  get behind(): number {
    return this.pending.length;
  }

  send(written: Written): void {
    this.pending.push({ offset: ++this.offset, written });
    this.deliverLater();
  }

  /** The replica gets all data anew: the master is another one, or was started anew. */
  copy(): void {
    this.pending.length = 0;
    this.replica.become(this.master);
    this.acknowledge();
  }

  cut(): void {
    if (this.state === 'linked') this.state = 'cut';
  }

  mend(): void {
    this.lagMs = USUAL_LAG_MS;
    if (this.state !== 'cut') return;
    this.state = 'linked';
    this.deliverLater();
  }

  /** What the replica has not got by now it will never get. */
  end(): void {
    this.state = 'ended';
  }

  /** Calls `acknowledged` when the replica has all that was written so far. Returns what makes it forget that. */
  whenAcknowledged(acknowledged: () => void): () => void {
    const one: Awaiting = { offset: this.offset, acknowledged };
    this.awaiting.push(one);
    this.answerAll();
    return () => (this.awaiting = this.awaiting.filter((other) => other !== one));
  }

  private deliverLater(): void {
    const { offset, time } = this;
    this.arrivesAt = Math.max(this.arrivesAt, time.now + this.lag());
    time.after(this.arrivesAt - time.now, () => this.deliver(offset), true);
  }

  private deliver(upTo: number): void {
    if (this.state !== 'linked' || this.replica.state !== 'up') return;
    while (this.pending[0] !== undefined && this.pending[0].offset <= upTo) this.replica.copies(this.pending.shift()!.written);
    this.acknowledge();
  }

  private acknowledge(): void {
    const has = this.offset - this.pending.length;
    this.time.after(this.lag(), () => {
      if (this.state !== 'linked' || this.master.state !== 'up') return;
      this.known = Math.max(this.known, has);
      this.answerAll();
    });
  }

  private answerAll(): void {
    const { known } = this;
    const answered = this.awaiting.filter(({ offset }) => offset <= known);
    this.awaiting = this.awaiting.filter(({ offset }) => offset > known);
    for (const { acknowledged } of answered) acknowledged();
  }

  private lag(): number {
    return this.random.between(...this.lagMs);
  }
}
