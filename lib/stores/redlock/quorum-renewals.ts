/**
 * Renewals by quorum: one command for a batch of like leases on each node, each lease counted by itself. A node that does not
 * have one is given it while the lease can be trusted, so that a lease outlives the nodes it began on. That holds without a
 * quorum of the others too: a lease that three of five nodes granted outlives the loss of one of the three.
 *
 * A node from which a forced release took the lease away is not given it before it would have ended there: other nodes may be about
 * to let it be taken away, and a quorum that has it now would have it still. Where no quorum has it, one such node is enough to end it.
 * A quorum may have confirmed the forced release, for which a node counts that let anybody's lease be taken away; a node that never
 * granted this one would bring it back then.
 */
import { likeLength } from '../../core/port/like-lengths.js';
import type { RenewOutcome, RenewRequest } from '../../core/port/lock-store.js';
import { inBatches } from '../wire/batches.js';
import { MAX_RENEWED_TOGETHER } from '../wire/lock-reply.js';
import type { Ballot } from './ballot.js';
import type { RenewedThere } from './node-vote.js';
import { answersOf, hearing, leaseTimeoutMs, noQuorum, poll, type Reply } from './poll.js';
import { quorumEnd } from './quorum.js';
import type { QuorumContext } from './quorum-context.js';
import type { RedlockNode } from './redlock-node.js';
import { noReplicas } from './refusals.js';

type Nodes = Pick<QuorumContext, 'nodes' | 'quorum' | 'clock' | 'deadlines' | 'commandTimeoutMs'>;

interface Part {
  /** Its position in the list of what was asked for. */
  readonly at: number;
  readonly ballot: Ballot;
  readonly leaseMs: number;
}

/** A node's answer for each lease of the batch; undefined where the lease does not stand. */
type Answer = readonly (RenewedThere | undefined)[];
type Answers = ReadonlyMap<RedlockNode, Reply<Answer>>;

/** `held` finds the ballot of the holder with this id. */
export async function renewByQuorum(requests: readonly RenewRequest[], context: Nodes, held: (id: string) => Ballot | undefined): Promise<readonly RenewOutcome[]> {
  const outcomes: RenewOutcome[] = requests.map(({ key, minReplicas }) =>
    minReplicas > 0 ? { kind: 'unknown', cause: noReplicas(key) } : { kind: 'lost' },
  );
  const parts: Part[] = [];
  requests.forEach(({ id, leaseMs, minReplicas }, at) => {
    const ballot = held(id);
    if (ballot?.state === 'held' && minReplicas === 0) parts.push({ at, ballot, leaseMs: Math.floor(leaseMs) });
  });
  const told = await inBatches(parts, ({ leaseMs }) => likeLength(leaseMs), MAX_RENEWED_TOGETHER, (batch) => renewBatch(batch, context));
  parts.forEach(({ at }, n) => (outcomes[at] = told[n]!));
  return outcomes;
}

async function renewBatch(parts: readonly Part[], { nodes, quorum, clock, deadlines, commandTimeoutMs }: Nodes): Promise<readonly RenewOutcome[]> {
  const shortestMs = Math.min(...parts.map(({ leaseMs }) => leaseMs));
  for (const { ballot, leaseMs } of parts) ballot.standing.lasts(leaseMs + ballot.graceMs + shortestMs);
  const sentAt = clock.now();
  const request = parts.map(({ ballot: { key, id, graceMs }, leaseMs }) => ({ key, id, leaseMs, graceMs }));
  /** The leases that a node has let be taken away, or may have. */
  const taken = new Set<number>();
  /** Empty until all of them are known. */
  let outcomes: readonly RenewOutcome[] = [];
  const lookForTaken = (node: RedlockNode, answer: Answer): void =>
    parts.forEach(({ ballot }, n) => void (answer[n] === undefined && ballot.standing.mayBeTakenFrom(node, sentAt) && taken.add(n)));
  /** Notes where the leases stand, and gives back those that are known not to be lost. */
  const heard = (node: RedlockNode, answer: Answer): void => {
    parts.forEach(({ ballot, leaseMs }, n) => {
      const there = answer[n];
      if (there !== undefined) return ballot.standing.keptBy(node, there.end);
      const kind = outcomes[n]?.kind;
      const mayHaveIt = kind === 'renewed' ? !ballot.standing.wasTakenFrom(node, sentAt) : kind === 'unknown' && !taken.has(n);
      if (mayHaveIt) ballot.rejoin(node, leaseMs);
    });
  };
  const replies = await poll({
    nodes,
    deadlines,
    timeoutMs: leaseTimeoutMs(shortestMs, commandTimeoutMs),
    ask: (node, hear) => hearing(node.renew(request, Math.min(commandTimeoutMs, shortestMs / 3)), hear),
    decide: (replies: Answers) => (replies.size === nodes.length || parts.every((_, n) => hasQuorum(n, replies, quorum)) ? new Map(replies) : undefined),
    late: (node, reply) => {
      if (reply.kind === 'failure') return;
      lookForTaken(node, reply.answer);
      heard(node, reply.answer);
    },
  });
  for (const [node, answer] of answersOf(replies)) lookForTaken(node, answer);
  outcomes = parts.map((part, n): RenewOutcome => {
    // A ballot that was taken back meanwhile is not held any more, though the nodes renewed it before.
    const outcome: RenewOutcome = part.ballot.state === 'held' ? outcomeOf(part, n, nodes, quorum, replies, !taken.has(n) && part.ballot.standing.mayOutlive(clock.now())) : { kind: 'lost' };
    if (outcome.kind === 'renewed') part.ballot.standing.renewed(outcome.trustedUntil);
    return outcome;
  });
  for (const [node, answer] of answersOf(replies)) heard(node, answer);
  return outcomes;
}

function hasQuorum(n: number, replies: Answers, quorum: number): boolean {
  return answersOf(replies).filter(([, answer]) => answer[n] !== undefined).length >= quorum;
}

/** `mayOutlive`: whether the lease may go on although a quorum of nodes lacks it. */
function outcomeOf({ ballot }: Part, n: number, nodes: readonly RedlockNode[], quorum: number, replies: Answers, mayOutlive: boolean): RenewOutcome {
  const answers = answersOf(replies);
  const there = answers.flatMap(([, answer]) => answer[n] ?? []);
  if (there.length >= quorum) return renewed(there, quorum);
  // While one node has the lease, the nodes that do not have it can be given it again.
  const isLost = answers.length - there.length >= quorum && !(there.length > 0 && mayOutlive);
  if (isLost) return { kind: 'lost' };
  return { kind: 'unknown', cause: noQuorum('a renewal', ballot.key, nodes, replies, (answer) => (answer[n] === undefined ? 'lost' : 'renewed')) };
}

/** It is enough that one node says that somebody waits. */
function renewed(there: readonly RenewedThere[], quorum: number): RenewOutcome {
  const trustedUntil = quorumEnd(there.map(({ end }) => end), quorum);
  return { kind: 'renewed', trustedUntil, contended: there.some(({ contended }) => contended) };
}
