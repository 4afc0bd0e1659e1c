/**
 * The numbers of a state are named by what they mean from now on: an instant by how far away it is, a fence by its rank among all
 * fences of the state, a memory of a server by the order in which memories are mentioned. Instants of the server that have passed
 * are all the same: a script only asks whether they have.
 *
 * Instants of the server and of records have 13 digits, local ones of the processes 7, fences 16.
 */

/** The server's time, in ms, at the beginning of a world. */
export const SERVER_BEGINS_AT = 1_790_000_000_000;
/** The local time of every process at the same instant. */
export const PROCESS_BEGINS_AT = 1_000_000;

const NUMBERS = /[a-z]{16}:\d{13}|\d{7,16}/g;

/** `now`: ms since the beginning. `text`: the state as JSON. */
export function canonicalText(text: string, now: number): string {
  const clock = `${SERVER_BEGINS_AT + now}000`;
  const fences = [...new Set([clock, ...(text.match(/\d{16}/g) ?? [])])].sort();
  const zero = fences.indexOf(clock);
  const memories = new Map<string, number>();
  return text.replace(NUMBERS, (number) => {
    if (number.length === 30) {
      if (!memories.has(number)) memories.set(number, memories.size);
      return `m${memories.get(number)}`;
    }
    if (number.length === 16) return `f${fences.indexOf(number) - zero}`;
    if (number.length === 7) return `t${Number(number) - PROCESS_BEGINS_AT - now}`;
    const inMs = Number(number) - SERVER_BEGINS_AT - now;
    return inMs < 0 ? 'past' : `s${inMs}`;
  });
}
