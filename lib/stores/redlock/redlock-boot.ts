/**
 * Opens the nodes of a Redlock together. The application starts as soon as a quorum is there; nodes that are down join
 * later. A fault that only an operator can fix, such as a wrong password or two nodes that are one server, stops the boot.
 */
import type { Clock } from '../../core/port/clock.js';
import { LockStoreError, type NodeFailure } from '../../core/port/errors.js';
import type { Report } from '../../core/port/report.js';
import type { NodeLink } from './node-link.js';
import { quorumOf } from './quorum.js';
import type { RedlockNode } from './redlock-node.js';

/** When a quorum is connected, the boot waits this long, in ms, for the other nodes before the application starts without them. */
const STRAGGLERS_MS = 300;
/** The pause before a node that cannot vote yet is looked at again, in ms. */
const LOOKS_AGAIN_AFTER_MS = 500;

export class RedlockBoot {
  private readonly opened = new Set<RedlockNode>();
  private readonly failures = new Map<RedlockNode, LockStoreError>();
  private readonly quorum: number;

  constructor(
    private readonly nodes: readonly RedlockNode[],
    private readonly clock: Clock,
    private readonly greet: (node: RedlockNode) => Promise<unknown>,
  ) {
    this.quorum = quorumOf(nodes.length);
  }

  /** Returns a warning when some nodes are missing. Rejects with LockStoreError when there is no quorum, naming every node. */
  async run(): Promise<string | undefined> {
    await new Promise<void>((resolve) => {
      let stragglers: object | undefined;
      const all = this.nodes.map(async (node) => {
        await this.open(node);
        if (this.opened.size >= this.quorum) stragglers ??= this.clock.setTimer(resolve, STRAGGLERS_MS);
      });
      void Promise.all(all).then(() => {
        if (stragglers !== undefined) this.clock.clearTimer(stragglers);
        resolve();
      });
    });
    return this.judge();
  }

  private async open(node: RedlockNode): Promise<void> {
    try {
      await node.link.open();
      await this.greet(node);
      if (node.link.twin !== undefined) throw sameServer(node.link.twin, node);
      this.opened.add(node);
    } catch (error) {
      this.failures.set(node, error as LockStoreError);
    }
  }

  private judge(): string | undefined {
    const { nodes, quorum, opened, failures } = this;
    const missing = nodes
      .filter((node) => !opened.has(node))
      .map((node): NodeFailure => ({ node: node.name, reason: reasonFor(failures.get(node)) }));
    if (missing.length === 0) return undefined;
    const details = missing.map(({ node, reason }) => `${node}: ${reason}`).join('; ');
    for (const error of failures.values()) if (!error.retryable) throw error;
    if (opened.size >= quorum) return `Locks: ${missing.length} of ${nodes.length} Redlock nodes cannot be used now (${details}). The others are a quorum.`;
    const message = `Locks: only ${opened.size} of ${nodes.length} Redlock nodes can be used, and a quorum is ${quorum} (${details}).`;
    throw new LockStoreError(message, { nodes: missing });
  }
}

/**
 * Nodes that connect after the boot, again or for the first time. Each is checked before it is asked to vote. A node whose
 * address leads to a server that votes already, as another node, is connected anew until it leads to a server of its own.
 */
export class LateNodes {
  /** The nodes that were reported as twins, each with the node whose server it shares. */
  private readonly twins = new Map<RedlockNode, NodeLink>();
  private readonly toLookAt = new Set<RedlockNode>();
  private closed = false;

  constructor(
    private readonly clock: Clock,
    private readonly attend: (node: RedlockNode) => Promise<unknown>,
    private readonly report: Report,
  ) {}

  async join(node: RedlockNode): Promise<void> {
    if (this.closed) return;
    try {
      if (!node.link.check.passed) await node.link.open();
      else await node.link.check.claimFormat();
      await this.attend(node);
      this.tellOfTwin(node);
    } catch (error) {
      // Requests that fail because the store closes are no news.
      if (this.closed) return;
      if (!(error as LockStoreError).retryable) return this.refuse(node, error as LockStoreError);
    }
    if (!node.connected) this.lookAgain(node);
  }

  /** Checks the node again after a while: a node may be connected but not fit to vote, and no event says when it is. */
  lookAgain(node: RedlockNode): void {
    if (this.toLookAt.has(node)) return;
    this.toLookAt.add(node);
    this.clock.setTimer(() => {
      this.toLookAt.delete(node);
      if (this.closed || node.connected) return;
      if (node.link.check.isUnderWay) this.lookAgain(node);
      else if (node.link.twin !== undefined) node.link.reconnect();
      else if (node.link.reachable) void this.join(node);
    }, LOOKS_AGAIN_AFTER_MS);
  }

  close(): void {
    this.closed = true;
  }

  /** Reports each change once. */
  private tellOfTwin(node: RedlockNode): void {
    const { twin } = node.link;
    if (twin === this.twins.get(node)) return;
    if (twin !== undefined) {
      this.twins.set(node, twin);
      const next = 'its vote does not count until it leads to a server of its own. Check where this address leads.';
      const message = `Locks: the Redlock nodes ${twin.name} and ${node.name} are one server. ${node.name} joined later: ${next}`;
      this.report({ kind: `twin ${node.name}`, level: 'error', message });
    } else if (node.connected) {
      this.twins.delete(node);
      this.report({ kind: `no twin ${node.name}`, level: 'info', message: `Locks: ${node.name} leads to a server of its own now.` });
    }
  }

  private refuse(node: RedlockNode, error: LockStoreError): void {
    node.link.refuse(error);
    const message = `Locks: ${node.name} is not used until this process is restarted: ${error.message}`;
    this.report({ kind: `refused ${node.name}`, level: 'error', message });
  }
}

function reasonFor(failure: LockStoreError | undefined): string {
  return failure === undefined ? 'not connected yet' : (failure.nodes[0]?.reason ?? failure.message);
}

function sameServer(one: NodeLink, other: RedlockNode): LockStoreError {
  const next = 'Give each node a server of its own: two votes of one server are no quorum.';
  const message = `Locks: the Redlock nodes ${one.name} and ${other.name} are one server. ${next}`;
  return new LockStoreError(message, { nodes: [{ node: other.name, reason: `the same server as ${one.name}` }], retryable: false });
}
