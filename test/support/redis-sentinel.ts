/** A master with replicas, watched by Sentinels, of a test's own. */
import { mkdtemp, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { tmpdir } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis, type RedisOptions } from 'ioredis';
import { freePort } from './free-port.js';
import { RedisServer, startRedis } from './redis-server.js';

export interface SentinelShape {
  readonly replicas?: number;
  readonly sentinels?: number;
  /** How many Sentinels must hold the master for dead. */
  readonly quorum?: number;
  /**
   * How long a server is silent before it is held for dead. By default so long that a machine that stands still for a moment
   * moves no master. Below a second it is too short where the old master stays alive: Sentinel connects anew at most once a
   * second, so it holds the new master for dead and moves back and forth.
   */
  readonly downAfterMs?: number;
  readonly args?: readonly string[];
}

const NAME = 'holdfast';
const DOWN_AFTER_MS = 30_000;
/** For tests in which a master dies and stays dead. */
export const DOWN_SOON_MS = 300;
/** A Sentinel that finds its machine standing still does nothing for 30 s (its TILT mode), and may find it once more. */
const AGREES_WITHIN_MS = 90_000;
/** A Sentinel gives a failover up after two seconds, which a busy machine may take: then it is ordered again. */
const FAILOVER_WITHIN_MS = 4_000;

export class SentinelGroup {
  private readonly clients: Redis[] = [];

  constructor(readonly servers: readonly RedisServer[], readonly sentinels: readonly RedisServer[]) {}

  /** For the `redis` option and ioredis. */
  get options(): RedisOptions {
    return { sentinels: this.sentinels.map(({ port }) => ({ host: '127.0.0.1', port })), name: NAME };
  }

  client(options: RedisOptions = {}): Redis {
    const client = new Redis({ ...this.options, ...options });
    client.on('error', () => undefined);
    this.clients.push(client);
    return client;
  }

  /** The server that the Sentinels send clients to now. */
  async master(): Promise<RedisServer> {
    const [, port] = (await this.sentinel().command('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', NAME)) as [string, string];
    const server = this.servers.find((each) => each.port === Number(port));
    if (server === undefined) throw new Error(`Sentinel names a master on port ${port}, which is none of ours`);
    return server;
  }

  /** Makes the Sentinels move the master away without a fault; the new one, already in charge. */
  async failover(): Promise<RedisServer> {
    const before = await this.master();
    let orderedAt = -Infinity;
    return this.masterAfter(before, async () => {
      if (Date.now() - orderedAt < FAILOVER_WITHIN_MS) return;
      orderedAt = Date.now();
      await this.sentinel().command('SENTINEL', 'FAILOVER', NAME);
    });
  }

  /** Waits until a server other than `before` is the master and says so itself. */
  async masterAfter(before: RedisServer, urge: () => Promise<void> = async () => {}): Promise<RedisServer> {
    let now = before;
    await until('another master is in charge', async () => {
      await urge();
      now = await this.master();
      return now !== before && ((await now.command('ROLE')) as unknown[])[0] === 'master';
    });
    return now;
  }

  /** Waits until the Sentinels see every replica follow the master. */
  async settled(): Promise<void> {
    for (const sentinel of this.sentinels) await until('Sentinels know everybody', () => knows(sentinel, this.servers.length - 1, this.sentinels.length));
  }

  async stop(): Promise<void> {
    for (const client of this.clients) client.disconnect();
    await Promise.all([...this.sentinels, ...this.servers].map((server) => server.stop()));
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }

  private sentinel(): RedisServer {
    const up = this.sentinels.find(({ exitCode }) => exitCode === undefined);
    if (up === undefined) throw new Error('every Sentinel is down');
    return up;
  }
}

export async function startSentinel({ replicas = 1, sentinels = 1, quorum = 1, downAfterMs = DOWN_AFTER_MS, args = [] }: SentinelShape = {}): Promise<SentinelGroup> {
  const common = ['--repl-diskless-sync-delay', '0', '--repl-ping-replica-period', '1', ...args];
  const master = await startRedis({ args: common });
  const following = [...common, '--replicaof', '127.0.0.1', String(master.port)];
  const servers = [master, ...(await Promise.all(Array.from({ length: replicas }, () => startRedis({ args: following }))))];
  const watchers = await Promise.all(Array.from({ length: sentinels }, () => startWatcher(master.port, quorum, downAfterMs)));
  const group = new SentinelGroup(servers, watchers);
  try {
    await until('replicas follow', async () => ((await master.command('ROLE')) as unknown[][])[2]?.length === replicas);
    await group.settled();
    return group;
  } catch (error) {
    await group.stop();
    throw error;
  }
}

async function startWatcher(masterPort: number, quorum: number, downAfterMs: number): Promise<RedisServer> {
  const folder = await mkdtemp(join(tmpdir(), 'holdfast-sentinel-'));
  const file = join(folder, 'sentinel.conf');
  const lines = [
    'bind 127.0.0.1',
    `dir ${folder}`,
    `sentinel monitor ${NAME} 127.0.0.1 ${masterPort} ${quorum}`,
    `sentinel down-after-milliseconds ${NAME} ${downAfterMs}`,
    `sentinel failover-timeout ${NAME} 2000`,
    `sentinel parallel-syncs ${NAME} 5`,
  ];
  await writeFile(file, `${lines.join('\n')}\n`);
  const watcher = new RedisServer(await freePort(), folder, ['--sentinel'], file);
  await watcher.start();
  return watcher;
}

/** Whether a Sentinel sees the replicas in working order, and the other Sentinels. */
async function knows(watcher: RedisServer, replicas: number, sentinels: number): Promise<boolean> {
  const seen = (await watcher.command('SENTINEL', 'REPLICAS', NAME)) as unknown[];
  const others = (await watcher.command('SENTINEL', 'SENTINELS', NAME)) as unknown[];
  const healthy = seen.filter((replica) => {
    const text = (Array.isArray(replica) ? replica : Object.entries(replica as object).flat()).join(' ');
    return /flags slave( |$)/.test(text) && text.includes('master-link-status ok');
  });
  return healthy.length === replicas && others.length === sentinels - 1;
}

async function until(what: string, holds: () => Promise<boolean>): Promise<void> {
  const deadline = Date.now() + AGREES_WITHIN_MS;
  while (!(await holds().catch(() => false))) {
    if (Date.now() > deadline) throw new Error(`Sentinel: not after ${AGREES_WITHIN_MS} ms: ${what}`);
    await sleep(20);
  }
}
