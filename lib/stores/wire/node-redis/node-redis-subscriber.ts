/** A connection for messages by node-redis. */
import type { Subscriber } from '../connections.js';
import { askForFlushes, FLUSHES } from '../flush-news.js';
import { LiveConnection } from './live-connection.js';
import type { Locate, Needs } from './single-connection.js';

export class NodeRedisSubscriber implements Subscriber {
  private live: LiveConnection | undefined;
  private closed = false;
  private ended: () => void = () => {};

  constructor(
    private readonly locate: Locate,
    private readonly needs: Needs,
  ) {}

  async open(channels: readonly string[], hear: (message: string) => void, flushed?: () => void): Promise<void> {
    try {
      const source = await this.locate();
      if (this.closed) throw new Error('the connection was closed');
      const live = new LiveConnection(source, this.needs.timeoutMs, this.needs.clock, () => this.ended());
      this.live = live;
      await live.open();
      const isTold = flushed !== undefined && (await askForFlushes((...command) => live.client.sendCommand(command)));
      // It is a subscription of its own, because a user may lack the right to this channel only.
      if (isTold) live.client.subscribe([FLUSHES], flushed).catch(() => undefined);
      await live.client.subscribe([...channels], hear);
    } catch (error) {
      this.ended();
      throw error;
    }
  }

  onEnd(listener: () => void): void {
    this.ended = () => {
      this.ended = () => {};
      listener();
    };
  }

  drop(): void {
    this.live?.end(new Error('no answer'));
  }

  close(): void {
    this.closed = true;
    this.live?.end();
  }
}
