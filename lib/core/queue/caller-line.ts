/** The callers of one key in the order they came. Each may leave from anywhere at the same cost. */
import type { Caller } from './caller.js';

export class CallerLine<T> {
  /** How many stand in it, how many have ever come, and who is first. Only the line itself writes these. */
  size = 0;
  arrivals = 0;
  first: Caller<T> | undefined;
  private last: Caller<T> | undefined;

  /** Puts the caller at the end. Who stood in the line before keeps its arrival. */
  add(caller: Caller<T>): void {
    if (caller.arrival === 0) caller.arrival = this.arrivals += 1;
    this.size += 1;
    caller.before = this.last;
    if (this.last) this.last.after = caller;
    else this.first = caller;
    this.last = caller;
  }

  has(caller: Caller<T>): boolean {
    return caller.before !== undefined || this.first === caller;
  }

  /** Whether it stood in the line. */
  remove(caller: Caller<T>): boolean {
    const { before, after } = caller;
    if (!before && this.first !== caller) return false;
    if (before) before.after = after;
    else this.first = after;
    if (after) after.before = before;
    else this.last = before;
    caller.before = caller.after = undefined;
    this.size -= 1;
    return true;
  }

  /** A copy, so that callers may come and go while it is walked over. */
  all(): Caller<T>[] {
    const callers: Caller<T>[] = [];
    for (let caller = this.first; caller; caller = caller.after) callers.push(caller);
    return callers;
  }

  /** Those first whom the test names; the order among each other stays, and that of the others. */
  bringForward(goesFirst: (caller: Caller<T>) => boolean): void {
    const callers = this.all();
    const others = callers.filter((caller) => !goesFirst(caller));
    if (others.length === 0) return;
    for (const caller of others) {
      this.remove(caller);
      this.add(caller);
    }
  }

  find(test: (caller: Caller<T>) => boolean): Caller<T> | undefined {
    let caller = this.first;
    while (caller && !test(caller)) caller = caller.after;
    return caller;
  }

  every(test: (caller: Caller<T>) => boolean): boolean {
    for (let caller = this.first; caller; caller = caller.after) if (!test(caller)) return false;
    return true;
  }
}
