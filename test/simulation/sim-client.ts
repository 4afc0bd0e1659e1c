/**
 * What a simulated process has in place of an ioredis client: the part of its interface that the stores use, with the
 * same promises (nothing is queued offline, nothing is sent twice, whoever waits on a connection that ends is told).
 *
 *     wait ──▶ connecting ──▶ ready ──▶ close ──▶ end
 */
import { EventEmitter } from 'node:events';
import type { Redis, RedisOptions } from 'ioredis';
import type { LuaReply } from './lua-interpreter.js';
import { ServerError } from './lua-values.js';
import { SimSocket, type Way } from './sim-socket.js';

interface Pending {
  readonly resolve: (reply: LuaReply) => void;
  readonly reject: (error: Error) => void;
}

export type Argument = string | number;

export class SimClient extends EventEmitter {
  status: 'wait' | 'connecting' | 'ready' | 'close' | 'end' = 'wait';
  readonly stream = {
    destroy: (): void => this.lose(),
    /** A command is in the air when it is sent; how many of them one write has makes no difference here. */
    cork: (): void => {},
    uncork: (): void => {},
  };
  private socket: SimSocket | undefined;
  private readonly pending = new Map<number, Pending>();
  private requests = 0;
  private attempts = 0;
  /** The way to the server that it was led to last. */
  private way: Way;

  /** `lead` says which server to connect to, each time anew. */
  constructor(private readonly lead: () => Way, readonly options: RedisOptions = {}) {
    super();
    this.way = lead();
    this.options = { host: this.way.server.name, port: 6379, ...options };
  }

  /** As the application's client that a store is given. */
  static for(lead: () => Way, options: RedisOptions = {}): Redis {
    return new SimClient(lead, options) as unknown as Redis;
  }

  duplicate(options: RedisOptions): SimClient {
    return new SimClient(this.lead, { ...this.options, ...options });
  }

  /** By this a client of ioredis is told from those of other packages. */
  defineCommand(): void {}

  connect(): Promise<void> {
    this.status = 'connecting';
    const ready = new Promise<void>((resolve, reject) => {
      const settle = (error?: Error): void => {
        this.off('ready', settle).off('close', closed);
        if (error === undefined) resolve();
        else reject(error);
      };
      const closed = (): void => settle(new Error('Connection is closed.'));
      this.once('ready', settle).once('close', closed);
    });
    this.knock();
    return ready;
  }

  disconnect(): void {
    if (this.status === 'wait') this.end();
    else this.lose();
  }

  call(command: string, ...args: Argument[]): Promise<LuaReply> {
    return this.ask(command, args);
  }

  subscribe(...channels: string[]): Promise<LuaReply> {
    return this.ask('subscribe', channels);
  }

  private ask(command: string, args: readonly Argument[]): Promise<LuaReply> {
    if (this.status !== 'ready') return Promise.reject(new Error("Stream isn't writeable and enableOfflineQueue options is false"));
    return new Promise((resolve, reject) => {
      const request = ++this.requests;
      this.pending.set(request, { resolve, reject });
      this.socket?.send(request, [command, ...args.map(String)]);
    });
  }

  /** Tries to connect: the handshake costs a way there and back, and may hang. */
  private knock(): void {
    const way = (this.way = this.lead());
    const { time, process, server } = way;
    const attempt = ++this.attempts;
    const stillTrying = (): boolean => attempt === this.attempts && this.status === 'connecting';
    const arrives = (): void => {
      if (way.faults.silent !== 'no' || server.state === 'frozen' || !process.alive) return;
      time.after(way.latency(), () => process.deliver(() => stillTrying() && (server.state === 'up' ? this.opened() : this.failed(new Error('connect ECONNREFUSED')))));
    };
    time.after(way.latency(), arrives, true);
  }

  private opened(): void {
    const socket: SimSocket = new SimSocket(this.way, {
      replied: (request, answer) => socket === this.socket && this.replied(request, answer),
      message: (channel, text) => socket === this.socket && this.emit('message', channel, text),
      closed: () => socket === this.socket && this.closed(),
    });
    this.socket = socket;
    this.status = 'ready';
    this.emit('connect');
    this.emit('ready');
  }

  private failed(error: Error): void {
    this.emit('error', error);
    this.closed();
  }

  private replied(request: number, answer: LuaReply | ServerError): void {
    const pending = this.pending.get(request);
    if (pending === undefined) return;
    this.pending.delete(request);
    if (answer instanceof ServerError) pending.reject(answer);
    else pending.resolve(answer);
  }

  /** The connection ends from our side; we hear of it in the next turn. */
  private lose(): void {
    if (this.status !== 'ready' && this.status !== 'connecting') return;
    const { socket } = this;
    socket?.cut(false);
    // What is still connecting must not open: a process that stood still hears of both at once.
    this.attempts++;
    this.way.time.after(0, () => this.way.process.deliver(() => socket === this.socket && this.closed()));
  }

  private closed(): void {
    if (this.status === 'close' || this.status === 'end') return;
    this.status = 'close';
    this.socket = undefined;
    this.attempts++;
    const waiting = [...this.pending.values()];
    this.pending.clear();
    for (const { reject } of waiting) reject(new Error('Connection is closed.'));
    this.emit('close');
    this.end();
  }

  private end(): void {
    this.status = 'end';
    this.emit('end');
  }
}
