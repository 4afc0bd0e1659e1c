/**
 * One question to all nodes at once. It is decided as soon as the missing replies cannot change the result, and at the latest
 * when the timeout of a node is over: a node that is dead or frozen costs nobody more than that.
 */
import { LockStoreError, type NodeFailure } from '../../core/port/errors.js';
import type { Deadline, Deadlines } from './deadlines.js';
import { LOOK_FIRST } from '../wire/store-failure.js';
import { quorumOf, verdict } from './quorum.js';

/** In ms: a garbage collection in this process, or a busy moment of a server, must not look like a dead node. */
const SHORTEST_TIMEOUT_MS = 50;
const LONGEST_VOTE_MS = 500;

/** A node that has answered other questions meanwhile gets this many times the timeout. */
const BUSY_FACTOR = 4;

export type Reply<A> = { readonly kind: 'answer'; readonly answer: A } | { readonly kind: 'failure'; readonly error: LockStoreError };

/** Called once with what a node answers. It stands in place of a promise, because each lock asks five nodes twice, and ten promises are a cost. */
export type Hear<A> = (reply: Reply<A>) => void;

/** Hears a promise, which must reject with LockStoreError only. */
export function hearing<A>(answer: Promise<A>, hear: Hear<A>): void {
  answer.then(
    (answer) => hear({ kind: 'answer', answer }),
    (error: LockStoreError) => hear({ kind: 'failure', error }),
  );
}

/** What a poll needs to know of a node. */
export interface Asked {
  readonly name: string;
  /** Called when the node did not answer the question in time. */
  fellSilent(): void;
  /** The local instant of its last reply to any question. */
  readonly heardAt: number;
}

interface Poll<N extends Asked, A, R> {
  readonly nodes: readonly N[];
  /** The deadlines of all polls of a store, and their clock. */
  readonly deadlines: Deadlines;
  /** How long to wait for a node, in ms. */
  readonly timeoutMs: number;
  /** Sends the question. `hear` is to be called once, at any time. */
  ask(node: N, hear: Hear<A>): void;
  /**
   * Called after each reply with all replies so far. Returns undefined while missing replies can change the result, and never after
   * the last reply. When it throws, the poll rejects with the error.
   */
  decide(replies: ReadonlyMap<N, Reply<A>>): R | undefined;
  /** Called for each reply that comes after the decision or after the node's timeout. */
  late?(node: N, reply: Reply<A>): void;
}

/** The timeout for a vote, in ms: a tenth of the lease, so that most of the lease is left after waiting for a silent node. */
export function voteTimeoutMs(leaseMs: number, commandTimeoutMs: number): number {
  return Math.min(commandTimeoutMs, LONGEST_VOTE_MS, Math.max(SHORTEST_TIMEOUT_MS, leaseMs / 10));
}

/** The timeout for requests about a held lease, in ms: longer than for a vote, because doubt costs more here; another try fits in. */
export function leaseTimeoutMs(leaseMs: number, commandTimeoutMs: number): number {
  return Math.min(commandTimeoutMs, Math.max(SHORTEST_TIMEOUT_MS, leaseMs / 5));
}

export function poll<N extends Asked, A, R>(question: Poll<N, A, R>): Promise<R> {
  const { nodes, timeoutMs, deadlines } = question;
  const { clock } = deadlines;
  return new Promise<R>((resolve, reject) => {
    const replies = new Map<N, Reply<A>>();
    let open = true;
    const decide = (): void => {
      try {
        const result = question.decide(replies);
        if (result === undefined) return;
        resolve(result);
      } catch (error) {
        reject(error);
      }
      open = false;
      deadlines.cancel(deadline);
    };
    const hear = (node: N, reply: Reply<A>): void => {
      if (!open || replies.has(node)) return question.late?.(node, reply);
      replies.set(node, reply);
      decide();
    };
    const giveUp = (): void => {
      const mute = nodes.filter((node) => !replies.has(node));
      // A node that answered other questions meanwhile is not dead: there are many requests, or this process is slow.
      if (clock.now() - askedAt < BUSY_FACTOR * timeoutMs && mute.some(({ heardAt }) => heardAt > askedAt)) return wait();
      for (const node of mute) {
        node.fellSilent();
        replies.set(node, { kind: 'failure', error: silence(node.name, clock.now() - askedAt) });
      }
      decide();
    };
    const wait = (): void => {
      deadline.at = clock.now() + timeoutMs;
      deadlines.set(deadline);
    };
    const deadline: Deadline = { at: 0, due: giveUp };
    const askedAt = clock.now();
    wait();
    for (const node of nodes) question.ask(node, (reply) => hear(node, reply));
  });
}

interface Agreement<N extends Asked, A> extends Pick<Poll<N, A, A>, 'nodes' | 'deadlines' | 'timeoutMs' | 'ask'> {
  /** Whether it takes the lock from whoever has it, so that nobody should simply ask for it again. */
  readonly namesNobody?: boolean | undefined;
  /** Whether every node is waited for, also when a quorum has decided. */
  readonly waitsForAll?: boolean | undefined;
}

/** A poll whose answers are words. Returns the word of a quorum; rejects with LockStoreError when no word has a quorum. */
export function agree<N extends Asked, A extends string>(
  what: string,
  key: string | undefined,
  question: Agreement<N, A>,
): Promise<A> {
  const { nodes, namesNobody, waitsForAll } = question;
  return poll<N, A, A>({
    ...question,
    decide: (replies) => {
      if (waitsForAll && replies.size < nodes.length) return undefined;
      if (replies.size < quorumOf(nodes.length)) return undefined;
      const word = verdict<A>(
        nodes.map((node) => {
          const reply = replies.get(node);
          return reply?.kind === 'failure' ? null : reply?.answer;
        }),
      );
      if (word === 'split') throw noQuorum(what, key, nodes, replies, String, namesNobody);
      return word;
    },
  });
}

/** The answers among the replies, each with its node. */
export function answersOf<N, A>(replies: ReadonlyMap<N, Reply<A>>): [N, A][] {
  const answers: [N, A][] = [];
  for (const [node, reply] of replies) if (reply.kind === 'answer') answers.push([node, reply.answer]);
  return answers;
}

/** The error for a question on which no quorum agreed: it names every node with its reason. */
export function noQuorum<N extends Asked, A>(
  what: string,
  key: string | undefined,
  all: readonly N[],
  replies: ReadonlyMap<N, Reply<A>>,
  reasonOf: (answer: A) => string,
  namesNobody = false,
): LockStoreError {
  const failures: LockStoreError[] = [];
  const nodes: NodeFailure[] = [];
  for (const node of all) {
    const reply = replies.get(node);
    if (reply === undefined) {
      nodes.push({ node: node.name, reason: 'had not answered when the others had decided' });
      continue;
    }
    if (reply.kind === 'failure') failures.push(reply.error);
    const reason = reply.kind === 'failure' ? (reply.error.nodes[0]?.reason ?? reply.error.message) : reasonOf(reply.answer);
    nodes.push({ node: node.name, reason });
  }
  // Another try can help unless so many nodes need an operator that the others are no quorum.
  const beyondHelp = failures.filter(({ retryable }) => !retryable).length;
  const isForOperator = beyondHelp * 2 >= all.length;
  const subject = key === undefined ? 'Locks' : `Lock '${key}'`;
  const details = nodes.map(({ node, reason }) => `${node}: ${reason}`).join('; ');
  const afterwards = namesNobody ? LOOK_FIRST : 'It is safe to try again.';
  const next = isForOperator ? 'Another try will not help before an operator has fixed these nodes.' : afterwards;
  const message = `${subject}: no quorum of ${all.length} nodes for ${what} (${details}). ${next}`;
  return new LockStoreError(message, { key, nodes, retryable: !isForOperator && !namesNobody, cause: failures[0] });
}

function silence(node: string, timeoutMs: number): LockStoreError {
  const reason = `no answer within ${Math.round(timeoutMs)} ms`;
  return new LockStoreError(`Locks: ${node} gave ${reason}.`, { nodes: [{ node, reason }] });
}
