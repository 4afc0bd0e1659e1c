/** The nodes of a Redlock as an operator asks them: they are not opened, so that nothing is probed, subscribed to or written. */
import { LockStoreError } from '../core/port/errors.js';
import { NodeStore } from '../stores/redlock/node-store.js';
import type { RedlockStoreOptions } from '../stores/redlock/redlock-store.js';
import { TurnEnd } from '../stores/wire/bundles.js';
import type { Connect } from '../stores/wire/connections.js';
import { FenceFloors } from '../stores/wire/fence-floors.js';
import { UNTIL_TOLD_MS } from '../stores/wire/redis-keys.js';

/** A question makes a node connect, although the question itself fails: so all of them may be asked at any time. */
export class NodeToAsk {
  readonly isUsable = true;
  readonly store: NodeStore;

  constructor(connection: Connect, options: Omit<RedlockStoreOptions, 'nodes'>) {
    const redlock = { turnEnd: new TurnEnd(), floors: new FenceFloors(), outages: { away() {}, back() {} }, turn() {} };
    this.store = new NodeStore({ ...options, connection, recoveryMs: UNTIL_TOLD_MS, redlock });
  }

  get name(): string {
    return this.store.name;
  }

  get isListening(): boolean {
    return this.store.isConnected;
  }

  refusal(key: string | undefined): LockStoreError {
    return new LockStoreError(`Locks: ${this.name} is not connected.`, { key });
  }
}
