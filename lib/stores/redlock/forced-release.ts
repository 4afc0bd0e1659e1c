/** Takes a lock away from its holders on the nodes of a Redlock, for the store and for the command line. */
import { agree, hearing, type Hear } from './poll.js';
import type { QuorumContext } from './quorum-context.js';
import type { RedlockNode } from './redlock-node.js';

/**
 * Whether a quorum of nodes took it away. `waitsForAll`: for every node, also when a quorum has decided, because the caller closes them
 * then. Rejects with LockStoreError when no quorum agrees.
 */
export async function forceReleaseByQuorum(
  key: string,
  fence: number | undefined,
  { nodes, deadlines, commandTimeoutMs: timeoutMs }: Pick<QuorumContext, 'nodes' | 'deadlines' | 'commandTimeoutMs'>,
  waitsForAll = false,
): Promise<boolean> {
  const ask = (node: RedlockNode, hear: Hear<'taken' | 'none'>): void => hearing(node.forceRelease(key, fence), hear);
  return (await agree('a forced release', key, { nodes, deadlines, timeoutMs, ask, namesNobody: fence === undefined, waitsForAll })) === 'taken';
}
