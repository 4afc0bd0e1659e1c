/** What a call wants: which locks, with which options, until when, and what the call has already. */
import type { ResolvedOptions } from '../port/lock-options.js';
import type { Ticket } from '../port/ticket.js';
import type { CallerWish, WaitEnded } from '../queue/caller.js';
import type { Frame, Surroundings } from './hold-context.js';
import type { Taken } from './hold-part.js';

const NOTHING: readonly Taken[] = [];

/** Called when a call is not served at once. Returns the function to call when its wait ends, if it wants to know. */
export interface WaitWatch {
  waitBegan(wish: Wish): WaitEnded | undefined;
}

export class Wish implements CallerWish, Surroundings {
  /** The lock that it waits for; of several the first. */
  readonly key: string;
  readonly until: number;
  /** The holds of this lock module that surround the call. */
  readonly around: Frame | undefined;
  /** Whether a hold of any lock module of the process surrounds the call. */
  readonly insideHold: boolean;

  constructor(
    /** The keys, which were checked. A call takes several locks by a wish for each. */
    readonly keys: readonly string[],
    /** The number of the call in this process. */
    readonly call: number,
    readonly options: ResolvedOptions,
    /** When the call was made, in clock.now() time. */
    readonly since: number,
    surroundings: Surroundings,
    private readonly watch: WaitWatch,
    /** The locks that the same call has taken already, if it wants several. */
    readonly taken: readonly Taken[] = NOTHING,
    /** The ticket that the call brings, when it adopts a hold. */
    readonly ticket?: Ticket | undefined,
  ) {
    this.key = keys[0]!;
    this.until = since + options.waitMs;
    this.around = surroundings.around;
    this.insideHold = surroundings.insideHold;
  }

  waitBegan(): WaitEnded | undefined {
    return this.watch.waitBegan(this);
  }

  /** The wish of the same call for one of several locks, when it has taken these already. */
  forKey(key: string, options: ResolvedOptions, taken: readonly Taken[]): Wish {
    return new Wish([key], this.call, options, this.since, this, this.watch, taken);
  }

  /** The same wish with other holds around the call, because one of them has ended. */
  inside(surroundings: Surroundings): Wish {
    return new Wish(this.keys, this.call, this.options, this.since, surroundings, this.watch, this.taken);
  }
}
