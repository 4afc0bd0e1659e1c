/**
 * Looks at the masters of a Redlock. It opens none of them as a store does: that would write the wire format to it, and begin the
 * quarantine of an empty one.
 */
import { LockStoreError } from '../core/port/errors.js';
import type { ListOptions, LockState } from '../core/port/lock-state.js';
import type { RedisStore } from '../stores/redis/redis-store.js';
import { FenceFloors } from '../stores/redis/remote-redis.js';
import { listByQuorum, viewOf } from '../stores/redlock/quorum-view.js';
import { agree, ANSWERS_WITHIN_MS, asking, quorumOf, type QuorumNode } from '../stores/redlock/quorum.js';
import { storeOfNode } from '../stores/redlock/redlock-node.js';
import type { RedlockStoreOptions } from '../stores/redlock/redlock-store.js';
import type { Connect } from '../stores/wire/connections.js';

/** How long it waits, in ms after the start, for further nodes when a quorum is connected. */
const STRAGGLERS_MS = 300;

export class RedlockLook {
  private readonly nodes: readonly NodeToAsk[];
  private readonly startedAt: number;

  constructor(connects: readonly Connect[], private readonly options: Omit<RedlockStoreOptions, 'nodes'>) {
    this.nodes = connects.map((connect) => new NodeToAsk(connect, options));
    this.startedAt = options.clock.now();
  }

  async inspect(key: string): Promise<LockState> {
    await this.connect();
    return viewOf(key, this.nodes);
  }

  list(options?: ListOptions): AsyncIterable<LockState> {
    return listByQuorum(options, this.nodes);
  }

  /**
   * Takes the lock away; true when a quorum of nodes did so. Rejects with LockStoreError when that is not known. It waits for all nodes, because it
   * is closed after that.
   */
  async forceRelease(key: string, fence?: number): Promise<boolean> {
    const ask = async ({ store }: QuorumNode): Promise<'taken' | 'none'> => ((await store.forceRelease(key, fence)) ? 'taken' : 'none');
    return (await agree('a forced release', key, this.nodes, asking(key, ask), { namesNobody: fence === undefined, waitsForAll: true })) === 'taken';
  }

  async close(): Promise<void> {
    await Promise.all(this.nodes.map(({ store }) => store.close()));
  }

  /** Connects to the nodes. Rejects when no quorum is connected. */
  private async connect(): Promise<void> {
    const { nodes, startedAt, options: { clock } } = this;
    const away = nodes.filter(({ isListening }) => !isListening);
    const asked = away.map((node) => node.store.inspect('nestjs-holdfast:cli', ANSWERS_WITHIN_MS).then(() => undefined, (error: unknown) => error));
    const failures = await Promise.all(asked);
    const up = nodes.filter(({ isListening }) => isListening).length;
    if (up === nodes.length || (up >= quorumOf(nodes.length) && clock.now() - startedAt > STRAGGLERS_MS)) return;
    const known = failures.filter((error) => error instanceof LockStoreError);
    const reasons = known.flatMap((error) => error.nodes.map(({ node, reason }) => `${node}: ${reason}`)).join('; ');
    throw new LockStoreError(`Locks: only ${up} of ${nodes.length} Redlock nodes answer, and a quorum is ${quorumOf(nodes.length)} (${reasons}).`, {
      retryable: known.every(({ retryable }) => retryable),
    });
  }
}

/** A question makes a node connect, although the question itself fails: so all of them may be asked at any time. */
export class NodeToAsk implements QuorumNode {
  readonly isUsable = true;
  readonly store: RedisStore;

  constructor(connection: Connect, options: Omit<RedlockStoreOptions, 'nodes'>) {
    const redlock = { floors: new FenceFloors(), outages: { away() {}, back() {} } };
    this.store = storeOfNode(connection, options, redlock);
  }

  get name(): string {
    return this.store.server;
  }

  get isListening(): boolean {
    return this.store.redis.connections.commands.isOpen;
  }

  refusal(key: string | undefined): LockStoreError {
    return new LockStoreError(`Locks: ${this.name} is not connected.`, { key });
  }
}
