/** The lines of the log about terms, in the words of the one who has to do something about them. */
import { messageOf } from '../port/errors.js';

/** An error with where it came from: nobody awaits a term, so nobody else could say it. */
export function failureText(role: string, cause: unknown, restMs: number | undefined): string {
  const next = restMs === undefined ? 'This process does not stand for election any more.' : `This process stands for election again in ${Math.round(restMs)} ms.`;
  return `Role '${role}': the function of the leader failed, so the term is over. ${next} ${textOf(cause)}`;
}

export function cannotStandText(role: string, cause: unknown, restMs: number): string {
  return `Role '${role}': this process cannot stand for election, and tries again in ${Math.round(restMs)} ms. ${messageOf(cause)}`;
}

export function overstayedText(role: string, forMs: number): string {
  return (
    `Role '${role}': the term was lost ${forMs} ms ago, and its function still runs, possibly at the same time as that of the next leader. ` +
    'This process does not stand for election again until it has ended. Let it end when the signal of the term aborts.'
  );
}

function textOf(error: unknown): string {
  try {
    const { stack } = error as { readonly stack?: unknown };
    if (typeof stack === 'string') return stack;
  } catch {
    // Nothing can be read of null, or of a Proxy that lets nobody look at it.
  }
  return messageOf(error);
}
