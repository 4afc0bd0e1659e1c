/**
 * The state of a lock according to all nodes together. One node alone may be behind, may have forgotten, or may keep a vote of an
 * attempt that failed: only a holder counts that a quorum may know.
 */
import type { HolderState, LockState } from '../../core/port/lock-state.js';
import type { DamagedLocks } from '../wire/damaged-locks.js';
import { answersOf, hearing, noQuorum, poll, type Reply } from './poll.js';
import type { QuorumContext } from './quorum-context.js';
import type { NodeView } from './node-vote.js';
import { quorumEnd } from './quorum.js';
import type { RedlockNode } from './redlock-node.js';

export interface QuorumView {
  readonly state: LockState;
  /** The nodes that know any holder, whether the holder counts or not. */
  readonly knownBy: ReadonlySet<RedlockNode>;
  /** For each ballot that a quorum knows, the local instant until which it can be trusted. */
  readonly ends: ReadonlyMap<string, number>;
}

/** For how long an inspection waits for nodes that do not answer, in ms. */
const LONGEST_INSPECTION_MS = 500;

/** Rejects with LockStoreError when fewer than a quorum of nodes answered. */
export async function viewOf(key: string, { nodes, quorum, deadlines, commandTimeoutMs }: QuorumContext): Promise<QuorumView> {
  const replies = await poll({
    nodes,
    deadlines,
    timeoutMs: Math.min(commandTimeoutMs, LONGEST_INSPECTION_MS),
    ask: (node, hear) => hearing(node.inspect(key), hear),
    decide: (replies: ReadonlyMap<RedlockNode, Reply<NodeView>>) => {
      const heard = nodes.filter((node) => replies.has(node) || node.silent).length;
      return heard === nodes.length && (replies.size === nodes.length || answersOf(replies).length >= quorum) ? new Map(replies) : undefined;
    },
  });
  const views = answersOf(replies);
  if (views.length < quorum) throw noQuorum('an inspection', key, nodes, replies, () => 'answered');
  return merge(key, views, nodes.length - views.length, quorum);
}

/** Scans so many nodes that every quorum contains one of them. A lock is listed when the first of them that knows it is scanned. */
export async function* listByQuorum(startsWith: string, context: QuorumContext, damaged: DamagedLocks): AsyncGenerator<LockState, void, undefined> {
  const enough = context.nodes.length - context.quorum + 1;
  const listening = (node: RedlockNode): boolean => node.connected && !node.silent;
  const nodes = [...context.nodes].sort((one, other) => Number(listening(other)) - Number(listening(one))).slice(0, enough);
  for (const [place, node] of nodes.entries()) {
    let cursor = '0';
    do {
      const { next, found } = await node.scan(startsWith, cursor);
      cursor = next;
      for (const { state, knownBy } of await damaged.without(found.map((key) => viewOf(key, context)))) {
        if (state.mode !== null && !nodes.slice(0, place).some((earlier) => knownBy.has(earlier))) yield state;
      }
    } while (cursor !== '0');
  }
}

/** What the nodes say of one ballot. */
interface Told {
  readonly holders: HolderState[];
  readonly ends: number[];
  writers: number;
}

/** `mute`: how many nodes gave no answer. */
function merge(key: string, views: readonly [RedlockNode, NodeView][], mute: number, quorum: number): QuorumView {
  const known = new Map<string, Told>();
  for (const [, { state, ends }] of views) {
    state.holders.forEach((holder, n) => {
      const told = known.get(holder.id) ?? { holders: [], ends: [], writers: 0 };
      known.set(holder.id, told);
      told.holders.push(holder);
      told.ends.push(ends[n]!);
      if (state.mode === 'write') told.writers++;
    });
  }
  // A node that gave no answer may know the ballot: it is safer to show a free lock as held than a held lock as free.
  const counted = [...known].filter(([, { holders }]) => holders.length + mute >= quorum);
  const holders = counted.map(([id, told]) => holderState(id, told.holders, quorum)).sort((one, other) => one.fence - other.fence);
  const writes = counted.some(([, { holders, writers }]) => 2 * writers >= holders.length);
  return {
    state: { key, mode: holders.length === 0 ? null : writes ? 'write' : 'read', holders, waiters: [] },
    knownBy: new Set(views.filter(([, { state }]) => state.holders.length > 0).map(([node]) => node)),
    ends: new Map([...known].filter(([, { ends }]) => ends.length >= quorum).map(([id, { ends }]) => [id, quorumEnd(ends, quorum)])),
  };
}

/** One holder as most nodes describe it, without the number of its ballot. Its end is the instant at which it loses its quorum. */
function holderState(id: string, told: readonly HolderState[], quorum: number): HolderState {
  const fences = told.map(({ fence }) => fence).sort((one, other) => one - other);
  const lefts = told.map(({ remainingMs }) => remainingMs);
  const { owner, label } = told[0]!;
  const remainingMs = quorumOrLeast(lefts, quorum);
  const graces = told.map(({ graceMs = 0 }) => graceMs);
  const grace = Math.max(...graces) === 0 ? {} : { graceMs: remainingMs > 0 ? Math.max(...graces) : quorumOrLeast(graces, quorum) };
  return { id: id.replace(/\/[^/]*$/, ''), fence: fences[fences.length >> 1]!, owner, label, remainingMs, ...grace };
}

/** For how long a quorum knows it; for as long as all who answered do, where they are fewer. */
function quorumOrLeast(lefts: readonly number[], quorum: number): number {
  return lefts.length < quorum ? Math.min(...lefts) : quorumEnd(lefts, quorum);
}
