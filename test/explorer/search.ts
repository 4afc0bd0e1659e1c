/**
 * Looks at every state that a small world can come to, in the order of how many steps lead there: so the first broken promise
 * that is found has a shortest history. States that differ only in what nobody can tell apart are one.
 */
import { createHash } from 'node:crypto';

/** One thing that can happen in a state. */
export interface Step<S> {
  /** What happens, in words of the protocol. */
  readonly what: string;
  readonly take: () => S;
}

export interface SmallWorld<S> {
  readonly name: string;
  begin(): S;
  steps(state: S): Step<S>[];
  /** A text that two states share only when all that can happen from then on is the same. */
  canonical(state: S): string;
  /** The promise that is broken in this state. */
  broken(state: S): string | undefined;
  /** Called for a state in which nothing more happens by itself: what is broken when all faults end there. */
  brokenInTheEnd(state: S): string | undefined;
}

export interface Exploration {
  readonly states: number;
  readonly transitions: number;
  /** States in which nothing more can happen before the faults end. */
  readonly ends: number;
  readonly deepest: number;
  readonly seconds: number;
  /** The search was stopped, so that not all states were seen. */
  readonly cut: boolean;
  readonly failure?: { readonly promise: string; readonly history: readonly string[] };
}

interface Origin {
  readonly from: Origin | undefined;
  readonly what: string;
  readonly depth: number;
}

/** Sees at most `most` states. */
export function explore<S>(world: SmallWorld<S>, most = Infinity): Exploration {
  const startedAt = performance.now();
  const seen = new Set<string>();
  let transitions = 0;
  let ends = 0;
  let level: [S, Origin][] = [];
  let failure: Exploration['failure'];
  let deepest = 0;
  const meet = (state: S, origin: Origin, found: [S, Origin][]): void => {
    const promise = world.broken(state);
    if (promise !== undefined) failure = { promise, history: historyOf(origin) };
    const name = digestOf(world.canonical(state));
    if (seen.has(name)) return;
    seen.add(name);
    deepest = origin.depth;
    found.push([state, origin]);
  };
  meet(world.begin(), { from: undefined, what: '', depth: 0 }, level);
  search: while (level.length > 0) {
    const next: [S, Origin][] = [];
    for (const [state, origin] of level) {
      const steps = world.steps(state);
      if (steps.length === 0) {
        ends++;
        const promise = world.brokenInTheEnd(state);
        if (promise !== undefined) failure = { promise, history: historyOf(origin) };
      }
      for (const { what, take } of steps) {
        if (failure !== undefined || seen.size >= most) break search;
        transitions++;
        meet(take(), { from: origin, what, depth: origin.depth + 1 }, next);
      }
    }
    level = next;
  }
  const seconds = (performance.now() - startedAt) / 1_000;
  return { states: seen.size, transitions, ends, deepest, seconds, cut: failure === undefined && seen.size >= most, ...(failure && { failure }) };
}

/** So many bits that two states of one world practically never have the same ones. */
const digestOf = (text: string): string => createHash('sha1').update(text).digest('base64').slice(0, 18);

function historyOf(origin: Origin): string[] {
  const history: string[] = [];
  for (let at: Origin | undefined = origin; at?.from !== undefined; at = at.from) history.unshift(at.what);
  return history;
}
