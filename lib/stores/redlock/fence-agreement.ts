/**
 * One fence for a grant of several nodes. Each node answers the greater of what the ballot proposed and what follows the
 * node's counter. Where a quorum answered the same, that is the fence. Otherwise the greatest answer is the fence, and it is
 * written back until a quorum has it, before anybody uses it: every later quorum then has a node that knows it.
 */
import type { GrantedVote, VoteRequest } from './node-vote.js';
import { answersOf, hearing, noQuorum, poll, voteTimeoutMs, type Reply } from './poll.js';
import type { QuorumContext } from './quorum-context.js';
import type { RedlockNode } from './redlock-node.js';

type Votes = ReadonlyMap<RedlockNode, GrantedVote>;

/**
 * When the votes end, in local instants, that stand with this fence: a quorum of them. It is a promise only when nodes have to be
 * told the fence first, which rejects with LockStoreError when no quorum has it.
 */
export function agreeOnFence(fence: number, request: VoteRequest, votes: Votes, context: QuorumContext): readonly number[] | Promise<readonly number[]> {
  const ends: number[] = [];
  const others: RedlockNode[] = [];
  for (const [node, vote] of votes) {
    if (vote.fence === fence) ends.push(vote.end);
    else others.push(node);
  }
  if (ends.length < context.quorum) return writeBack(fence, request, others, ends, votes, context);
  for (const node of others) correctFence(node, request, fence);
  return ends;
}

/** Nobody waits for the answer: the fence of such a node matters only to a later share of the hold, which compares it there. */
export function correctFence(node: RedlockNode, request: VoteRequest, fence: number): void {
  node.raiseFence(request, fence).catch(() => {});
}

/** Gives the fence to nodes that voted with another one, until a quorum has it. */
function writeBack(
  fence: number,
  request: VoteRequest,
  others: readonly RedlockNode[],
  settled: readonly number[],
  votes: Votes,
  { quorum, deadlines, commandTimeoutMs }: QuorumContext,
): Promise<readonly number[]> {
  return poll({
    nodes: others,
    deadlines,
    timeoutMs: voteTimeoutMs(request.leaseMs, commandTimeoutMs),
    ask: (node, hear) => hearing(node.raiseFence(request, fence), hear),
    decide: (replies: ReadonlyMap<RedlockNode, Reply<boolean>>) => {
      const ends = [...settled, ...answersOf(replies).flatMap(([node, stands]) => (stands ? votes.get(node)!.end : []))];
      if (ends.length >= quorum) return ends;
      if (replies.size < others.length) return undefined;
      throw noQuorum('its agreement on a fence', request.on.key, others, replies, (stands) => (stands ? 'agreed' : 'lost the vote'));
    },
  });
}
