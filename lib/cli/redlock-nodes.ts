/** The nodes of a Redlock as an operator asks them: they are not opened, so that nothing is probed, subscribed to or written. */
import { LockStoreError } from '../core/port/errors.js';
import type { LockState } from '../core/port/lock-state.js';
import type { RedisStore } from '../stores/redis/redis-store.js';
import { storeOfNode } from '../stores/redlock/redlock-node.js';
import type { RedlockStoreOptions } from '../stores/redlock/redlock-store.js';
import type { Connect } from '../stores/wire/connections.js';
import { FenceFloors } from '../stores/redis/server-view.js';

/** For how long it is waited for the answer of a node, in ms. */
const ANSWERS_WITHIN_MS = 500;

/** A question makes a node connect, although the question itself fails: so all of them may be asked at any time. */
export class NodeToAsk {
  readonly isUsable = true;
  readonly store: RedisStore;

  constructor(connection: Connect, options: Omit<RedlockStoreOptions, 'nodes'>) {
    const redlock = { floors: new FenceFloors(), outages: { away() {}, back() {} }, turn() {} };
    this.store = storeOfNode(connection, options, redlock);
  }

  get name(): string {
    return this.store.server;
  }

  get isListening(): boolean {
    return this.store.parts.connections.commands.state.isOpen;
  }

  inspect(key: string): Promise<LockState> {
    return this.store.inspect(key, ANSWERS_WITHIN_MS);
  }

  refusal(key: string | undefined): LockStoreError {
    return new LockStoreError(`Locks: ${this.name} is not connected.`, { key });
  }
}
