/**
 * Which server answers under the name of which node of a Redlock. A server has one vote, whatever the number of names that
 * lead to it: with two votes it would make a majority of a minority, and two holders could have one each.
 *
 * A server belongs to the first node that met it, for as long as that node's connection lasts. All that is asked of a node is
 * asked on a connection on which it claimed its server, so that no question ever reaches one server twice.
 */
export class KnownServers<N> {
  private readonly nodes = new Map<string, N>();

  /** Gives the server with this run id to the node. Returns the node that has it already, if it is another one. */
  claim(node: N, runId: string): N | undefined {
    const owner = this.nodes.get(runId);
    if (owner !== undefined && owner !== node) return owner;
    this.leave(node);
    this.nodes.set(runId, node);
    return undefined;
  }

  /** The node's connection ended: whichever node meets its server next may have it. */
  leave(node: N): void {
    for (const [runId, owner] of this.nodes) if (owner === node) this.nodes.delete(runId);
  }
}
