/** One connection of a store by ioredis: a client of a single server, or of a Cluster. */
import type { Cluster, Redis } from 'ioredis';
import type { Connection, ConnectionState, EvalAndWait } from '../connections.js';
import { redirectOf } from './cluster-redirect.js';
import { OPEN } from './connection-guards.js';
import { isCluster } from './connection-options.js';

export type RedisClient = Redis | Cluster;

export class IoredisConnection implements Connection {
  constructor(
    readonly client: RedisClient,
    readonly state: ConnectionState,
  ) {}

  get sender(): RedisClient {
    return this.client;
  }

  async start(): Promise<void> {
    if (this.client.status === 'wait') await this.client.connect();
  }

  drop(): void {
    const { client } = this;
    // In a Cluster the option socketTimeout closes the connection to the silent node.
    if (!isCluster(client) && client.status === 'ready') client.stream.destroy();
  }

  onOpen(listener: () => void): () => void {
    this.client.on(OPEN, listener);
    return () => void this.client.off(OPEN, listener);
  }

  onEnd(listener: () => void): void {
    this.client.on('close', listener);
  }

  onError(listener: (error: Error) => void): () => void {
    this.client.on('error', listener);
    return () => void this.client.off('error', listener);
  }

  async evalAndWait(run: EvalAndWait): Promise<readonly [unknown, unknown]> {
    try {
      return await together(this.client, run, false);
    } catch (error) {
      const redirect = redirectOf(this.client, error);
      if (redirect === undefined) throw error;
      return together(redirect.node, run, redirect.asking);
    }
  }
}

/** Sends both in one pipeline, so that in a Cluster both go to the node of the slot. */
async function together(on: RedisClient, { source, keys, args, replicas, waitMs }: EvalAndWait, asking: boolean): Promise<readonly [unknown, unknown]> {
  const pipeline = asking ? on.pipeline().asking() : on.pipeline();
  pipeline.eval(source, keys.length, ...keys, ...args).call('WAIT', replicas, waitMs);
  const replies = ((await pipeline.exec()) ?? []).slice(asking ? 1 : 0);
  for (const [error] of replies) if (error !== null) throw error;
  return [replies[0]?.[1], replies[1]?.[1]];
}
