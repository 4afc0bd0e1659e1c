/**
 * The appointments of a process (renewals, ends of trust, questions of who waits, deadlines), with a single timer for all of them.
 *
 * Most appointments are cancelled long before they are due, because a lock is mostly released milliseconds after its renewal was
 * planned. So a timer is set for the first appointment when there is none, but for {@link SHORT_MS} at most, and not moved while it is early
 * enough. When it fires it is set for what is due first then, and not set again when nothing is left.
 */
import type { Clock, Timer } from '../port/clock.js';

/** An object that has one appointment at a time. Most are the leases and calls themselves, so that none needs an object of its own. */
export interface Appointment {
  /** Its position in the heap; -1 when it is not there. Only the schedule writes it. */
  index: number;
  /**
   * True if the process is kept alive for it, also when it is never due: the timer does not do that, and without Redis there may be no socket
   * that does, so a process that only waits would end before it has its answer.
   */
  readonly keepsAlive?: true;
  /** Does once what is due when the time has come. The appointment has been removed by then, and a new one may be made. */
  due(now: number): void;
}

/** An appointment that calls a function when it is due. */
export class Alarm implements Appointment {
  index = -1;

  constructor(readonly due: (now: number) => void) {}
}

/** A timer that was set when there was none stays set for this long, in ms: a call that is over by then neither sets a timer nor clears one. */
const SHORT_MS = 20;

export class Schedule {
  /** The heap: each appointment is due no later than the two below it, those at twice its position plus 1 and plus 2. */
  private readonly items: Appointment[] = [];
  /** When each of them is due, in clock.now() time. Numbers in one array are compared faster than fields of objects scattered in memory. */
  private readonly times: number[] = [];
  private timer: Timer | undefined;
  private timerAt = Infinity;
  /** True if the timer is one that was set when there was none, and fires within {@link SHORT_MS}. */
  private isShort = false;
  /** How many appointments keep the process alive, and what lets it end that is kept alive for them. */
  private waits = 0;
  private letProcessEnd: (() => void) | undefined;

  constructor(
    private readonly clock: Clock,
    /** Runs whenever the timer has fired, before any appointment: the watchdog looks for a sleep of the machine then. */
    private readonly beforeDue: (now: number) => void = () => {},
  ) {}

  get size(): number {
    return this.items.length;
  }

  /** Resolves with what `begin` passes to its callback, or with `otherwise` when that takes longer than `forMs`. */
  within<T>(forMs: number, otherwise: T, begin: (done: (value: T) => void) => void): Promise<T> {
    return new Promise((resolve) => {
      const timeout = new Alarm(() => resolve(otherwise));
      this.set(timeout, this.clock.now() + forMs);
      begin((value) => {
        this.cancel(timeout);
        resolve(value);
      });
    });
  }

  /** Makes the appointment, or moves it to another time; `Infinity` cancels it, but for one that keeps the process alive. */
  set(item: Appointment, at: number): void {
    const { items, times } = this;
    if (at === Infinity && !item.keepsAlive) return this.cancel(item);
    const isNew = item.index < 0;
    if (isNew) {
      item.index = items.length;
      items.push(item);
      times.push(at);
      if (item.keepsAlive) {
        this.waits += 1;
        this.letProcessEnd ??= this.clock.keepAlive();
      }
    }
    // A new one stands at the end, and is mostly due later than the one above it.
    if (!isNew || (item.index > 0 && times[(item.index - 1) >> 1]! > at)) this.moved(item, at);
    if (isNew && this.timer === undefined) this.arm(Math.min(at, this.clock.now() + SHORT_MS), true);
    // A timer that fires too early is set again then. That is cheaper than moving it whenever the first appointment changes.
    else if (at < this.timerAt) this.arm(at, this.isShort);
  }

  /** When none is left, a timer that is short stays set, and what keeps the process alive with it, so that short calls do not start and stop them each. */
  cancel(item: Appointment): void {
    const { items, times, isShort } = this;
    if (item.index < 0) return;
    const last = items.pop()!;
    const at = times.pop()!;
    if (last !== item) {
      last.index = item.index;
      this.moved(last, at);
    }
    item.index = -1;
    if (item.keepsAlive) this.waits -= 1;
    if (isShort) return;
    if (items.length === 0) this.close();
    // Leases are left, whose calls may be followed by others at once: what keeps the process alive ends with a timer that is short.
    else if (this.waits === 0 && this.letProcessEnd) this.arm(Math.min(this.timerAt, this.clock.now() + SHORT_MS), true);
  }

  /** Clears the timer at shutdown when there are no appointments, so that it does not fire once more. */
  close(): void {
    if (this.size > 0) return;
    this.disarm();
    this.letProcessEndIfIdle();
  }

  /** The appointment that is due first, which is not removed, and when that is: Infinity when there is none. */
  get first(): Appointment | undefined {
    return this.items[0];
  }

  get firstAt(): number {
    return this.times[0] ?? Infinity;
  }

  /** All objects that have an appointment, in no particular order. */
  all(): readonly Appointment[] {
    return [...this.items];
  }

  /** Moves an appointment whose time or position has changed to where it belongs: up past those that are due later, or else down. */
  private moved(item: Appointment, at: number): void {
    const { items, times } = this;
    let { index } = item;
    for (;;) {
      const parent = (index - 1) >> 1;
      const left = 2 * index + 1;
      let next = left + 1 < items.length && times[left + 1]! < times[left]! ? left + 1 : left;
      if (index > 0 && times[parent]! > at) next = parent;
      else if (next >= items.length || times[next]! >= at) break;
      const other = (items[index] = items[next]!);
      times[index] = times[next]!;
      other.index = index;
      index = next;
    }
    items[index] = item;
    times[index] = at;
    item.index = index;
  }

  private fire(): void {
    this.disarm();
    this.beforeDue(this.clock.now());
    const now = this.clock.now();
    while (this.firstAt <= now) {
      const item = this.first!;
      this.cancel(item);
      item.due(now);
    }
    this.letProcessEndIfIdle();
    const next = this.firstAt;
    if (next < this.timerAt) this.arm(next, this.isShort);
  }

  private letProcessEndIfIdle(): void {
    if (this.waits > 0) return;
    this.letProcessEnd?.();
    this.letProcessEnd = undefined;
  }

  private arm(at: number, isShort: boolean): void {
    this.disarm();
    this.isShort = isShort;
    this.timerAt = at;
    this.timer = this.clock.setTimer(() => this.fire(), at - this.clock.now());
  }

  private disarm(): void {
    this.clock.clearTimer(this.timer);
    this.timer = undefined;
    this.timerAt = Infinity;
    this.isShort = false;
  }
}
