/**
 * The state of a lock according to all nodes together. One node alone may be behind, may have forgotten, or may keep a vote of an
 * attempt that failed: only a holder counts that a quorum may know.
 */
import { LockStoreError } from '../../core/port/errors.js';
import type { HolderState, ListOptions, LockState } from '../../core/port/lock-state.js';
import { ANSWERS_WITHIN_MS, answersOf, asking, noQuorum, poll, quorumOf, type QuorumNode, type Replies } from './quorum.js';

/** Rejects with LockStoreError when fewer than a quorum of nodes answered. */
export async function viewOf(key: string, nodes: readonly QuorumNode[]): Promise<LockState> {
  const quorum = quorumOf(nodes.length);
  const replies = await poll<LockState, Replies<LockState>>(
    nodes,
    asking(key, ({ store }) => store.inspect(key, Math.min(store.redis.timeoutMs, ANSWERS_WITHIN_MS))),
    (all, count) =>
      count === nodes.length || (answersOf(all).length >= quorum && nodes.every((node, at) => all[at] !== undefined || !node.isListening)) ? all : undefined,
  );
  const views = answersOf(replies);
  if (views.length < quorum) throw noQuorum('an inspection', key, nodes, replies.map((reply) => (reply instanceof LockStoreError ? reply : 'answered')));
  const all = views.flatMap(({ mode, holders }) => holders.map((holder): Told => ({ ...holder, writes: mode === 'write' })));
  const ballots = [...new Set(all.map(({ id }) => id))].map((ballot) => all.filter(({ id }) => id === ballot));
  // A node that gave no answer may know the ballot: it is safer to show a free lock as held than a held lock as free.
  const counted = ballots.filter((told) => told.length + nodes.length - views.length >= quorum).map((told) => lastOfQuorum(told, quorum));
  const holders = counted.map(({ writes: _, id, ...holder }) => ({ ...holder, id: id.replace(/\/[^/]*$/, '') })).sort((one, other) => one.fence - other.fence);
  return { key, mode: holders.length === 0 ? null : counted.some(({ writes }) => writes) ? 'write' : 'read', holders, waiters: [] };
}

/** Scans so many nodes that every quorum contains one of them. The names of the locks that were told are kept until the end of the list. */
export async function* listByQuorum(options: ListOptions | undefined, all: readonly QuorumNode[]): AsyncGenerator<LockState, void, undefined> {
  const nodes = [...all].sort((one, other) => Number(other.isListening) - Number(one.isListening)).slice(0, all.length - quorumOf(all.length) + 1);
  const found = new Set<string>();
  for (const node of nodes) {
    for await (const { key } of node.store.list(options)) {
      if (found.has(key)) continue;
      found.add(key);
      const state = await viewOf(key, all);
      if (state.mode !== null) yield state;
    }
  }
}

/** What a node says of a ballot that it knows. */
type Told = HolderState & { readonly writes: boolean };

/** The holder as that node describes it with which it loses its quorum; or, where fewer know it, the first node that it loses. */
function lastOfQuorum(told: readonly Told[], quorum: number): Told {
  const until = ({ remainingMs, graceMs = 0 }: Told): number => remainingMs + graceMs;
  return [...told].sort((one, other) => until(other) - until(one) || Number(one.writes) - Number(other.writes))[Math.min(quorum, told.length) - 1]!;
}
