/**
 * Which server answers at the address of which node of a Redlock. A server has one vote, however many addresses lead to it:
 * with two votes it could make a majority of a minority, and two holders could have a majority each.
 *
 * A server belongs to the first node that met it, for as long as that node's connection lasts. A node asks questions only on a
 * connection on which it claimed its server, so that one question never reaches one server twice.
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

  /** Called when the node's connection ended: the next node that meets the server gets it. */
  leave(node: N): void {
    for (const [runId, owner] of this.nodes) if (owner === node) this.nodes.delete(runId);
  }
}
