/** A connection for messages by ioredis. */
import type { Redis } from 'ioredis';
import type { Subscriber } from '../connections.js';
import { askForFlushes, FLUSHES } from '../flush-news.js';
import { nameWhenReady } from './connection-guards.js';

export class IoredisSubscriber implements Subscriber {
  /** `client` connects when it is told to, and does not reconnect. */
  constructor(private readonly client: Redis) {
    nameWhenReady(client);
    // Nothing is done about an error, because the client emits 'end' after it.
    client.on('error', () => {});
  }

  async open(channels: readonly string[], hear: (message: string) => void, flushed?: () => void): Promise<void> {
    const { client } = this;
    client.on('message', (channel: string, message: string) => (channel === FLUSHES ? flushed?.() : hear(message)));
    await client.connect();
    const isTold = flushed !== undefined && (await askForFlushes((command, ...args) => client.call(command, ...args)));
    // It is a subscription of its own, because a user may lack the right to this channel only.
    if (isTold) client.subscribe(FLUSHES).catch(() => undefined);
    await client.subscribe(...channels);
  }

  onEnd(listener: () => void): void {
    this.client.once('end', listener);
  }

  drop(): void {
    this.client.stream?.destroy();
  }

  close(): void {
    this.client.disconnect();
    this.client.stream?.destroy();
  }
}
