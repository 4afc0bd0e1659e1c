/**
 * The nodes that make up a Redlock: opened together, looked at anew when they come back, and closed together. A node that has
 * lost its memory stays out until it cannot do harm (recovery.ts), and one that was not there at boot joins later
 * (redlock-boot.ts).
 */
import { TurnEnd } from '../wire/bundles.js';
import type { Connect } from '../wire/connections.js';
import { KnownServers } from './known-servers.js';
import { MemoryLog } from './memory-log.js';
import type { NodeLink } from './node-link.js';
import { NodeOutages } from './node-outages.js';
import { Recovery, type RecoverySurroundings } from './recovery.js';
import { LateNodes, RedlockBoot } from './redlock-boot.js';
import { RedlockNode, type NodeSurroundings } from './redlock-node.js';

type Surroundings = Omit<NodeSurroundings, 'outages' | 'servers' | 'turnEnd' | 'connected'> & Pick<RecoverySurroundings, 'floors' | 'deadlines'>;

export class Members {
  readonly nodes: readonly RedlockNode[];
  private readonly outages: NodeOutages;
  private readonly turnEnd = new TurnEnd();
  private readonly recovery: Recovery;
  private readonly lateNodes: LateNodes;

  constructor(
    connects: readonly Connect[],
    private readonly around: Surroundings,
  ) {
    const { clock, report } = around;
    this.outages = new NodeOutages(connects.length, clock, report);
    const servers = new KnownServers<NodeLink>();
    const { turnEnd } = this;
    const connected = (node: RedlockNode): void => void this.lateNodes.join(node);
    this.nodes = connects.map((connect) => new RedlockNode(connect, { ...around, outages: this.outages, servers, turnEnd, connected }));
    this.recovery = new Recovery({ ...around, nodes: this.nodes, log: new MemoryLog(connects.length, clock, report) });
    this.lateNodes = new LateNodes(clock, (node) => this.recovery.attend(node), report);
  }

  /** Rejects with LockStoreError when no quorum can be used, or when an operator has to put something right. */
  async open(): Promise<void> {
    const { clock, report } = this.around;
    const warning = await new RedlockBoot(this.nodes, clock, (node) => this.recovery.attend(node)).run();
    if (warning !== undefined) report({ kind: 'boot', level: 'warning', message: warning });
    for (const node of this.nodes) {
      if (node.connected) continue;
      this.outages.missing(node.name);
      node.link.outage.watchAway();
      this.lateNodes.lookAgain(node);
    }
  }

  /** Calls `done` when all requests of this turn of the event loop have been written to the network: with node-redis that is in the next turn. */
  whenSent(done: () => void): void {
    this.turnEnd.add(() => this.around.clock.nextTurn(done));
  }

  /** A node said that it does not remember what it granted. */
  forgot(node: RedlockNode): void {
    void this.recovery.attend(node);
  }

  close(): void {
    this.lateNodes.close();
    this.recovery.close();
    for (const node of this.nodes) node.close();
  }
}
