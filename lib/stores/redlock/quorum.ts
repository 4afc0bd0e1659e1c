/**
 * How many of n nodes must agree, and when their votes decide a question. Pure.
 *
 * Any two quorums share a node. While each node grants a lock to one holder at a time and forgets nothing, two holders can
 * therefore not both have a quorum.
 */

export function quorumOf(nodes: number): number {
  return Math.floor(nodes / 2) + 1;
}

/** A node's answer: a word or a number; null when the node failed; undefined while the answer may still come. */
export type Vote<V extends string | number> = V | null | undefined;

/**
 * What a quorum of the nodes said; 'split' when no answer can get a quorum any more; undefined while missing votes
 * can change the result.
 */
export function verdict<V extends string | number>(votes: readonly Vote<V>[]): V | 'split' | undefined {
  const quorum = quorumOf(votes.length);
  const counts = new Map<V, number>();
  let out = 0;
  let most = 0;
  for (const vote of votes) {
    if (vote === undefined) out++;
    if (vote === undefined || vote === null) continue;
    const count = (counts.get(vote) ?? 0) + 1;
    if (count === quorum) return vote;
    counts.set(vote, count);
    most = Math.max(most, count);
  }
  return most + out < quorum ? 'split' : undefined;
}

/** The last instant at which a quorum of nodes still has a lease that ends on them at these instants; -Infinity if no quorum has it. */
export function quorumEnd(ends: readonly number[], quorum: number): number {
  return [...ends].sort((one, other) => other - one)[quorum - 1] ?? -Infinity;
}
