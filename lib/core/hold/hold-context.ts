/**
 * Which holds surround the running code: re-entry needs no question to the store and no count in it. Only
 * `AsyncLocalStorage.run` is used, so a hold is never visible outside of the function that it was made for.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import type { Hold } from './hold.js';
import type { Clock } from '../port/clock.js';
import { covers, type LockMode } from '../port/lock-mode.js';

/** One of the holds that surround some code. */
export interface Frame {
  readonly hold: Hold;
  readonly outer: Frame | undefined;
}

export class HoldContext {
  private readonly storage = new AsyncLocalStorage<Frame | undefined>();

  run<T>(hold: Hold, fn: () => T): T {
    // A hold that has ended surrounds nothing any more: work that starts its next run inside itself would keep them all.
    const outer = this.surroundings();
    hold.hasRun = true;
    return this.storage.run({ hold, outer }, fn);
  }

  /** The holds that surround the running code, the innermost first; it has not ended. */
  surroundings(): Frame | undefined {
    let frame = this.storage.getStore();
    while (frame && !frame.hold.isOpen) frame = frame.outer;
    return frame;
  }

  /** Runs `fn` outside of every hold. */
  outside<T>(fn: () => T): T {
    return this.storage.getStore() === undefined ? fn() : this.storage.run(undefined, fn);
  }

  /** The innermost hold (of this key, in this mode) that has not ended. Work left unawaited does not inherit a hold that has ended. */
  find(key?: string, mode: LockMode = 'read'): Hold | undefined {
    for (let frame = this.storage.getStore(); frame; frame = frame.outer) {
      const { hold } = frame;
      const held = key === undefined ? hold.mode : hold.modeOf(key);
      if (hold.isOpen && held !== undefined && covers(held, mode)) return hold;
    }
    return undefined;
  }
}

/** The library's timers belong to no hold: they must not keep the context of whoever happened to start them. */
export function detachedTimers(clock: Clock, context: HoldContext): Clock {
  return {
    now: () => clock.now(),
    wallNow: () => clock.wallNow(),
    uptimeMs: () => clock.uptimeMs(),
    setTimer: (callback, delayMs) => context.outside(() => clock.setTimer(callback, delayMs)),
    clearTimer: (timer) => clock.clearTimer(timer),
    nextTurn: (callback) => context.outside(() => clock.nextTurn(callback)),
  };
}
