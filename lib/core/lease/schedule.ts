/**
 * The appointments of a process (renewals, ends of trust, heartbeats, deadlines), with a single timer for all of them.
 *
 * Most appointments are cancelled long before they are due, because a lock is mostly released milliseconds after its renewal was
 * planned. So a new appointment is only noted in a list. The timer fires {@link SORT_AFTER_MS} later, and what is still in the
 * list then is sorted into a binary heap. A call that ends before that sets no timer of its own, clears none and moves nothing in the heap.
 *
 *     noted ──(SORT_AFTER_MS)──▶ sorted ──(its time has come)──▶ due
 *       └──────────┴──(cancelled)──▶ off
 *
 * When the last noted appointment is cancelled, the timer fires once more, at most SORT_AFTER_MS later, and is not set again.
 */
import type { Clock, Timer } from '../port/clock.js';

/**
 * An object that has one appointment at a time. Most are the leases, calls and requests themselves, so that none needs an object of its
 * own. Only the schedule and its heap write its fields.
 */
export abstract class Appointment {
  /** When it is due, in clock.now() time; Infinity without an appointment. */
  at = Infinity;
  /** Its position in the heap; -1 when it is not there. */
  heapIndex = -1;
  /** Its position in the list of noted appointments; -1 when it is not there. */
  notedIndex = -1;

  constructor(
    /**
     * Whether the process is kept alive for it, also when it is never due: the timer does not do that, and without Redis there may be no socket
     * that does, so a process that only waits would end before it has its answer.
     */
    readonly keepsAlive = false,
  ) {}

  /** Does once what is due when the time has come. The appointment has been removed by then, and a new one may be made. */
  abstract due(now: number): void;
}

/** An appointment that calls a function when it is due. */
export class Alarm extends Appointment {
  constructor(readonly due: (now: number) => void) {
    super();
  }
}

/** A binary heap of appointments: the one that is due first stands at the top, and any of them is moved or removed in logarithmic time. */
class AppointmentHeap {
  /** Only the heap itself changes it. */
  readonly items: Appointment[] = [];
  /** When each appointment is due. Numbers in one array are compared faster than fields of objects scattered in memory. */
  private readonly times: number[] = [];

  add(item: Appointment, at: number): void {
    item.at = at;
    item.heapIndex = this.items.length;
    this.items.push(item);
    this.times.push(at);
    this.moved(item);
  }

  /** Removes an appointment that is in the heap. */
  remove(item: Appointment): void {
    const last = this.items.pop()!;
    this.times.pop();
    if (last !== item) {
      last.heapIndex = item.heapIndex;
      this.moved(last);
    }
    item.heapIndex = -1;
  }

  /** Moves an item whose time has changed to its right position. */
  moved(item: Appointment): void {
    const { items: heap, times } = this;
    const { at } = item;
    let index = item.heapIndex;
    for (let parent = (index - 1) >> 1; index > 0 && times[parent]! > at; parent = (index - 1) >> 1) {
      this.put(heap[parent]!, times[parent]!, index);
      index = parent;
    }
    for (;;) {
      let child = 2 * index + 1;
      if (child >= heap.length) break;
      const sibling = child + 1;
      if (sibling < heap.length && times[sibling]! < times[child]!) child = sibling;
      if (times[child]! >= at) break;
      this.put(heap[child]!, times[child]!, index);
      index = child;
    }
    this.put(item, at, index);
  }

  private put(item: Appointment, at: number, index: number): void {
    this.items[index] = item;
    this.times[index] = at;
    item.heapIndex = index;
  }
}

/** How long new appointments stay unsorted, in ms. An appointment that is due sooner is sorted into the heap at once. */
const SORT_AFTER_MS = 20;

export class Schedule {
  private readonly noted: Appointment[] = [];
  private readonly heap = new AppointmentHeap();
  /** When the noted appointments will be sorted. None of them is due before that. */
  private sortAt = Infinity;
  private timer: Timer | undefined;
  private timerAt = Infinity;
  /** How many appointments keep the process alive, and what lets it end that is kept alive for them. */
  private waits = 0;
  private letGo: (() => void) | undefined;

  constructor(
    private readonly clock: Clock,
    /** Runs whenever the timer has fired, before any appointment: the watchdog looks for a sleep of the machine then. */
    private readonly beforeDue: (now: number) => void = () => {},
  ) {}

  get size(): number {
    return this.noted.length + this.heap.items.length;
  }

  /** Resolves with what `begin` passes to its callback, or with `otherwise` when that takes longer than `forMs`. */
  within<T>(forMs: number, otherwise: T, begin: (done: (value: T) => void) => void): Promise<T> {
    return new Promise((resolve) => {
      const patience = new Alarm(() => resolve(otherwise));
      this.set(patience, this.clock.now() + forMs);
      begin((value) => {
        this.cancel(patience);
        resolve(value);
      });
    });
  }

  /** Makes the appointment, or moves it to another time; `Infinity` cancels it, but for one that keeps the process alive. */
  set(item: Appointment, at: number): void {
    const { keepsAlive } = item;
    if (at === Infinity && !keepsAlive) return this.cancel(item);
    item.at = at;
    if (item.heapIndex >= 0) return this.moveInHeap(item);
    if (this.sortAt === Infinity) this.startNoting();
    if (at >= this.sortAt) {
      if (item.notedIndex >= 0) return;
      item.notedIndex = this.noted.length;
      this.noted.push(item);
    } else {
      this.cancel(item);
      this.heap.add(item, at);
      this.arm(at);
    }
    if (!keepsAlive) return;
    this.waits += 1;
    this.letGo ??= this.clock.keepAlive();
  }

  /** While appointments are noted, the process is let go only when they are sorted, so that short waits do not start and stop an interval each. */
  cancel(item: Appointment): void {
    item.at = Infinity;
    const { notedIndex } = item;
    if (notedIndex < 0) return this.takeFromHeap(item);
    // The last one takes its position.
    const last = this.noted.pop()!;
    if (last !== item) {
      last.notedIndex = notedIndex;
      this.noted[notedIndex] = last;
    }
    item.notedIndex = -1;
    if (item.keepsAlive) this.waits -= 1;
  }

  /** Whether the object has an appointment. */
  has(item: Appointment): boolean {
    return item.notedIndex >= 0 || item.heapIndex >= 0;
  }

  /** Clears the timer at shutdown when there are no appointments, so that it does not fire once more. */
  close(): void {
    if (this.size > 0) return;
    this.disarm();
    this.sortAt = Infinity;
    this.letGoIfIdle();
  }

  /** The sorted appointment that is due first. It is not removed. Noted appointments are not considered. */
  peek(): Appointment | undefined {
    return this.heap.items[0];
  }

  /** All objects that have an appointment, in no particular order. */
  all(): readonly Appointment[] {
    return [...this.noted, ...this.heap.items];
  }

  private startNoting(): void {
    this.sortAt = this.clock.now() + SORT_AFTER_MS;
    this.arm(this.sortAt);
  }

  private moveInHeap(item: Appointment): void {
    this.heap.moved(item);
    if (item.heapIndex === 0) this.arm(item.at);
  }

  private takeFromHeap(item: Appointment): void {
    if (item.heapIndex < 0) return;
    this.heap.remove(item);
    if (item.keepsAlive) this.waits -= 1;
    if (this.sortAt === Infinity) this.letGoIfIdle();
    // The timer is set for this appointment, which may have been far away, and nothing else needs it.
    if (this.size === 0 && this.sortAt === Infinity) this.disarm();
  }

  private fire(): void {
    this.timer = undefined;
    this.timerAt = Infinity;
    this.beforeDue(this.clock.now());
    const now = this.clock.now();
    if (now >= this.sortAt) this.sortNoted();
    for (let item = this.peek(); item && item.at <= now; item = this.peek()) {
      this.cancel(item);
      item.due(now);
    }
    this.arm(Math.min(this.peek()?.at ?? Infinity, this.sortAt));
  }

  private letGoIfIdle(): void {
    if (this.waits > 0) return;
    this.letGo?.();
    this.letGo = undefined;
  }

  private sortNoted(): void {
    this.sortAt = Infinity;
    this.letGoIfIdle();
    const { noted } = this;
    for (let item = noted.pop(); item; item = noted.pop()) {
      item.notedIndex = -1;
      this.heap.add(item, item.at);
    }
  }

  private arm(at: number): void {
    // A timer that fires too early is set again then. That is cheaper than moving it whenever the first appointment changes.
    if (at >= this.timerAt) return;
    this.disarm();
    this.timerAt = at;
    this.timer = this.clock.setTimer(() => this.fire(), at - this.clock.now());
  }

  private disarm(): void {
    if (this.timer) this.clock.clearTimer(this.timer);
    this.timer = undefined;
    this.timerAt = Infinity;
  }
}
