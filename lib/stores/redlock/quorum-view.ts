/**
 * The state of a lock according to all nodes together. One node alone may be behind, may have forgotten, or may keep a vote of an
 * attempt that failed: only a holder counts that a quorum may know.
 */
import type { HolderState, ListOptions, LockState } from '../../core/port/lock-state.js';
import { answersOf, asking, noQuorum, poll, quorumEnd, quorumOf, type Replies } from './quorum.js';
import type { RedlockNode } from './redlock-node.js';

type Nodes = readonly Pick<RedlockNode, 'name' | 'inspect' | 'store' | 'isUsable' | 'isListening' | 'refusal'>[];
type One = Nodes[number];

/** Rejects with LockStoreError when fewer than a quorum of nodes answered. */
export async function viewOf(key: string, nodes: Nodes): Promise<LockState> {
  const quorum = quorumOf(nodes.length);
  const replies = await poll<One, LockState, Replies<LockState>>(
    nodes,
    asking(key, (node) => node.inspect(key)),
    (all, count) => (count === nodes.length || (answersOf(all).length >= quorum && nodes.every((node, at) => all[at] !== undefined || !node.isListening)) ? all : undefined),
  );
  const views = answersOf(replies);
  if (views.length < quorum) throw noQuorum('an inspection', key, nodes, replies, () => 'answered');
  return merge(key, views, nodes.length - views.length, quorum);
}

/** Scans so many nodes that every quorum contains one of them. The names of the locks that were told are kept until the end of the list. */
export async function* listByQuorum(options: ListOptions | undefined, all: Nodes): AsyncGenerator<LockState, void, undefined> {
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

/** `mute`: how many nodes gave no answer. */
function merge(key: string, views: readonly LockState[], mute: number, quorum: number): LockState {
  /** What the nodes say of each ballot, and how many of them that it writes. */
  const known = new Map<string, { readonly told: HolderState[]; writers: number }>();
  for (const { mode, holders } of views) {
    for (const holder of holders) {
      const ballot = known.get(holder.id) ?? { told: [], writers: 0 };
      known.set(holder.id, ballot);
      ballot.told.push(holder);
      if (mode === 'write') ballot.writers++;
    }
  }
  // A node that gave no answer may know the ballot: it is safer to show a free lock as held than a held lock as free.
  const counted = [...known.values()].filter(({ told }) => told.length + mute >= quorum);
  const holders = counted.map(({ told }) => holderState(told, quorum)).sort((one, other) => one.fence - other.fence);
  const writes = counted.some(({ told, writers }) => 2 * writers >= told.length);
  return { key, mode: holders.length === 0 ? null : writes ? 'write' : 'read', holders, waiters: [] };
}

/** One holder as most nodes describe it, without the number of its ballot. Its end is the instant at which it loses its quorum, or the first node where fewer know it. */
function holderState(told: readonly HolderState[], quorum: number): HolderState {
  const fences = told.map(({ fence }) => fence).sort((one, other) => one - other);
  const { id, owner, label } = told[0]!;
  const enough = Math.min(quorum, told.length);
  const remainingMs = quorumEnd(told.map(({ remainingMs }) => remainingMs), enough);
  const graces = told.map(({ graceMs = 0 }) => graceMs);
  const grace = Math.max(...graces) === 0 ? {} : { graceMs: remainingMs > 0 ? Math.max(...graces) : quorumEnd(graces, enough) };
  return { id: id.replace(/\/[^/]*$/, ''), fence: fences[fences.length >> 1]!, owner, label, remainingMs, ...grace };
}
