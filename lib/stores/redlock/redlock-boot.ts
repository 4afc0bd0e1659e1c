/**
 * Opens the nodes of a Redlock together. The application starts as soon as a quorum is there; nodes that are down join
 * later by themselves. What only an operator can mend, a wrong password or two nodes that are one server, stops the boot.
 */
import type { Clock } from '../../core/port/clock.js';
import { LockStoreError, type NodeFailure } from '../../core/port/errors.js';
import type { Report } from '../../core/port/report.js';
import type { Memory } from './node-memory.js';
import { quorumOf } from './quorum.js';
import type { RedlockNode } from './redlock-node.js';

/** Once a quorum is there, the others get this long to be there as well before the application starts without them. */
const STRAGGLERS_MS = 300;
const AGAIN_MS = 500;

export class RedlockBoot {
  private readonly opened = new Map<RedlockNode, string>();
  private readonly failures = new Map<RedlockNode, LockStoreError>();

  constructor(
    private readonly nodes: readonly RedlockNode[],
    private readonly clock: Clock,
    private readonly greet: (node: RedlockNode) => Promise<Memory | undefined>,
  ) {}

  /** Returns a warning when some nodes are missing. Rejects with LockStoreError when there is no quorum, naming every node. */
  async run(): Promise<string | undefined> {
    await new Promise<void>((resolve) => {
      let stragglers: object | undefined;
      const all = this.nodes.map(async (node) => {
        await this.open(node);
        if (this.opened.size >= quorumOf(this.nodes.length)) stragglers ??= this.clock.setTimer(resolve, STRAGGLERS_MS);
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
      await node.open();
      const runId = (await this.greet(node))?.runId ?? '';
      for (const [twin, known] of this.opened) if (runId !== '' && known === runId) throw sameServer(twin, node);
      this.opened.set(node, runId);
    } catch (error) {
      this.failures.set(node, error as LockStoreError);
    }
  }

  private judge(): string | undefined {
    const { nodes, opened, failures } = this;
    const missing = nodes
      .filter((node) => !opened.has(node))
      .map((node): NodeFailure => ({ node: node.name, reason: reasonFor(failures.get(node)) }));
    if (missing.length === 0) return undefined;
    const details = missing.map(({ node, reason }) => `${node}: ${reason}`).join('; ');
    for (const error of failures.values()) if (isForTheOperator(error)) throw error;
    const quorum = quorumOf(nodes.length);
    if (opened.size >= quorum) return `Locks: ${missing.length} of ${nodes.length} Redlock nodes cannot be used now (${details}). The others are a quorum.`;
    const message = `Locks: only ${opened.size} of ${nodes.length} Redlock nodes can be used, and a quorum is ${quorum} (${details}).`;
    throw new LockStoreError(message, { nodes: missing });
  }
}

/** Nodes that are there again, or for the first time: each is checked before anything is asked of it. */
export class LateNodes {
  private closed = false;

  constructor(
    private readonly clock: Clock,
    private readonly attend: (node: RedlockNode) => Promise<unknown>,
    private readonly report: Report,
  ) {}

  async join(node: RedlockNode): Promise<void> {
    if (this.closed) return;
    try {
      if (!node.opened) await node.open();
      else if (!(await node.keepsFormat())) throw new LockStoreError('its wire format is another one now', { retryable: false });
      await this.attend(node);
    } catch (error) {
      // A store that closes ends what is on its way, and that is nobody's fault.
      if (this.closed) return;
      if (isForTheOperator(error as LockStoreError)) return this.refuse(node, error as LockStoreError);
    }
    if (!node.connected) this.lookAgain(node);
  }

  /** It may be there and not fit yet: its connection will not tell when it is. */
  lookAgain(node: RedlockNode): void {
    this.clock.setTimer(() => {
      if (this.closed || node.connected) return;
      if (node.opening) this.lookAgain(node);
      else if (node.reachable) void this.join(node);
    }, AGAIN_MS);
  }

  close(): void {
    this.closed = true;
  }

  private refuse(node: RedlockNode, error: LockStoreError): void {
    node.refused = error;
    const message = `Locks: ${node.name} is not used until this process is restarted: ${error.message}`;
    this.report({ kind: `refused ${node.name}`, level: 'error', message });
  }
}

/** Whether no waiting mends it. A disk that is full or a replica that is missing may mend itself. */
function isForTheOperator({ retryable, nodes }: LockStoreError): boolean {
  return !retryable && !nodes.some(({ reason }) => /\b(MISCONF|NOREPLICAS)\b/.test(reason));
}

function reasonFor(failure: LockStoreError | undefined): string {
  return failure === undefined ? 'not connected yet' : (failure.nodes[0]?.reason ?? failure.message);
}

function sameServer(one: RedlockNode, other: RedlockNode): LockStoreError {
  const message = `Locks: the Redlock nodes ${one.name} and ${other.name} are one server. Each node must be a master of its own, or a quorum means nothing.`;
  return new LockStoreError(message, { nodes: [{ node: other.name, reason: `the same server as ${one.name}` }], retryable: false });
}
