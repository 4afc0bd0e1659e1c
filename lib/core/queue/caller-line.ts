/** The callers of one key in the order they came. Each may leave from anywhere at the same cost. */
import type { Caller } from './caller.js';

export class CallerLine<T> {
  private count = 0;
  private came = 0;
  private head: Caller<T> | undefined;
  private tail: Caller<T> | undefined;

  get size(): number {
    return this.count;
  }

  get first(): Caller<T> | undefined {
    return this.head;
  }

  /** How many have ever come. */
  get arrivals(): number {
    return this.came;
  }

  add(caller: Caller<T>): void {
    caller.arrival = this.came += 1;
    this.append(caller);
  }

  private append(caller: Caller<T>): void {
    this.count += 1;
    caller.before = this.tail;
    if (this.tail) this.tail.after = caller;
    else this.head = caller;
    this.tail = caller;
  }

  has(caller: Caller<T>): boolean {
    return caller.before !== undefined || this.head === caller;
  }

  /** Whether it stood in the line. */
  remove(caller: Caller<T>): boolean {
    const { before, after } = caller;
    if (!before && this.head !== caller) return false;
    if (before) before.after = after;
    else this.head = after;
    if (after) after.before = before;
    else this.tail = before;
    caller.before = caller.after = undefined;
    this.count -= 1;
    return true;
  }

  /** A copy, so that callers may come and go while it is walked over. */
  all(): Caller<T>[] {
    const callers: Caller<T>[] = [];
    for (let caller = this.head; caller; caller = caller.after) callers.push(caller);
    return callers;
  }

  /** Those first whom the test names; the order among each other stays, and that of the others. */
  bringForward(goesFirst: (caller: Caller<T>) => boolean): void {
    const callers = this.all();
    const others = callers.filter((caller) => !goesFirst(caller));
    if (others.length === 0) return;
    for (const caller of others) {
      this.remove(caller);
      this.append(caller);
    }
  }

  find(test: (caller: Caller<T>) => boolean): Caller<T> | undefined {
    let caller = this.head;
    while (caller && !test(caller)) caller = caller.after;
    return caller;
  }

  every(test: (caller: Caller<T>) => boolean): boolean {
    for (let caller = this.head; caller; caller = caller.after) if (!test(caller)) return false;
    return true;
  }
}
