/**
 * One question to all nodes at once. It is decided as soon as the missing replies cannot change the result. Every node answers or
 * fails within the time that its command has, so a node that is dead or frozen costs nobody more than that.
 */
import { LockStoreError, type NodeFailure } from '../../core/port/errors.js';
import { LOOK_FIRST } from '../wire/store-failure.js';
import { quorumOf, verdict } from './quorum.js';

export type Reply<A> = { readonly kind: 'answer'; readonly answer: A } | { readonly kind: 'failure'; readonly error: LockStoreError };
export type Replies<N, A> = ReadonlyMap<N, Reply<A>>;

/** Called once with what a node answers. It stands in place of a promise, because each lock asks five nodes twice, and ten promises are a cost. */
export type Hear<A> = (reply: Reply<A>) => void;

interface Named {
  readonly name: string;
}

/** Hears a promise, which must reject with LockStoreError only. */
export function hearing<A>(answer: Promise<A>, hear: Hear<A>): void {
  answer.then(
    (answer) => hear({ kind: 'answer', answer }),
    (error: LockStoreError) => hear({ kind: 'failure', error }),
  );
}

/**
 * `decide` is called after each reply with all so far, and returns undefined while missing ones can change the result, but not after the
 * last. When it throws, the poll rejects with the error. `late` hears what comes after the decision.
 */
export function poll<N, A, R>(
  nodes: readonly N[],
  ask: (node: N, hear: Hear<A>) => void,
  decide: (replies: Replies<N, A>) => R | undefined,
  late?: (node: N, reply: Reply<A>) => void,
): Promise<R> {
  return new Promise<R>((resolve, reject) => {
    const replies = new Map<N, Reply<A>>();
    let isOpen = true;
    const hear = (node: N, reply: Reply<A>): void => {
      if (!isOpen) return late?.(node, reply);
      replies.set(node, reply);
      try {
        const result = decide(replies);
        if (result === undefined) return;
        resolve(result);
      } catch (error) {
        reject(error);
      }
      isOpen = false;
    };
    for (const node of nodes) ask(node, (reply) => hear(node, reply));
  });
}

/** A poll whose answers are words. Returns the word of a quorum; rejects with LockStoreError when no word has one. `namesNobody`: see {@link noQuorum}. */
export function agree<N extends Named, A extends string>(
  what: string,
  key: string | undefined,
  nodes: readonly N[],
  ask: (node: N, hear: Hear<A>) => void,
  { namesNobody = false, waitsForAll = false } = {},
): Promise<A> {
  return poll<N, A, A>(nodes, ask, (replies) => {
    if (replies.size < (waitsForAll ? nodes.length : quorumOf(nodes.length))) return undefined;
    const word = verdict<A>(
      nodes.map((node) => {
        const reply = replies.get(node);
        return reply?.kind === 'failure' ? null : reply?.answer;
      }),
    );
    if (word === 'split') throw noQuorum(what, key, nodes, replies, (answer) => answer, namesNobody);
    return word;
  });
}

/** The answers among the replies, each with its node. */
export function answersOf<N, A>(replies: Replies<N, A>): [N, A][] {
  const answers: [N, A][] = [];
  for (const [node, reply] of replies) if (reply.kind === 'answer') answers.push([node, reply.answer]);
  return answers;
}

/**
 * The error for a question on which no quorum agreed: it names every node with its reason. `namesNobody`: it takes the lock from whoever
 * has it, so that nobody should simply ask for it again.
 */
export function noQuorum<N extends Named, A>(
  what: string,
  key: string | undefined,
  all: readonly N[],
  replies: Replies<N, A>,
  reasonOf: (answer: A, node: N) => string,
  namesNobody = false,
): LockStoreError {
  const failures: LockStoreError[] = [];
  const nodes = all.map((node): NodeFailure => {
    const reply = replies.get(node);
    if (reply === undefined) return { node: node.name, reason: 'had not answered when the others had decided' };
    if (reply.kind === 'answer') return { node: node.name, reason: reasonOf(reply.answer, node) };
    failures.push(reply.error);
    return { node: node.name, reason: reply.error.nodes[0]?.reason ?? reply.error.message };
  });
  // Another try can help unless so many nodes need an operator that the others are no quorum.
  const isForOperator = failures.filter(({ retryable }) => !retryable).length * 2 >= all.length;
  const subject = key === undefined ? 'Locks' : `Lock '${key}'`;
  const details = nodes.map(({ node, reason }) => `${node}: ${reason}`).join('; ');
  const afterwards = isForOperator ? 'Another try will not help before an operator has fixed these nodes.' : 'It is safe to try again.';
  const next = namesNobody ? LOOK_FIRST : afterwards;
  const message = `${subject}: no quorum of ${all.length} nodes for ${what} (${details}). ${next}`;
  return new LockStoreError(message, { key, nodes, retryable: !isForOperator && !namesNobody, cause: failures[0] });
}
