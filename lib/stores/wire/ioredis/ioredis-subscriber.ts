/** A connection for messages by ioredis. */
import type { Redis } from 'ioredis';
import type { Subscriber } from '../connections.js';
import { nameWhenReady } from './connection-guards.js';

export class IoredisSubscriber implements Subscriber {
  /** `client` connects when it is told to, and does not reconnect. */
  constructor(private readonly client: Redis) {
    nameWhenReady(client);
    client.on('error', () => {}); // an error is followed by 'end'
  }

  async open(channels: readonly string[], hear: (message: string) => void): Promise<void> {
    const { client } = this;
    client.on('message', (_channel: string, message: string) => hear(message));
    await client.connect();
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
