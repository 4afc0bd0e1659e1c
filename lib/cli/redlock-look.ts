/**
 * A look at the masters of a Redlock, none of which is opened: that would write its wire format there, and begin the
 * time that an empty one stays out.
 */
import { LockStoreError } from '../core/port/errors.js';
import type { ListOptions, LockState } from '../core/port/lock-store.js';
import type { QuorumContext } from '../stores/redlock/quorum-context.js';
import { Deadlines } from '../stores/redlock/deadlines.js';
import { KnownServers } from '../stores/redlock/known-servers.js';
import { NodeOutages } from '../stores/redlock/node-outages.js';
import { listByQuorum, viewOf } from '../stores/redlock/quorum-view.js';
import { quorumOf } from '../stores/redlock/quorum.js';
import { RedlockNode, type NodeSurroundings } from '../stores/redlock/redlock-node.js';
import type { RedlockStoreOptions } from '../stores/redlock/redlock-store.js';
import { Withdrawals } from '../stores/redlock/withdrawals.js';
import { DamagedLocks } from '../stores/wire/damaged-locks.js';
import { FenceFloors } from '../stores/wire/fence-floors.js';
import { RedisKeys } from '../stores/wire/redis-keys.js';

/** Once a quorum is there, the others get this long. */
const STRAGGLERS_MS = 300;

export class RedlockLook {
  private readonly context: QuorumContext;
  private readonly damaged: DamagedLocks;
  private readonly quorum: number;
  private readonly startedAt: number;

  constructor(urls: readonly string[], options: Omit<RedlockStoreOptions, 'nodes'>) {
    const { clock, commandTimeoutMs, prefix } = options;
    const around: NodeSurroundings = {
      ...options,
      keys: new RedisKeys(prefix),
      outages: new NodeOutages(urls.length, clock, options.report),
      servers: new KnownServers(),
      news: { contended() {}, turn() {}, taken() {} },
      connected: () => {},
      unchecked: true,
    };
    const nodes = urls.map((url) => new RedlockNode(url, around));
    // Nobody asks for a grant here: floors and withdrawals stay empty.
    this.context = { nodes, clock, deadlines: new Deadlines(clock), commandTimeoutMs, floors: new FenceFloors(), withdrawals: new Withdrawals(clock), tookMs: 0, forgetful: () => {} };
    this.damaged = new DamagedLocks(options.report, clock);
    this.quorum = quorumOf(urls.length);
    this.startedAt = clock.now();
  }

  async inspect(key: string): Promise<LockState> {
    await this.connect();
    return (await viewOf(key, this.context)).state;
  }

  list({ startsWith = '' }: ListOptions = {}): AsyncIterable<LockState> {
    return listByQuorum(startsWith, this.context, this.damaged);
  }

  /** Whether a quorum took it away. Rejects with LockStoreError when that is not known. */
  async forceRelease(key: string, fence?: number): Promise<boolean> {
    const answers = await Promise.allSettled(this.context.nodes.map((node) => node.forceRelease(key, fence)));
    const taken = answers.filter((answer) => answer.status === 'fulfilled' && answer.value === 'taken').length;
    const mute = answers.filter(({ status }) => status === 'rejected').length;
    if (taken >= this.quorum) return true;
    if (taken + mute < this.quorum) return false;
    const answered = `only ${answers.length - mute} of ${answers.length} nodes answered`;
    throw new LockStoreError(`Lock '${key}': ${answered}, ${taken} of them took it away. Try again.`, { key });
  }

  async close(): Promise<void> {
    for (const node of this.context.nodes) node.close();
  }

  /** Whoever is asked connects, though the question that made it connect is refused. */
  private async connect(): Promise<void> {
    const { nodes, clock } = this.context;
    const away = nodes.filter(({ link }) => !link.reachable);
    const failures = await Promise.all(away.map((node) => node.scan('', '0').then(() => undefined, (error: unknown) => error)));
    const up = nodes.filter(({ link }) => link.reachable).length;
    if (up === nodes.length || (up >= this.quorum && clock.now() - this.startedAt > STRAGGLERS_MS)) return;
    const known = failures.filter((error) => error instanceof LockStoreError);
    const reasons = known.flatMap((error) => error.nodes.map(({ node, reason }) => `${node}: ${reason}`)).join('; ');
    throw new LockStoreError(`Locks: only ${up} of ${nodes.length} Redlock nodes answer, and a quorum is ${this.quorum} (${reasons}).`, {
      retryable: known.every(({ retryable }) => retryable),
    });
  }
}
