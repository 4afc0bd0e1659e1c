/**
 * How many of n nodes must agree, when their answers decide a question, and one question to all nodes at once: it is decided as soon as
 * the missing answers cannot change the result. Every node answers or fails within the time that its command has, so a node that is
 * dead or frozen costs nobody more than that.
 *
 * Any two quorums share a node. While each node grants a lock to one holder at a time and forgets nothing, two holders can
 * therefore not both have a quorum.
 */
import { LockStoreError, type NodeFailure } from '../../core/port/errors.js';
import type { Done, Reply } from '../../core/port/lock-store.js';
import type { RedisStore } from '../redis/redis-store.js';
import { LOOK_FIRST, subjectOf } from '../wire/store-failure.js';

/**
 * For how long a node that does not answer is waited for, in ms, before the others decide without it: longer than most garbage collections of
 * this process, and busy moments of a server.
 */
export const ANSWERS_WITHIN_MS = 500;

export function quorumOf(nodes: number): number {
  return Math.floor(nodes / 2) + 1;
}

/** A node's answer: a word or a number; null when the node failed; undefined while the answer may still come. */
export type Counted<V extends string | number> = V | null | undefined;

/**
 * What a quorum of the nodes said; 'split' when no answer can get a quorum any more; undefined while missing votes
 * can change the result.
 */
export function verdict<V extends string | number>(votes: readonly Counted<V>[]): V | 'split' | undefined {
  const quorum = quorumOf(votes.length);
  let missing = 0;
  let most = 0;
  for (const word of votes) {
    if (word === undefined) missing += 1;
    if (word === undefined || word === null) continue;
    let count = 0;
    for (const vote of votes) if (vote === word) count += 1;
    if (count >= quorum) return word;
    most = Math.max(most, count);
  }
  return most + missing < quorum ? 'split' : undefined;
}

/** The last instant at which a quorum of nodes still has a lease that ends on them at these instants; -Infinity if no quorum has it. */
export function quorumEnd(ends: readonly number[], quorum: number): number {
  return [...ends].sort((one, other) => other - one)[quorum - 1] ?? -Infinity;
}

/** In the order of the nodes; undefined where the node may still reply. */
export type Replies<A> = readonly (Reply<A> | undefined)[];

export interface QuorumNode {
  readonly name: string;
  readonly store: RedisStore;
  /** True if it may be asked. */
  readonly isUsable: boolean;
  /** True if it may be asked, and has answered what it was asked. */
  readonly isListening: boolean;
  /** The error that says why the node was not asked. */
  refusal(key: string | undefined): LockStoreError;
}

type Ask<A> = (node: QuorumNode, done: Done<A>, at: number) => void;

/** Why a node does not answer, without what stands in the message beside it. */
export function reasonOf(error: LockStoreError): string {
  return error.nodes[0]?.reason ?? error.message;
}

/** The question of a poll whose answer is a promise, which must reject with LockStoreError only. For a node that may not be asked its refusal is the reply. */
export function asking<A>(key: string | undefined, question: (node: QuorumNode, at: number) => Promise<A>): Ask<A> {
  return (node, done, at) => (node.isUsable ? void question(node, at).then(done, done) : done(node.refusal(key)));
}

/**
 * `decide` is called when a quorum has replied, and after each further reply, with all so far and their count. It returns undefined while
 * missing ones can change the result, but not after the last. When it throws, the poll rejects with the error. `late` is called with each
 * reply that comes after the decision, which is added to the others as well.
 */
export function poll<A, R>(
  nodes: readonly QuorumNode[],
  ask: Ask<A>,
  decide: (replies: Replies<A>, count: number) => R | Promise<R> | undefined,
  late?: (reply: Reply<A>, at: number) => void,
): Promise<R> {
  return new Promise<R>((resolve, reject) => {
    const replies = nodes.map((): Reply<A> | undefined => undefined);
    let count = 0;
    let isOpen = true;
    const replied = (reply: Reply<A>, at: number): void => {
      replies[at] = reply;
      if (!isOpen) return late?.(reply, at);
      count += 1;
      if (count < quorumOf(nodes.length)) return;
      try {
        const result = decide(replies, count);
        if (result === undefined) return;
        resolve(result);
      } catch (error) {
        reject(error);
      }
      isOpen = false;
    };
    nodes.forEach((node, at) => ask(node, (reply) => replied(reply, at), at));
  });
}

/** A poll whose answers are words. Returns the word of a quorum; rejects with LockStoreError when no word has one. `namesNobody`: see {@link noQuorum}. */
export function agree<A extends string>(
  what: string,
  key: string | undefined,
  nodes: readonly QuorumNode[],
  ask: Ask<A>,
  { namesNobody = false, waitsForAll = false } = {},
): Promise<A> {
  return poll<A, A>(nodes, ask, (replies, count) => {
    if (waitsForAll && count < nodes.length) return undefined;
    const word = verdict<A>(replies.map((reply) => (reply instanceof LockStoreError ? null : reply)));
    if (word === 'split') throw noQuorum(what, key, nodes, replies, namesNobody);
    return word;
  });
}

/** The answers among the replies. */
export function answersOf<A>(replies: Replies<A>): A[] {
  return replies.flatMap((reply) => (reply === undefined || reply instanceof LockStoreError ? [] : [reply]));
}

/** What a node said, as far as an error tells it; undefined where it said nothing. */
type Told = string | { readonly kind: string; readonly cause?: LockStoreError } | LockStoreError | undefined;

function textOf(told: Told): string {
  if (told === undefined) return 'had not answered when the others had decided';
  if (typeof told === 'string') return told;
  if (told instanceof LockStoreError) return reasonOf(told);
  if (told.kind === 'recovering') return 'restarted or flushed, and stays out until what it may have forgotten has ended and the others have told it the last fences';
  return told.cause === undefined ? told.kind : reasonOf(told.cause);
}

/**
 * The error for a question on which no quorum agreed: it names every node with its reason. `namesNobody`: it takes the lock from whoever
 * has it, so that nobody should simply ask for it again.
 */
export function noQuorum(what: string, key: string | undefined, all: readonly QuorumNode[], replies: readonly Told[], namesNobody = false): LockStoreError {
  const nodes = all.map(({ name }, at): NodeFailure => ({ node: name, reason: textOf(replies[at]) }));
  const failures = replies.filter((reply) => reply instanceof LockStoreError);
  // Another try can help unless so many nodes need an operator that the others are no quorum.
  const isForOperator = failures.filter(({ retryable }) => !retryable).length * 2 >= all.length;
  const details = nodes.map(({ node, reason }) => `${node}: ${reason}`).join('; ');
  const afterwards = isForOperator ? 'Another try will not help before an operator has fixed these nodes.' : 'It is safe to try again.';
  const next = namesNobody ? LOOK_FIRST : afterwards;
  const message = `${subjectOf(key)}: no quorum of ${all.length} nodes for ${what} (${details}). ${next}`;
  return new LockStoreError(message, { key, nodes, retryable: !isForOperator && !namesNobody, cause: failures[0] });
}
