/**
 * The state of a lock according to all nodes together. One node alone may be behind, may have forgotten, or may keep a vote of an
 * attempt that failed: only a holder counts that a quorum may know.
 */
import type { HolderState, ListOptions, LockState } from '../../core/port/lock-state.js';
import { answersOf, asking, noQuorum, poll, quorumEnd, quorumOf, type Replies } from './quorum.js';
import type { RedlockNode } from './redlock-node.js';

type Nodes = readonly Pick<RedlockNode, 'name' | 'inspect' | 'store' | 'isUsable' | 'isListening' | 'refusal'>[];
type One = Nodes[number];

interface QuorumView {
  readonly state: LockState;
  /** The nodes that know any holder, whether the holder counts or not. */
  readonly knownBy: ReadonlySet<One>;
}

/** Rejects with LockStoreError when fewer than a quorum of nodes answered. */
export async function viewOf(key: string, nodes: Nodes): Promise<QuorumView> {
  const quorum = quorumOf(nodes.length);
  const replies = await poll<One, LockState, Replies<LockState>>(
    nodes,
    asking(key, (node) => node.inspect(key)),
    (all, count) => (count === nodes.length || (answersOf(all).length >= quorum && nodes.every((node, at) => all[at] !== undefined || !node.isListening)) ? all : undefined),
  );
  const views = answersOf(replies);
  if (views.length < quorum) throw noQuorum('an inspection', key, nodes, replies, () => 'answered');
  return merge(key, views.map(([view, at]) => [nodes[at]!, view]), nodes.length - views.length, quorum);
}

/** Scans so many nodes that every quorum contains one of them. A lock is listed when the first of them that knows it is scanned. */
export async function* listByQuorum(options: ListOptions | undefined, all: Nodes): AsyncGenerator<LockState, void, undefined> {
  const nodes = [...all].sort((one, other) => Number(other.isListening) - Number(one.isListening)).slice(0, all.length - quorumOf(all.length) + 1);
  for (const [place, node] of nodes.entries()) {
    for await (const { key } of node.store.list(options)) {
      const { state, knownBy } = await viewOf(key, all);
      if (state.mode !== null && !nodes.slice(0, place).some((earlier) => knownBy.has(earlier))) yield state;
    }
  }
}

/** What the nodes say of one ballot. */
interface Told {
  readonly holders: HolderState[];
  writers: number;
}

/** `mute`: how many nodes gave no answer. */
function merge(key: string, views: readonly [One, LockState][], mute: number, quorum: number): QuorumView {
  const known = new Map<string, Told>();
  for (const [, { mode, holders }] of views) {
    for (const holder of holders) {
      const told = known.get(holder.id) ?? { holders: [], writers: 0 };
      known.set(holder.id, told);
      told.holders.push(holder);
      if (mode === 'write') told.writers++;
    }
  }
  // A node that gave no answer may know the ballot: it is safer to show a free lock as held than a held lock as free.
  const counted = [...known].filter(([, { holders }]) => holders.length + mute >= quorum);
  const holders = counted.map(([id, told]) => holderState(id, told.holders, quorum)).sort((one, other) => one.fence - other.fence);
  const writes = counted.some(([, { holders, writers }]) => 2 * writers >= holders.length);
  return {
    state: { key, mode: holders.length === 0 ? null : writes ? 'write' : 'read', holders, waiters: [] },
    knownBy: new Set(views.filter(([, { holders }]) => holders.length > 0).map(([node]) => node)),
  };
}

/** One holder as most nodes describe it, without the number of its ballot. Its end is the instant at which it loses its quorum. */
function holderState(id: string, told: readonly HolderState[], quorum: number): HolderState {
  const fences = told.map(({ fence }) => fence).sort((one, other) => one - other);
  const { owner, label } = told[0]!;
  const remainingMs = quorumOrLeast(told.map(({ remainingMs }) => remainingMs), quorum);
  const graces = told.map(({ graceMs = 0 }) => graceMs);
  const grace = Math.max(...graces) === 0 ? {} : { graceMs: remainingMs > 0 ? Math.max(...graces) : quorumOrLeast(graces, quorum) };
  return { id: id.replace(/\/[^/]*$/, ''), fence: fences[fences.length >> 1]!, owner, label, remainingMs, ...grace };
}

/** For how long a quorum knows it; for as long as all who answered do, where they are fewer. */
function quorumOrLeast(lefts: readonly number[], quorum: number): number {
  return lefts.length < quorum ? Math.min(...lefts) : quorumEnd(lefts, quorum);
}
