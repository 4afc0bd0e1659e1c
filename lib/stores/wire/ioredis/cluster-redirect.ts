/**
 * Follows the redirections of a Cluster (ASK and MOVED) for a pipeline. ioredis follows them for single commands, but not for a
 * pipeline of which a part succeeded, and WAIT succeeds on every node.
 */
import type { Redis } from 'ioredis';
import { redirectionOf } from '../redirection.js';
import type { RedisClient } from './ioredis-connection.js';

interface Redirect {
  readonly node: Redis;
  /** Whether the slot is still being moved to the node, so that the command ASKING must come first. */
  readonly asking: boolean;
}

/** The node to which an error redirects; undefined when it is no redirection, or the node is not known. MOVED also refreshes the slots. */
export function redirectOf(client: RedisClient, error: unknown): Redirect | undefined {
  const redirection = redirectionOf(String((error as { message?: unknown }).message));
  if (redirection === undefined || !('refreshSlotsCache' in client)) return undefined;
  const { kind, address } = redirection;
  if (kind === 'MOVED') client.refreshSlotsCache();
  const { natMap } = client.options;
  const mapped = typeof natMap === 'function' ? natMap(address) : natMap?.[address];
  const wanted = mapped == null ? address : `${mapped.host}:${mapped.port}`;
  const node = client.nodes('all').find(({ options: { host, port } }) => `${host}:${port}` === wanted);
  return node && { node, asking: kind === 'ASK' };
}
