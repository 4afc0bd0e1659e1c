/**
 * The calls inside one hold that want its lock again: they exclude each other as strangers do (readers share), in the
 * order they came, and none gets in after the hold has ended.
 */
import type { Caller } from '../queue/caller.js';
import type { LockMode } from '../port/lock-mode.js';

export class SiblingGate {
  private readonly waiting = new Set<Caller<boolean>>();
  private readers = 0;
  private writers = 0;
  private open = true;

  /** Nobody is inside. */
  get empty(): boolean {
    return this.readers + this.writers === 0;
  }

  get onlyReaders(): boolean {
    return this.writers === 0 && this.readers > 0;
  }

  /** Settles the caller with true once it is inside, with false when the hold ended before. */
  enter(caller: Caller<boolean>, busy: () => Error): void {
    const { options } = caller;
    if (!this.open) return caller.resolve(false);
    if (options.waitMs === 0 && (this.waiting.size > 0 || !this.admits(options.mode))) return caller.reject(busy());
    this.waiting.add(caller);
    caller.startWaiting((reason) => {
      this.waiting.delete(caller);
      caller.reject(reason === undefined ? busy() : reason);
      this.admitNext();
    });
    this.admitNext();
    if (this.waiting.has(caller)) caller.tellWaiting();
  }

  leave(mode: LockMode): void {
    if (mode === 'write') this.writers -= 1;
    else this.readers -= 1;
    this.admitNext();
  }

  close(): void {
    this.open = false;
    for (const caller of this.waiting) caller.resolve(false);
    this.waiting.clear();
  }

  private admitNext(): void {
    for (const caller of this.waiting) {
      const { mode } = caller.options;
      if (!this.admits(mode)) return;
      this.waiting.delete(caller);
      if (mode === 'write') this.writers += 1;
      else this.readers += 1;
      caller.resolve(true);
    }
  }

  private admits(mode: LockMode): boolean {
    return this.writers === 0 && (mode === 'read' || this.readers === 0);
  }
}
