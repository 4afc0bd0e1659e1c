/**
 * The nested calls that re-enter one hold for its lock. They exclude each other as calls of different processes do (readers share),
 * in the order in which they came, and none gets in after the hold has ended.
 */
import type { StoreLease } from '../lease/store-lease.js';
import { siblingBusyError } from '../port/hold-errors.js';
import type { LockMode } from '../port/lock-mode.js';
import { CallLine, type Call, type CallKeeper } from '../queue/call.js';

/** Why a call that waited inside a hold has to ask for the lock anew. */
export const HOLD_ENDED = Symbol('the hold has ended');

export class SiblingGate implements CallKeeper {
  private readonly line = new CallLine();
  private readers = 0;
  private writers = 0;
  private isOpen = true;

  constructor(private readonly lease: StoreLease) {}

  /** Whether no call is inside. */
  get isEmpty(): boolean {
    return this.readers + this.writers === 0;
  }

  get onlyReaders(): boolean {
    return this.writers === 0 && this.readers > 0;
  }

  /** Serves the call with the lease of the hold once it is inside; rejects it with {@link HOLD_ENDED} when the hold ended before. */
  join(call: Call): void {
    const { options } = call;
    if (!this.isOpen) return call.reject(HOLD_ENDED);
    if (options.waitMs === 0 && (this.line.size > 0 || !this.admits(options.mode))) return call.reject(busy(call));
    this.line.add(call);
    call.startWaiting(this);
    this.admitNext();
    if (this.line.has(call)) call.tellWaiting();
  }

  leave(mode: LockMode): void {
    if (mode === 'write') this.writers -= 1;
    else this.readers -= 1;
    this.admitNext();
  }

  close(): void {
    this.isOpen = false;
    for (const call of this.line.all()) {
      this.line.remove(call);
      call.reject(HOLD_ENDED);
    }
  }

  /** Rejects the calls that wait. Those inside go on. */
  refuse(reason: Error): void {
    for (const call of this.line.all()) {
      this.line.remove(call);
      call.reject(reason);
    }
  }

  giveUp(call: Call, reason: unknown): void {
    if (!this.line.remove(call)) return;
    call.reject(reason === undefined ? busy(call) : reason);
    this.admitNext();
  }

  private admitNext(): void {
    for (let call = this.line.first; call && this.admits(call.options.mode); call = this.line.first) {
      this.line.remove(call);
      if (call.options.mode === 'write') this.writers += 1;
      else this.readers += 1;
      call.serve(this.lease);
    }
  }

  private admits(mode: LockMode): boolean {
    return this.writers === 0 && (mode === 'read' || this.readers === 0);
  }
}

function busy({ key, options }: Call): Error {
  return siblingBusyError(key, options.waitMs);
}
