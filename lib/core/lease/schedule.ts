/**
 * What must happen when, with a single timer for a whole process.
 *
 * Most appointments are cancelled long before they are due: a lock is given back milliseconds after its renewal was put
 * down. So a new appointment is only noted. After {@link SORT_AFTER_MS} the timer fires, and what is still there then is
 * sorted into a binary heap. A call that ends before that sets no timer, clears none and moves nothing in the heap.
 *
 *     noted ──(SORT_AFTER_MS)──▶ sorted ──(its time has come)──▶ due
 *       └──────────┴──(cancelled)──▶ off
 *
 * Without appointments the timer fires once more, at most SORT_AFTER_MS later, and is not set again.
 */
import type { Clock, Timer } from '../port/clock.js';

/** For how long new appointments stay unsorted. What is due sooner is sorted in at once. */
const SORT_AFTER_MS = 20;

/** Something with one appointment at a time. Only the schedule writes its fields. */
export abstract class Appointment {
  /** When it is due, in clock.now() time. */
  at = Infinity;
  /** Its position in the heap; -1 outside. */
  heapIndex = -1;
  /** Its position among those that are only noted; -1 outside. */
  notedIndex = -1;
  /** Called once when the time has come; the appointment is off by then and may be made again. */
  abstract due(now: number): void;
}

/** An appointment that only calls back. */
export class Alarm extends Appointment {
  constructor(readonly due: (now: number) => void) {
    super();
  }
}

export class Schedule {
  private readonly noted: Appointment[] = [];
  private readonly heap: Appointment[] = [];
  /** The time of each place in the heap: comparing them here spares a look into objects that may lie anywhere in memory. */
  private readonly times: number[] = [];
  /** When the noted appointments are sorted. None of them is due before. */
  private sortAt = Infinity;
  private timer: Timer | undefined;
  private timerAt = Infinity;

  constructor(
    private readonly clock: Clock,
    /** Told whenever the timer fired, before anything is due: the place to notice that time has jumped. */
    private readonly beforeDue: (now: number) => void = () => {},
  ) {}

  get size(): number {
    return this.noted.length + this.heap.length;
  }

  /** Makes or moves the appointment; `Infinity` cancels it. */
  set(item: Appointment, at: number): void {
    if (at === Infinity) return this.cancel(item);
    item.at = at;
    if (item.heapIndex >= 0) return this.moveInHeap(item);
    if (this.sortAt === Infinity) this.startNoting();
    if (at < this.sortAt) {
      this.cancel(item);
      this.sortIn(item, at);
      return this.arm(at);
    }
    if (item.notedIndex >= 0) return;
    item.notedIndex = this.noted.length;
    this.noted.push(item);
  }

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
  }

  /** Whether the appointment is made. */
  has(item: Appointment): boolean {
    return item.notedIndex >= 0 || item.heapIndex >= 0;
  }

  /** Spares the last firing of the timer when nothing is left to do: the process shuts down. */
  close(): void {
    if (this.size > 0) return;
    this.disarm();
    this.sortAt = Infinity;
  }

  /** The next of the sorted appointments, still made. */
  peek(): Appointment | undefined {
    return this.heap[0];
  }

  /** All appointments that are made, in no order. */
  all(): readonly Appointment[] {
    return [...this.noted, ...this.heap];
  }

  private startNoting(): void {
    this.sortAt = this.clock.now() + SORT_AFTER_MS;
    this.arm(this.sortAt);
  }

  private moveInHeap(item: Appointment): void {
    this.sift(item);
    if (this.heap[0] === item) this.arm(item.at);
  }

  private sortIn(item: Appointment, at: number): void {
    item.at = at;
    item.heapIndex = this.heap.length;
    this.heap.push(item);
    this.times.push(at);
    this.sift(item);
  }

  private takeFromHeap(item: Appointment): void {
    if (item.heapIndex < 0) return;
    const last = this.heap.pop()!;
    this.times.pop();
    if (last !== item) {
      last.heapIndex = item.heapIndex;
      this.sift(last);
    }
    item.heapIndex = -1;
    // Who waited for so long left the timer armed for a time that may be far away.
    if (this.size === 0 && this.sortAt === Infinity) this.disarm();
  }

  private fire(): void {
    this.timer = undefined;
    this.timerAt = Infinity;
    this.beforeDue(this.clock.now());
    const now = this.clock.now();
    if (now >= this.sortAt) this.sortNoted();
    for (let item = this.heap[0]; item && item.at <= now; item = this.heap[0]) {
      this.cancel(item);
      item.due(now);
    }
    this.arm(Math.min(this.heap[0]?.at ?? Infinity, this.sortAt));
  }

  private sortNoted(): void {
    this.sortAt = Infinity;
    const { noted } = this;
    for (let item = noted.pop(); item; item = noted.pop()) {
      item.notedIndex = -1;
      this.sortIn(item, item.at);
    }
  }

  private arm(at: number): void {
    // A timer that fires too early is harmless: it looks and is armed again. That spares moving it at every change.
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

  /** Puts an item whose time changed where the heap's order wants it. */
  private sift(item: Appointment): void {
    const { heap, times } = this;
    const { at } = item;
    let index = item.heapIndex;
    for (let parent = (index - 1) >> 1; index > 0 && times[parent]! > at; parent = (index - 1) >> 1) {
      this.put(heap[parent]!, times[parent]!, index);
      index = parent;
    }
    for (;;) {
      let child = 2 * index + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && times[child + 1]! < times[child]!) child += 1;
      if (times[child]! >= at) break;
      this.put(heap[child]!, times[child]!, index);
      index = child;
    }
    this.put(item, at, index);
  }

  private put(item: Appointment, at: number, index: number): void {
    this.heap[index] = item;
    this.times[index] = at;
    item.heapIndex = index;
  }
}
