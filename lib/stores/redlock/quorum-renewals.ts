/**
 * Renewals by quorum: one command for a batch of like leases on each node, each lease counted by itself. A node that has lost one is given
 * it back as soon as a quorum of the others has renewed it, so that a lease outlives the nodes it began on.
 */
import type { Clock } from '../../core/port/clock.js';
import { LockStoreError } from '../../core/port/errors.js';
import { likeLength } from '../../core/port/like-lengths.js';
import type { RenewOutcome, RenewRequest } from '../../core/port/lock-store.js';
import { batchesOf } from '../wire/batches.js';
import type { Ballot } from './ballot.js';
import type { RenewedThere } from './node-vote.js';
import { answersOf, leaseTimeoutMs, noQuorum, poll, type Reply } from './poll.js';
import { quorumEnd, verdict } from './quorum.js';
import type { RedlockNode } from './redlock-node.js';

/** A batch costs each node well under a millisecond. */
const BATCH = 250;

export interface Renewing {
  readonly nodes: readonly RedlockNode[];
  readonly clock: Clock;
  readonly commandTimeoutMs: number;
  /** The ballot that holds for this id. */
  readonly held: (id: string) => Ballot | undefined;
}

interface Part {
  readonly at: number;
  readonly ballot: Ballot;
  readonly leaseMs: number;
}

/** From each node, for each lease, what became of it there; undefined where it is lost. */
type Answer = readonly (RenewedThere | undefined)[];
type Answers = ReadonlyMap<RedlockNode, Reply<Answer>>;

export async function renewByQuorum(requests: readonly RenewRequest[], renewing: Renewing): Promise<readonly RenewOutcome[]> {
  const outcomes: RenewOutcome[] = requests.map(({ key, minReplicas }) =>
    minReplicas > 0 ? { kind: 'unknown', cause: noReplicas(key) } : { kind: 'lost' },
  );
  const parts: Part[] = [];
  requests.forEach(({ id, leaseMs, minReplicas }, at) => {
    const ballot = renewing.held(id);
    if (ballot?.state === 'held' && minReplicas === 0) parts.push({ at, ballot, leaseMs: Math.floor(leaseMs) });
  });
  const batches = batchesOf(parts, ({ leaseMs }) => likeLength(leaseMs), BATCH);
  await Promise.all(batches.map((batch) => renewBatch(batch.map((n) => parts[n]!), renewing, outcomes)));
  return outcomes;
}

async function renewBatch(parts: readonly Part[], { nodes, clock, commandTimeoutMs }: Renewing, outcomes: RenewOutcome[]): Promise<void> {
  const shortestMs = Math.min(...parts.map(({ leaseMs }) => leaseMs));
  for (const { ballot, leaseMs } of parts) ballot.lasts(leaseMs + shortestMs);
  const request = parts.map(({ ballot: { key, id }, leaseMs }) => ({ key, id, leaseMs }));
  const giveBack = (node: RedlockNode, there: Answer): void => {
    parts.forEach(({ at, ballot, leaseMs }, n) => {
      const outcome = outcomes[at];
      if (outcome?.kind === 'renewed' && there[n] === undefined) void ballot.rejoin(node, leaseMs, outcome.trustedUntil);
    });
  };
  const replies = await poll({
    nodes,
    clock,
    timeoutMs: leaseTimeoutMs(shortestMs, commandTimeoutMs),
    ask: (node) => node.renew(request, Math.min(commandTimeoutMs, shortestMs / 3)),
    decide: (replies: Answers) => (parts.every((_, n) => verdictOf(n, nodes, replies) !== undefined) ? new Map(replies) : undefined),
    late: (node, reply) => reply.kind === 'answer' && giveBack(node, reply.answer),
  });
  parts.forEach((part, n) => (outcomes[part.at] = outcomeOf(part, n, nodes, replies)));
  for (const [node, there] of answersOf(replies)) giveBack(node, there);
}

function verdictOf(n: number, nodes: readonly RedlockNode[], replies: Answers): 'renewed' | 'lost' | 'split' | undefined {
  return verdict(
    nodes.map((node) => {
      const reply = replies.get(node);
      if (reply === undefined) return undefined;
      return reply.kind === 'failure' ? null : reply.answer[n] === undefined ? 'lost' : 'renewed';
    }),
  );
}

function outcomeOf({ ballot }: Part, n: number, nodes: readonly RedlockNode[], replies: Answers): RenewOutcome {
  switch (verdictOf(n, nodes, replies)) {
    case 'renewed':
      return renewed(answersOf(replies).flatMap(([, there]) => there[n] ?? []), nodes.length);
    case 'lost':
      return { kind: 'lost' };
    default:
      return { kind: 'unknown', cause: noQuorum('a renewal', ballot.key, nodes, replies, (there) => (there[n] === undefined ? 'lost' : 'renewed')) };
  }
}

/** That somebody waits is worth knowing from one node. */
function renewed(there: readonly RenewedThere[], nodes: number): RenewOutcome {
  const trustedUntil = quorumEnd(there.map(({ end }) => end), nodes);
  return { kind: 'renewed', trustedUntil, contended: there.some(({ contended }) => contended) };
}

export function noReplicas(key: string): LockStoreError {
  const message = `Lock '${key}': minReplicas cannot be counted on a Redlock, whose nodes are independent masters. Leave it out.`;
  return new LockStoreError(message, { key, retryable: false });
}
