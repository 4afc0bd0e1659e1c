/**
 * A connection to one server, made anew whenever it ends: to an address that is fixed, or that a Sentinel names anew each time.
 *
 *     waiting ──start()──▶ connecting ──▶ open ──▶ pause ──▶ connecting …
 *                               └──(refused)───────▲
 */
import { EventEmitter } from 'node:events';
import type { Clock, Timer } from '../../../core/port/clock.js';
import { NO_MASTER, reconnectPause, type Connection, type ConnectionState, type EvalAndWait, type Sender } from '../connections.js';
import { NOT_CONNECTED } from '../store-failure.js';
import { LiveConnection } from './live-connection.js';
import type { ClientSource } from './node-redis-client.js';
import type { Silence } from './silence.js';

/** Gives the source of clients of the server that is to be connected to now. Rejects when it is not known. */
export type Locate = () => Promise<ClientSource>;

export interface Needs {
  readonly clock: Clock;
  /** How long a command may take, in ms (commandTimeoutMs). */
  readonly timeoutMs: number;
}

export class SingleConnection implements Connection, Sender {
  readonly state: ConnectionState & { isOpen: boolean } = { isOpen: false, isAstray: false };
  readonly sender: Sender = this;
  /** The source of the server that the present connection leads to. */
  source: ClientSource | undefined;
  private live: LiveConnection | undefined;
  private readonly events = new EventEmitter();
  private pause: Timer | undefined;
  /** Lets the process end, which is kept alive without a connection as it is by the socket of one. */
  private letGo: (() => void) | undefined;
  private started = false;
  private closed = false;

  constructor(
    private readonly locate: Locate,
    private readonly needs: Needs,
    /** Of a node of a Cluster, whose silence nobody else notices. */
    private readonly silence?: Silence,
  ) {
    this.events.setMaxListeners(0);
  }

  async start(): Promise<void> {
    if (this.started || this.closed) return;
    this.started = true;
    await this.connect();
  }

  evalsha(sha1: string, numberOfKeys: number, ...rest: (string | number)[]): Promise<unknown> {
    return this.send(['EVALSHA', sha1, String(numberOfKeys), ...rest.map(String)]);
  }

  eval(source: string, numberOfKeys: number, ...rest: (string | number)[]): Promise<unknown> {
    return this.send(['EVAL', source, String(numberOfKeys), ...rest.map(String)]);
  }

  call(command: string, ...args: (string | number)[]): Promise<unknown> {
    return this.send([command, ...args.map(String)]);
  }

  /** Commands that are sent in one turn of the event loop follow each other without another in between. */
  send(args: string[]): Promise<unknown> {
    const { live, silence } = this;
    if (!this.state.isOpen || live === undefined) return Promise.reject(new Error(NOT_CONNECTED));
    silence?.asked();
    const sent = live.client.sendCommand(args);
    sent.then(silence?.heard, this.refused);
    return sent;
  }

  async evalAndWait({ source, keys, args, replicas, waitMs }: EvalAndWait): Promise<readonly [unknown, unknown]> {
    return Promise.all([this.eval(source, keys.length, ...keys, ...args), this.call('WAIT', replicas, waitMs)]);
  }

  drop(): void {
    if (this.state.isOpen) this.live?.end();
  }

  onOpen(listener: () => void): () => void {
    return this.on('open', listener);
  }

  onEnd(listener: () => void): void {
    this.on('end', listener);
  }

  onError(listener: (error: Error) => void): () => void {
    return this.on('problem', listener);
  }

  close(): void {
    this.closed = true;
    if (this.pause !== undefined) this.needs.clock.clearTimer(this.pause);
    this.silence?.close();
    this.live?.end();
    this.needsNoProcess();
  }

  private needsNoProcess(): void {
    this.letGo?.();
    this.letGo = undefined;
  }

  private on(event: string, listener: (...args: never[]) => void): () => void {
    const heard = listener as (...args: unknown[]) => void;
    this.events.on(event, heard);
    return () => void this.events.off(event, heard);
  }

  private async connect(): Promise<void> {
    try {
      const source = await this.locate();
      if (this.closed) return;
      const { timeoutMs, clock } = this.needs;
      const live = new LiveConnection(source, timeoutMs, clock, (error) => this.live === live && this.lost(error, reconnectPause(true)));
      this.live = live;
      this.source = source;
      await live.open();
      this.state.isOpen = true;
      this.needsNoProcess();
      this.events.emit('open');
    } catch (error) {
      this.lost(error as Error, reconnectPause(false));
      throw error;
    }
  }

  private lost(error: Error, retryMs: number): void {
    const { clock } = this.needs;
    this.live = undefined;
    this.state.isOpen = false;
    this.silence?.reset();
    if (!this.closed) this.events.emit('problem', error);
    if (this.pause !== undefined) clock.clearTimer(this.pause);
    if (!this.closed) {
      this.letGo ??= clock.keepAlive();
      // connect() tells its error to those who listen.
      this.pause = clock.setTimer(() => void this.connect().catch(() => {}), retryMs);
    }
    this.events.emit('end');
  }

  /** The server became a replica, so a new connection is made, which finds the new master. */
  private readonly refused = (error: unknown): void => {
    this.silence?.heard();
    if (NO_MASTER.test(String((error as { message?: unknown }).message))) this.drop();
  };
}
