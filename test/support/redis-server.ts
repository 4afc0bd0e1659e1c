/**
 * Redis servers of a test's own, on free ports of 127.0.0.1: they may be flushed, stopped, killed and restarted.
 *
 *   const redis = await startRedis();
 *   await redis.client().set('a', 1);
 *   await redis.pause();                        // answers nobody until resume()
 *   await redis.restart({ keepData: false });   // same port, empty
 *   await redis.stop();                         // or `await using redis = await startRedis()`
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis, type RedisOptions } from 'ioredis';
import { freePort } from './free-port.js';
import { majorVersion } from './redis-binary.js';
import { startProcess, type ServerProcess } from './server-process.js';

export interface StartOptions {
  /** Further arguments of the server, e.g. ['--maxmemory', '2mb']; they win over ours. */
  readonly args?: readonly string[];
  readonly port?: number;
  /** Further variables of the server's environment. */
  readonly env?: NodeJS.ProcessEnv;
}

const READY_WITHIN_MS = 15_000;
const STOPS_WITHIN_MS = 3_000;

export class RedisServer {
  readonly url: string;
  private readonly clients = new Set<Redis>();
  private process: ServerProcess | undefined;

  constructor(
    readonly port: number,
    readonly folder: string,
    private readonly args: readonly string[],
    /** A configuration file, which a Sentinel cannot do without. */
    private readonly configFile?: string,
    private readonly env: NodeJS.ProcessEnv = {},
  ) {
    this.url = `redis://127.0.0.1:${port}`;
  }

  get pid(): number {
    return this.process?.pid ?? 0;
  }

  /** undefined while it runs. */
  get exitCode(): number | undefined {
    return this.process?.exitCode;
  }

  /** What the present process has printed. */
  get logs(): string {
    return this.process?.logs ?? '';
  }

  /** A connection that the server closes when it is stopped for good. */
  client(options: RedisOptions = {}): Redis {
    const client = new Redis({ maxRetriesPerRequest: 1, disconnectTimeout: 100, ...options, host: '127.0.0.1', port: this.port });
    client.on('error', () => undefined);
    this.clients.add(client);
    client.once('end', () => this.clients.delete(client));
    return client;
  }

  /** One command over a connection of its own. */
  async command(name: string, ...args: (string | number)[]): Promise<unknown> {
    const client = this.client();
    try {
      return await client.call(name, ...args);
    } finally {
      client.disconnect();
    }
  }

  /** Starts it where it is down, this time with `more` arguments; resolves when it serves commands, its data loaded. */
  async start(more: readonly string[] = []): Promise<void> {
    const file = this.configFile === undefined ? [] : [this.configFile];
    const started = await startProcess([...file, '--port', String(this.port), ...this.args, ...more], this.folder, this.env);
    this.process = started;
    const deadline = Date.now() + READY_WITHIN_MS;
    while (!(await answers(this.port))) {
      if (started.exitCode !== undefined) throw new Error(`redis-server ended with ${started.exitCode}:\n${started.logs}`);
      if (Date.now() > deadline) throw new Error(`redis-server on port ${this.port} did not answer in ${READY_WITHIN_MS} ms:\n${started.logs}`);
      await sleep(3);
    }
  }

  /** The end of it, its files and its connections; at once, since there is nothing to keep. */
  async stop(): Promise<void> {
    for (const client of this.clients) client.disconnect();
    await this.kill();
    await rm(this.folder, { recursive: true, force: true });
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }

  /** Takes it down in order; its files and its port stay for `start()`. */
  async end(): Promise<void> {
    if (this.process === undefined || this.process.exitCode !== undefined) return;
    await this.process.signal('SIGCONT');
    await this.process.signal('SIGTERM');
    const ended = await Promise.race([this.process.exited.then(() => true), sleep(STOPS_WITHIN_MS, false, { ref: false })]);
    if (!ended) await this.kill();
  }

  /** SIGKILL: it has no time for anything. */
  async kill(): Promise<void> {
    if (this.process === undefined || this.process.exitCode !== undefined) return;
    await this.process.signal('SIGKILL');
    await this.process.exited;
  }

  /** SIGSTOP: connections stay open and nobody answers. */
  async pause(): Promise<void> {
    await this.process?.signal('SIGSTOP');
  }

  async resume(): Promise<void> {
    await this.process?.signal('SIGCONT');
  }

  /** Down and up again on the same port, also after `kill()`; keeps data only if told to, by a snapshot of a live server. */
  async restart({ keepData }: { readonly keepData: boolean }): Promise<void> {
    const running = this.exitCode === undefined;
    if (keepData && running) await this.command('SAVE');
    await this.end();
    if (!keepData) {
      for (const name of ['dump.rdb', 'appendonlydir']) await rm(join(this.folder, name), { recursive: true, force: true });
    }
    await this.start();
  }
}

export async function startRedis({ args = [], port, env }: StartOptions = {}): Promise<RedisServer> {
  for (let attempt = 1; ; attempt++) {
    const folder = await mkdtemp(join(tmpdir(), 'holdfast-redis-'));
    // Before version 7 it is always allowed.
    const debug = (await majorVersion()) >= 7 ? ['--enable-debug-command', 'yes'] : [];
    const ours = ['--bind', '127.0.0.1', '--dir', folder, '--save', '', '--appendonly', 'no', ...debug];
    const server = new RedisServer(port ?? (await freePort()), folder, [...ours, ...args], undefined, env);
    try {
      await server.start();
      return server;
    } catch (error) {
      const portTaken = server.logs.includes('Address already in use');
      await server.stop();
      if (!portTaken || port !== undefined || attempt === 5) throw error;
    }
  }
}

export type Masters = RedisServer[] & AsyncDisposable & { stop(): Promise<void> };

/** So many masters that know nothing of each other, as Redlock wants them. */
export async function startMasters(count: number, options: Omit<StartOptions, 'port'> = {}): Promise<Masters> {
  const masters = await Promise.all(Array.from({ length: count }, () => startRedis(options)));
  const stop = async (): Promise<void> => void (await Promise.all(masters.map((master) => master.stop())));
  return Object.assign(masters, { stop, [Symbol.asyncDispose]: stop });
}

/** Whether it serves commands; one that asks for a password or waits for its master does. */
function answers(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => socket.write('PING\r\n'));
    const settle = (answer: boolean) => {
      socket.destroy();
      resolve(answer);
    };
    socket.setTimeout(1_000, () => settle(false));
    socket.on('error', () => settle(false));
    socket.on('close', () => settle(false));
    socket.on('data', (reply) => settle(/^(\+PONG|-NOAUTH|-MASTERDOWN)/.test(reply.toString())));
  });
}
