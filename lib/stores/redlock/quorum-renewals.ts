/**
 * Renewals by quorum: the store of each node renews all leases, and each lease is counted by itself. A node that does not have one is
 * given it while the lease can be trusted, so that a lease outlives the nodes it began on: until then no other process can have been
 * granted the lock, for each node of its quorum has it, or forgot it and is closed for longer. That holds without a quorum of the
 * others too: a lease that three of five nodes granted outlives the loss of one of the three.
 *
 * A node from which a forced release took the lease away is not given it before it would have ended there: other nodes may be about
 * to let it be taken away, and a quorum that has it now would have it still. Where no quorum has it, one such node is enough to end it.
 * A quorum may have confirmed the forced release, for which a node counts that let anybody's lease be taken away; a node that never
 * granted this one would bring it back then.
 */
import { LockStoreError } from '../../core/port/errors.js';
import type { RenewOutcome } from '../../core/port/lock-store.js';
import type { Ballot } from './ballot.js';
import { answersOf, asking, noQuorum, poll, reasonOf, type Replies } from './poll.js';
import { quorumEnd } from './quorum.js';
import type { RedlockNode } from './redlock-node.js';
import type { RedlockStore } from './redlock-store.js';

interface Renewed {
  readonly ballot: Ballot;
  readonly leaseMs: number;
}

type Answer = readonly RenewOutcome[];
type Kept = Extract<RenewOutcome, { kind: 'renewed' }>;

/** The outcomes are in the order of the leases. Never rejects. */
export async function renewByQuorum(leases: readonly Renewed[], redlock: RedlockStore): Promise<readonly RenewOutcome[]> {
  const { nodes, quorum, clock } = redlock;
  for (const { ballot, leaseMs } of leases) ballot.lasts(leaseMs + ballot.request.leaseMs + (ballot.request.graceMs ?? 0));
  const sentAt = clock.now();
  /** Leases that a node has let be taken away, or may have. */
  const taken = new Set<Ballot>();
  let outcomes: readonly RenewOutcome[] = [];
  /** Sends the renewals to one node, and notes which leases that node has. */
  const ask = async (node: RedlockNode, at: number): Promise<Answer> => {
    const told = await node.store.renew(leases.map(({ ballot, leaseMs }) => ballot.renewal(leaseMs)));
    return leases.map(({ ballot: { key, standings }, ballot }, n) => {
      const outcome = told[n]!;
      // On a connection on which the node has not said yet what it remembers, a lease that is not there may be forgotten, or taken away.
      if (outcome.kind === 'lost' && node.store.memoryOf(key) === undefined) return { kind: 'unknown', cause: node.refusal(key, 'not known to remember') };
      if (outcome.kind === 'renewed') standings[at]!.keeps(outcome.trustedUntil, outcome.memory);
      else if (outcome.kind === 'lost' && standings[at]!.mayBeTaken(sentAt)) taken.add(ballot);
      return outcome;
    });
  };
  const giveBack = (answer: Answer, at: number): void => {
    const missing = leases.filter(({ ballot }, n) => answer[n]!.kind === 'lost' && outcomes[n]?.kind === 'renewed' && !ballot.standings[at]!.wasTaken(sentAt));
    if (missing.length > 0) void rejoin(nodes, at, missing);
  };
  const key = leases.length === 1 ? leases[0]!.ballot.key : undefined;
  const replies = await poll<RedlockNode, Answer, Replies<Answer>>(
    nodes,
    asking(key, ask),
    (all, count) => (count === nodes.length || (count >= quorum && leases.every((_, n) => keptOf(n, all).length >= quorum)) ? all : undefined),
    (reply, at) => void (reply instanceof LockStoreError || giveBack(reply, at)),
  );
  outcomes = await Promise.all(leases.map((lease, n) => outcomeOf(lease, n, replies, taken.has(lease.ballot), redlock)));
  for (const [answer, at] of answersOf(replies)) giveBack(answer, at);
  return outcomes;
}

async function outcomeOf(lease: Renewed, n: number, replies: Replies<Answer>, isTaken: boolean, redlock: RedlockStore): Promise<RenewOutcome> {
  const { ballot } = lease;
  const { nodes, quorum, clock } = redlock;
  const kept = keptOf(n, replies);
  const missing = answersOf(replies).filter(([answer]) => answer[n]!.kind === 'lost').map(([, at]) => at);
  const mayGoOn = !isTaken && ballot.takenOn === 0 && clock.now() < ballot.trustedUntil;
  // Where no quorum has it, the nodes that do not have it can be given it, while one has it or they are too few for a loss.
  if (kept.length < quorum && mayGoOn && (kept.length > 0 || missing.length < quorum)) {
    const back = await Promise.all(missing.map(async (at) => (await rejoin(nodes, at, [lease]))[0]!));
    kept.push(...back.filter((outcome) => outcome.kind === 'renewed'));
  }
  // A ballot that was taken back meanwhile is not held any more, though the nodes renewed it before.
  if (ballot.state !== 'held') return { kind: 'lost' };
  if (kept.length >= quorum) {
    const trustedUntil = (ballot.trustedUntil = quorumEnd(kept.map(({ trustedUntil }) => trustedUntil), quorum));
    // It is enough that one node says that somebody waits.
    return { kind: 'renewed', trustedUntil, contended: kept.some(({ contended }) => contended) };
  }
  if (missing.length >= quorum && !(kept.length > 0 && mayGoOn)) return { kind: 'lost' };
  const cause = noQuorum('a renewal', ballot.key, nodes, replies, (answer) => textOf(answer[n]!));
  return { kind: 'unknown', cause };
}

/** Gives leases to a node that does not have them, unless it has granted the lock to somebody else. Never rejects. */
async function rejoin(nodes: readonly RedlockNode[], at: number, leases: readonly Renewed[]): Promise<Answer> {
  for (const { ballot } of leases) ballot.standings[at]!.mayHave = true;
  const outcomes = await nodes[at]!.store.renew(leases.map(({ ballot, leaseMs }) => ballot.renewal(leaseMs, ballot)));
  outcomes.forEach((outcome, n) => leases[n]!.ballot.standings[at]!.given(outcome));
  return outcomes;
}

/** The nodes' answers that have the lease. One with a server's refusal of its key has not. */
function keptOf(n: number, replies: Replies<Answer>): Kept[] {
  return answersOf(replies).flatMap(([answer]) => (answer[n]!.kind === 'renewed' ? [answer[n] as Kept] : []));
}

function textOf(outcome: RenewOutcome): string {
  return outcome.kind === 'unknown' && outcome.cause instanceof LockStoreError ? reasonOf(outcome.cause) : outcome.kind;
}
