/** The nodes of a Redlock as an operator asks them: nothing is probed or subscribed to, and a node may turn out to be another one's twin. */
import { KnownServers } from '../stores/redlock/known-servers.js';
import { NodeOutages } from '../stores/redlock/node-outages.js';
import { RedlockNode, type NodeSurroundings } from '../stores/redlock/redlock-node.js';
import type { RedlockStoreOptions } from '../stores/redlock/redlock-store.js';
import type { Connect } from '../stores/wire/connections.js';
import { RedisKeys } from '../stores/wire/redis-keys.js';

export function nodesToAsk(connects: readonly Connect[], options: Omit<RedlockStoreOptions, 'nodes'>): RedlockNode[] {
  const around: NodeSurroundings = {
    ...options,
    keys: new RedisKeys(options.prefix),
    outages: new NodeOutages(connects.length, options.clock, options.report),
    servers: new KnownServers(),
    news: { contended() {}, turn() {}, taken() {} },
    connected: () => {},
    unchecked: true,
  };
  return connects.map((connect) => new RedlockNode(connect, around));
}
