/**
 * Says which leases may be renewed by one command. The answer to a command is waited for no longer than the shortest lease in it
 * allows, so a short lease in a batch of long ones would make the long ones give up an answer that comes in time for them.
 */

/** A number that is the same for leases of like length: of two with the same number neither is twice as long as the other. */
export function likeLength(leaseMs: number): number {
  return Math.floor(Math.log2(leaseMs));
}
