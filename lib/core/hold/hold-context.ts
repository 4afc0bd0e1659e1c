/**
 * Knows which holds surround the running code, so that a call can re-enter one without asking the store. Only
 * `AsyncLocalStorage.run` is used, so a hold is never visible outside of the function for which it was made.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import type { Hold } from './hold.js';
import type { LockCore } from './lock-core.js';
import { covers, type LockMode } from '../port/lock-options.js';

/** A hold that surrounds some code, and those around it. */
interface Frame {
  readonly hold: Hold;
  /** The next one, of whichever lock module. */
  readonly beyond: Frame | undefined;
}

/** All lock modules of the process share it, because a module that shuts down serves calls inside a hold of another one as well. */
const storage = new AsyncLocalStorage<Frame | undefined>();

/** The innermost hold around the running code that has not ended: among those of these lock modules, or without the argument of all. */
export function innermost(among?: readonly LockCore[]): Frame | undefined {
  let frame = storage.getStore();
  while (frame && !(frame.hold.isOpen && (among?.includes(frame.hold.core) ?? true))) frame = frame.beyond;
  return frame;
}

/** The holds of one lock module that surround the running code. */
export class HoldContext {
  /** Runs `begin` inside the hold, with `fn` and the hold: a function that closes over them would be one more for every call. */
  run<F, T>(hold: Hold, begin: (fn: F, hold: Hold) => T, fn: F): T {
    hold.hasRun = true;
    // Holds that have ended are left out: work that starts its next run from inside its last one would keep all of them in memory.
    return storage.run({ hold, beyond: storage.getStore() && innermost() }, begin, fn, hold);
  }

  /** True if a hold that has not ended surrounds the running code, of whichever lock module. */
  get isInsideAny(): boolean {
    return storage.getStore() !== undefined && innermost() !== undefined;
  }

  /** The holds of this lock module around the running code, the innermost first. Some may have ended. */
  around(): Hold[] {
    const holds: Hold[] = [];
    for (let frame = storage.getStore(); frame; frame = frame.beyond) if (frame.hold.core.context === this) holds.push(frame.hold);
    return holds;
  }

  /** Runs `fn` outside of every hold. */
  outside<T>(fn: () => T): T {
    return storage.getStore() === undefined ? fn() : storage.run(undefined, fn);
  }

  /**
   * The innermost hold around the running code that has not ended, of this key, in a mode that covers `mode`. So work that was not
   * awaited, and goes on after its hold has ended, is not inside it any more.
   */
  find(key: string, mode: LockMode = 'read'): Hold | undefined {
    return this.around().find((hold) => {
      const held = hold.modeOf(key);
      return hold.isOpen && held !== undefined && covers(held, mode);
    });
  }
}
