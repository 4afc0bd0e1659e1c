/**
 * The time of a simulated world, in ms: what happens is put into it beforehand, and happens in the order of its instants (at
 * one instant in the order in which it was put there). After everything that may wake a process, all promises that can go
 * on go on, so the same seed is the same run.
 */
/** A run has some ten thousand; with so many it goes round in circles. */
const MAX_HAPPENINGS = 1_000_000;

export class Happening {
  cancelled = false;

  constructor(
    readonly at: number,
    readonly order: number,
    readonly happen: () => void,
    /** Concerns no process: no promise can go on because of it. */
    readonly quiet: boolean,
  ) {}

  cancel(): void {
    this.cancelled = true;
  }
}

export class VirtualTime {
  now = 0;
  private readonly heap: Happening[] = [];
  private order = 0;
  private happened = 0;

  after(delayMs: number, happen: () => void, quiet = false): Happening {
    const happening = new Happening(this.now + Math.max(0, delayMs), this.order++, happen, quiet);
    this.push(happening);
    return happening;
  }

  /** Lets things happen until `done` says so or `limit` is reached; tells whether it was done. */
  async runUntil(done: () => boolean, limit: number): Promise<boolean> {
    await turn();
    while (!done()) {
      const next = this.heap[0];
      if (next === undefined || next.at > limit) {
        this.now = limit;
        return false;
      }
      this.pop();
      if (next.cancelled) continue;
      if (++this.happened > MAX_HAPPENINGS) throw new Error(`so much happened by ${this.now.toFixed(1)} that it will never end`);
      this.now = next.at;
      next.happen();
      if (!next.quiet) await turn();
    }
    return true;
  }

  async run(forMs: number): Promise<void> {
    await this.runUntil(() => false, this.now + forMs);
  }

  private push(item: Happening): void {
    const { heap } = this;
    let place = heap.length;
    for (let parent = (place - 1) >> 1; place > 0 && sooner(item, heap[parent] as Happening); parent = (place - 1) >> 1) {
      heap[place] = heap[parent] as Happening;
      place = parent;
    }
    heap[place] = item;
  }

  private pop(): void {
    const { heap } = this;
    const item = heap.pop() as Happening;
    if (heap.length === 0) return;
    let place = 0;
    for (;;) {
      let child = 2 * place + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && sooner(heap[child + 1] as Happening, heap[child] as Happening)) child++;
      if (!sooner(heap[child] as Happening, item)) break;
      heap[place] = heap[child] as Happening;
      place = child;
    }
    heap[place] = item;
  }
}

const sooner = (one: Happening, other: Happening): boolean => one.at < other.at || (one.at === other.at && one.order < other.order);

/** A real turn of the event loop runs all microtasks to their end, however deep the chain of promises is. */
const turn = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve));
