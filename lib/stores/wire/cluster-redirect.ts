/**
 * Follows a Cluster's ASK and MOVED for several commands that must run on one node. ioredis does so for single commands, but
 * not for a pipeline of which a part succeeded, as WAIT does on any node.
 */
import type { Redis } from 'ioredis';
import type { RedisClient } from './redis-connection.js';

export interface Redirect {
  readonly node: Redis;
  /** The slot is only on its way there: the node must be told that we know. */
  readonly asking: boolean;
}

/** undefined where an error is no redirection, or leads to a node that is not connected. MOVED also refreshes the slots. */
export function redirectOf(client: RedisClient, error: unknown): Redirect | undefined {
  const [, kind, address] = /^(ASK|MOVED) \d+ (\S+)$/.exec(String((error as { message?: unknown }).message)) ?? [];
  if (address === undefined || !('refreshSlotsCache' in client)) return undefined;
  if (kind === 'MOVED') client.refreshSlotsCache();
  const { natMap } = client.options;
  const mapped = typeof natMap === 'function' ? natMap(address) : natMap?.[address];
  const wanted = mapped == null ? address : `${mapped.host}:${mapped.port}`;
  const node = client.nodes('all').find(({ options: { host, port } }) => `${host}:${port}` === wanted);
  return node && { node, asking: kind === 'ASK' };
}
