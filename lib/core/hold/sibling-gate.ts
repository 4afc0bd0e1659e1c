/**
 * The nested calls that re-enter one hold for its lock. They exclude each other as calls of different processes do (readers share),
 * in the order in which they came, and none gets in after the hold has ended.
 */
import { siblingBusyError } from '../port/hold-errors.js';
import type { LockMode } from '../port/lock-mode.js';
import type { Caller, CallerKeeper } from '../queue/caller.js';
import { CallerLine } from '../queue/caller-line.js';

export class SiblingGate implements CallerKeeper<boolean> {
  private readonly line = new CallerLine<boolean>();
  private readers = 0;
  private writers = 0;
  private isOpen = true;

  /** Whether no call is inside. */
  get isEmpty(): boolean {
    return this.readers + this.writers === 0;
  }

  get onlyReaders(): boolean {
    return this.writers === 0 && this.readers > 0;
  }

  /** Settles the caller with true once it is inside, or with false when the hold ended before. */
  join(caller: Caller<boolean>): void {
    const { options } = caller;
    if (!this.isOpen) return caller.resolve(false);
    if (options.waitMs === 0 && (this.line.size > 0 || !this.admits(options.mode))) return caller.reject(busy(caller));
    this.line.add(caller);
    caller.startWaiting(this);
    this.admitNext();
    if (this.line.has(caller)) caller.tellWaiting();
  }

  leave(mode: LockMode): void {
    if (mode === 'write') this.writers -= 1;
    else this.readers -= 1;
    this.admitNext();
  }

  close(): void {
    this.isOpen = false;
    for (const caller of this.line.all()) {
      this.line.remove(caller);
      caller.resolve(false);
    }
  }

  /** Rejects the calls that wait. Those inside go on. */
  refuse(reason: Error): void {
    for (const caller of this.line.all()) {
      this.line.remove(caller);
      caller.reject(reason);
    }
  }

  giveUp(caller: Caller<boolean>, reason: unknown): void {
    if (!this.line.remove(caller)) return;
    caller.reject(reason === undefined ? busy(caller) : reason);
    this.admitNext();
  }

  private admitNext(): void {
    for (let caller = this.line.first; caller && this.admits(caller.options.mode); caller = this.line.first) {
      this.line.remove(caller);
      if (caller.options.mode === 'write') this.writers += 1;
      else this.readers += 1;
      caller.resolve(true);
    }
  }

  private admits(mode: LockMode): boolean {
    return this.writers === 0 && (mode === 'read' || this.readers === 0);
  }
}

function busy({ wish, options }: Caller<boolean>): Error {
  return siblingBusyError(wish.key, options.waitMs);
}
