/**
 * Looks at the masters of a Redlock. It opens none of them as a store does: that would write the wire format to it, and begin the
 * quarantine of an empty one.
 */
import { LockStoreError } from '../core/port/errors.js';
import type { ListOptions, LockState } from '../core/port/lock-state.js';
import type { QuorumContext } from '../stores/redlock/quorum-context.js';
import { Deadlines } from '../stores/redlock/deadlines.js';
import { forceReleaseByQuorum } from '../stores/redlock/forced-release.js';
import { listByQuorum, viewOf } from '../stores/redlock/quorum-view.js';
import { quorumOf } from '../stores/redlock/quorum.js';
import type { Connect } from '../stores/wire/connections.js';
import type { RedlockStoreOptions } from '../stores/redlock/redlock-store.js';
import { Withdrawals } from '../stores/redlock/withdrawals.js';
import { DamagedLocks } from '../stores/wire/damaged-locks.js';
import { FenceFloors } from '../stores/wire/fence-floors.js';
import { nodesToAsk } from './redlock-nodes.js';

/** How long it waits, in ms after the start, for further nodes when a quorum is connected. */
const STRAGGLERS_MS = 300;

export class RedlockLook {
  private readonly context: QuorumContext;
  private readonly damaged: DamagedLocks;
  private readonly startedAt: number;

  constructor(connects: readonly Connect[], options: Omit<RedlockStoreOptions, 'nodes'>) {
    const { clock, commandTimeoutMs } = options;
    const nodes = nodesToAsk(connects, options);
    // No lock is asked for here, so the floors and the withdrawals stay empty.
    const deadlines = new Deadlines(clock);
    const withdrawals = new Withdrawals(clock);
    const quorum = quorumOf(nodes.length);
    this.context = { nodes, quorum, clock, deadlines, commandTimeoutMs, floors: new FenceFloors(), withdrawals, answeredIn: () => {}, forgetful: () => {} };
    this.damaged = new DamagedLocks(options.report, clock);
    this.startedAt = clock.now();
  }

  async inspect(key: string): Promise<LockState> {
    await this.connect();
    return (await viewOf(key, this.context)).state;
  }

  list({ startsWith = '' }: ListOptions = {}): AsyncIterable<LockState> {
    return listByQuorum(startsWith, this.context, this.damaged);
  }

  /** Takes the lock away; true when a quorum of nodes did so. Rejects with LockStoreError when that is not known. */
  forceRelease(key: string, fence?: number): Promise<boolean> {
    return forceReleaseByQuorum(key, fence, this.context, true);
  }

  async close(): Promise<void> {
    for (const node of this.context.nodes) node.close();
  }

  /** Connects to the nodes: a question makes a node connect, although the question itself fails. Rejects when no quorum is connected. */
  private async connect(): Promise<void> {
    const { nodes, quorum, clock } = this.context;
    const away = nodes.filter(({ link }) => !link.reachable);
    const failures = await Promise.all(away.map((node) => node.scan('', '0').then(() => undefined, (error: unknown) => error)));
    const up = nodes.filter(({ link }) => link.reachable).length;
    if (up === nodes.length || (up >= quorum && clock.now() - this.startedAt > STRAGGLERS_MS)) return;
    const known = failures.filter((error) => error instanceof LockStoreError);
    const reasons = known.flatMap((error) => error.nodes.map(({ node, reason }) => `${node}: ${reason}`)).join('; ');
    throw new LockStoreError(`Locks: only ${up} of ${nodes.length} Redlock nodes answer, and a quorum is ${quorum} (${reasons}).`, {
      retryable: known.every(({ retryable }) => retryable),
    });
  }
}
