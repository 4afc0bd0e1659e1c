/**
 * When all faults end, everybody must be served and nothing may be left. From a state in which nothing more happens by itself the
 * protocol goes on alone: what is on its way arrives in order, questions are asked, holders release, and time goes on.
 */
import type { SmallWorld, Step } from './search.js';

/** Steps that the protocol takes by itself when all faults have ended come in this order. */
export type Kind = 'arrival' | 'release' | 'question' | 'time' | 'choice' | 'fault';
export type KindStep<S> = Step<S> & { readonly kind: Kind };

export interface HealingWorld<S> extends SmallWorld<S> {
  steps(state: S): KindStep<S>[];
  /** The state with time for so many ms more, without further faults, and without what was lost. */
  healed(state: S, forMs: number): S;
  /** Who still wants something, by name. */
  unserved(state: S): readonly string[];
  /** What is broken when nobody wants anything any more. */
  leftBehind(state: S): string | undefined;
}

/** Makes the steps in which a world does something to those in it; it counts how often it may still do so. */
export function suffering<F extends string, S extends { faults: Partial<Record<F, number>> }>(draftOf: () => S) {
  return (fault: F, what: string, change: (draft: S) => void): KindStep<S> => ({
    kind: 'fault', what,
    take: () => {
      const draft = draftOf();
      draft.faults = { ...draft.faults, [fault]: (draft.faults[fault] ?? 0) - 1 };
      change(draft);
      return draft;
    },
  });
}

const ORDER: readonly Kind[] = ['arrival', 'release', 'question', 'time'];
/** A waiter's lease, a first lease, the time until it asks again, and the end of a recovery fit in several times. */
const WITHIN_MS = 12_000;
const MAX_STEPS = 2_000;

export function healedAtLast<S>(world: HealingWorld<S>, end: S): string | undefined {
  let state = world.healed(end, WITHIN_MS);
  for (let n = 0; n < MAX_STEPS; n++) {
    const steps = world.steps(state);
    const kind = ORDER.find((one) => steps.some((step) => step.kind === one));
    const unserved = world.unserved(state);
    if (unserved.length === 0 && (kind === undefined || kind === 'time')) return world.leftBehind(state);
    if (kind === undefined) return `L4: after the last fault ${unserved.join(' and ')} is not served within ${WITHIN_MS} ms`;
    state = steps.find((step) => step.kind === kind)!.take();
    const promise = world.broken(state);
    if (promise !== undefined) return `${promise} (when all faults have ended)`;
  }
  return 'L4: after the last fault the processes ask for ever';
}
