/**
 * One connection by node-redis, from connecting to its end.
 *
 *     connecting ──(the server has answered)──▶ open ──(the socket ended, or end() was called)──▶ ended
 *          └──────────────────────────────(refused, too late, end() was called)───────────────────▲
 */
import type { Clock } from '../../../core/port/clock.js';
import { messageOf } from '../../../core/port/errors.js';
import { CONNECTION_NAME, connectingMs } from '../connections.js';
import { isReply } from '../store-failure.js';
import { forcedOptions, type ClientSource, type NodeRedisClient } from './node-redis-client.js';

/** The words of node-redis for a server that could not be reached in time. */
const TIMEOUT = /^Connection timeout$/;

export class LiveConnection {
  readonly client: NodeRedisClient;
  private readonly socket = new AbortController();
  private isOpen = false;
  private hasEnded = false;
  /** What ended it while it was connecting. */
  private reason: Error | undefined;

  constructor(
    source: ClientSource,
    private readonly timeoutMs: number,
    private readonly clock: Clock,
    /** Called once, when the connection has ended after it was open. */
    private readonly ended: (error: Error) => void = () => {},
  ) {
    this.client = source.make(forcedOptions(source.given, timeoutMs, this.socket.signal));
  }

  /** Rejects with what the client or the server says. A server that accepts connections and answers nothing is given up. */
  async open(): Promise<void> {
    const { client, clock } = this;
    client.on('error', (error) => {
      if (!this.isOpen) this.reason ??= error;
      else this.finish(error);
    });
    const timers = new Set<object>();
    client.on('connect', () => {
      timers.add(clock.setTimer(() => this.end(new Error('connect ETIMEDOUT')), connectingMs(this.timeoutMs)));
    });
    try {
      await client.connect();
      // Operators find the connection in CLIENT LIST by its name. An error reply is an answer too.
      await client.sendCommand(['CLIENT', 'SETNAME', CONNECTION_NAME]).catch((error: unknown) => {
        if (!isReply(error)) throw error;
      });
      if (this.hasEnded) throw new Error('the connection was closed');
      this.isOpen = true;
    } catch (error) {
      const reason = this.reason ?? error;
      this.end();
      throw TIMEOUT.test(messageOf(reason)) ? new Error('connect ETIMEDOUT') : reason;
    } finally {
      for (const timer of timers) clock.clearTimer(timer);
    }
  }

  /** Ends the connection. `reason` is what {@link open} rejects with, if it has not resolved. */
  end(reason?: Error): void {
    this.reason ??= reason;
    this.finish(reason ?? new Error('Connection is closed.'));
  }

  private finish(error: Error): void {
    if (this.hasEnded) return;
    this.hasEnded = true;
    // The owner is told before the commands on the way fail, so that no command follows them into this connection.
    if (this.isOpen) this.ended(error);
    this.socket.abort();
    try {
      this.client.destroy();
    } catch {
      // Version 5 throws when the socket has ended already.
    }
  }
}
