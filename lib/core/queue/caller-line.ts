/** The callers that wait for one lock, in the order in which they came: a linked list, so that a caller can leave from anywhere. */
import type { Caller } from './caller.js';
import type { ReasonToReject } from './caller-queue.js';

export class CallerLine<T> {
  /** How many callers are in the line, how many have ever come, and which is first. Only the line itself writes these fields. */
  size = 0;
  arrivals = 0;
  first: Caller<T> | undefined;
  private last: Caller<T> | undefined;

  /** Puts the caller at the end. A caller that stood in the line before keeps its arrival. */
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

  /** Removes the caller. False when it was not in the line. */
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

  /** A copy of the line: callers may come and go while it is walked over. */
  all(): Caller<T>[] {
    const callers: Caller<T>[] = [];
    for (let caller = this.first; caller; caller = caller.after) callers.push(caller);
    return callers;
  }

  /** Rejects every caller for whom there is a reason. */
  reject(reasonFor: ReasonToReject): void {
    for (const caller of this.all()) {
      const reason = reasonFor(caller.wish.key, caller.wish.insideHold);
      if (reason) caller.giveUp(reason);
    }
  }

  /** Moves the callers for which `goesFirst` is true to the front. Among these, and among the others, the order stays. */
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
