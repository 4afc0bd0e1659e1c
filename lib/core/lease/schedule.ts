/**
 * What must happen when, with a single timer for a whole process: a binary heap of appointments that can be moved and
 * cancelled in O(log n). Without appointments there is no timer.
 */
import type { Clock, Timer } from '../port/clock.js';

/** Something with one appointment at a time. */
export abstract class Appointment {
  /** When it is due, in clock.now() time. Only the schedule writes it. */
  at = Infinity;
  /** Where it stands in the heap; -1 outside. Only the schedule writes it. */
  place = -1;
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
  private readonly heap: Appointment[] = [];
  /** The time of each place in the heap: comparing them here spares a look into objects that may lie anywhere in memory. */
  private readonly times: number[] = [];
  private timer: Timer | undefined;
  private timerAt = Infinity;

  constructor(
    private readonly clock: Clock,
    /** Told whenever the timer fired, before anything is due: the place to notice that time has jumped. */
    private readonly beforeDue: (now: number) => void = () => {},
  ) {}

  get size(): number {
    return this.heap.length;
  }

  /** Makes or moves the appointment; `Infinity` cancels it. */
  set(item: Appointment, at: number): void {
    if (at === Infinity) return this.cancel(item);
    item.at = at;
    if (item.place < 0) {
      item.place = this.heap.length;
      this.heap.push(item);
      this.times.push(at);
    }
    this.settle(item);
    if (this.heap[0] === item) this.arm();
  }

  cancel(item: Appointment): void {
    if (item.place < 0) return;
    const last = this.heap.pop()!;
    this.times.pop();
    if (last !== item) {
      last.place = item.place;
      this.settle(last);
    }
    item.place = -1;
    item.at = Infinity;
    if (this.heap.length === 0) this.disarm();
  }

  /** The next appointment, still made. */
  peek(): Appointment | undefined {
    return this.heap[0];
  }

  private fire(): void {
    this.timer = undefined;
    this.timerAt = Infinity;
    this.beforeDue(this.clock.now());
    for (let now = this.clock.now(), item = this.heap[0]; item && item.at <= now; item = this.heap[0]) {
      this.cancel(item);
      item.due(now);
    }
    this.arm();
  }

  private arm(): void {
    const next = this.heap[0];
    // A timer that fires too early is harmless: it looks and is armed again. That spares moving it at every change.
    if (!next || next.at >= this.timerAt) return;
    this.disarm();
    this.timerAt = next.at;
    this.timer = this.clock.setTimer(() => this.fire(), next.at - this.clock.now());
  }

  private disarm(): void {
    if (this.timer) this.clock.clearTimer(this.timer);
    this.timer = undefined;
    this.timerAt = Infinity;
  }

  /** Puts an item whose time changed where the heap's order wants it. */
  private settle(item: Appointment): void {
    const { heap, times } = this;
    const { at } = item;
    let place = item.place;
    for (let parent = (place - 1) >> 1; place > 0 && times[parent]! > at; parent = (place - 1) >> 1) {
      this.put(heap[parent]!, times[parent]!, place);
      place = parent;
    }
    for (;;) {
      let child = 2 * place + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && times[child + 1]! < times[child]!) child += 1;
      if (times[child]! >= at) break;
      this.put(heap[child]!, times[child]!, place);
      place = child;
    }
    this.put(item, at, place);
  }

  private put(item: Appointment, at: number, place: number): void {
    this.heap[place] = item;
    this.times[place] = at;
    item.place = place;
  }
}
