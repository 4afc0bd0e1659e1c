/**
 * A process holds many leases, another waits for them, and the server that granted them forgets: how many leases are lost, how many
 * locks two processes trust at a time, and how long it takes until the leases are back. `npm run test:soak -- --scenario recovery:` runs
 * all; a name such as `recovery: cluster` or `recovery: single, flushed, 2000 leases` those that begin so. HOLDFAST_CLIENTS,
 * HOLDFAST_BUSY and HOLDFAST_IDLE say which clients, how many busy loops beside and how many idle processes.
 */
import { spawn, type ChildProcess } from 'node:child_process';
import { appendFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, describe, expect, it } from '@jest/globals';
import { slotOf } from '../../lib/stores/wire/cluster-connection.js';
import { RedisKeys } from '../../lib/stores/wire/redis-keys.js';
import { DrivenProcess } from '../support/driven-process.js';
import { eventually } from '../support/eventually.js';
import { startCluster, type RedisCluster } from '../support/redis-cluster.js';
import { DOWN_SOON_MS, startSentinel } from '../support/redis-sentinel.js';
import { startRedis, type RedisServer } from '../support/redis-server.js';

const LEASE_MS = 30_000;
const RECOVERY_MS = Number(process.env['HOLDFAST_RECOVERY_MS'] ?? 1_000);
/** By then each lease has come back, or its trust has ended. */
const SETTLED_WITHIN_MS = LEASE_MS;
const PROMOTED_WITHIN_MS = 30_000;
const FOLLOWS_WITHIN_MS = 60_000;

const wanted = process.env['HOLDFAST_SCENARIO'] ?? 'recovery:';
const runs = Number(process.env['HOLDFAST_RUNS'] ?? 1);
const numbersOf = (name: string, usual: string): number[] => (process.env[name] ?? usual).split(',').map(Number);
const clients = (process.env['HOLDFAST_CLIENTS'] ?? 'ioredis,redis').split(',');
const [busyLoops, idleProcesses] = [numbersOf('HOLDFAST_BUSY', '0,2,6'), numbersOf('HOLDFAST_IDLE', '0,8')];
/** Appends a line for each run, for tables over many calls. */
const log = process.env['HOLDFAST_LOG'];

type Topology = 'single' | 'sentinel' | 'cluster';
type Fault = 'restarted empty' | 'flushed' | 'failed over without the grant';

/** Servers, and what makes one of them forget, again and again. */
interface Setting {
  readonly redis: object | string;
  /** Breaks something before the leases are granted that are to be forgotten. */
  before?(): Promise<void>;
  /** Makes it forget. Resolves when a server that has forgotten serves. */
  forget(): Promise<void>;
  /** Mends what was broken, so that it can forget once more. */
  mend?(): Promise<void>;
  /** Whether the lock was on that server; without it all were. */
  isForgotten?(lockKey: string): boolean;
  stop(): Promise<void>;
}

/** A master, and a replica that is promoted without what the master granted last. The master comes back as the replica of that one. */
class Pair {
  constructor(private master: RedisServer, private replica: RedisServer) {}

  async part(): Promise<void> {
    await this.replica.pause();
    await this.master.command('CLIENT', 'KILL', 'TYPE', 'replica');
  }

  async failOver(): Promise<RedisServer> {
    await this.master.kill();
    await this.replica.resume();
    await eventually(async () => expect(((await this.replica.command('ROLE')) as unknown[])[0]).toBe('master'), PROMOTED_WITHIN_MS);
    return this.replica;
  }

  async join(follow: (replica: RedisServer, master: RedisServer) => Promise<unknown>): Promise<void> {
    [this.master, this.replica] = [this.replica, this.master];
    await this.replica.restart({ keepData: false });
    await follow(this.replica, this.master);
    await eventually(async () => expect(((await this.replica.command('ROLE')) as unknown[])[3]).toBe('connected'), FOLLOWS_WITHIN_MS);
  }
}

/** A master of a Cluster that was restarted or promoted refuses all commands for a while. */
async function serves(node: RedisServer): Promise<void> {
  await eventually(async () => expect(await node.command('CLUSTER', 'INFO')).toContain('cluster_state:ok'), PROMOTED_WITHIN_MS);
}

async function restartEmpty(server: RedisServer): Promise<void> {
  await server.kill();
  await server.restart({ keepData: false });
}

const settings: Readonly<Record<Topology, (fault: Fault) => Promise<Setting>>> = {
  async single(fault) {
    const server = await startRedis();
    return {
      redis: server.url,
      forget: async () => void (await (fault === 'flushed' ? server.command('FLUSHALL') : restartEmpty(server))),
      stop: () => server.stop(),
    };
  },
  async sentinel(fault) {
    const fails = fault !== 'flushed';
    // On a busy machine a Sentinel that waits for so short a time moves a healthy master, and a replica cannot be flushed.
    const group = await startSentinel(fails ? { downAfterMs: DOWN_SOON_MS } : {});
    const master = await group.master();
    const pair = new Pair(master, group.servers.find((server) => server !== master)!);
    return {
      redis: group.options,
      before: async () => void (fails && (await pair.part())),
      async forget() {
        if (!fails) return void (await master.command('FLUSHALL'));
        const before = await group.master();
        await pair.failOver();
        // Sentinels that found the machine standing still name nobody for 30 s.
        await group.masterAfter(before);
      },
      async mend() {
        if (!fails) return;
        await pair.join((replica, to) => replica.command('REPLICAOF', '127.0.0.1', to.port));
        await group.settled();
      },
      stop: () => group.stop(),
    };
  },
  async cluster(fault) {
    const fails = fault === 'failed over without the grant';
    const cluster: RedisCluster = await startCluster({ masters: 3, replicasEach: fails ? 1 : 0 });
    const [master] = cluster.masters as readonly [RedisServer];
    const pair = new Pair(master, cluster.replicas[0]!);
    return {
      redis: { cluster: cluster.startupNodes },
      before: async () => void (fails && (await pair.part())),
      async forget() {
        if (fault === 'flushed') return void (await master.command('FLUSHALL'));
        if (fails) return serves(await pair.failOver());
        await restartEmpty(master);
        await serves(master);
      },
      // A node of a Cluster knows from the others whom it follows.
      mend: async () => void (fails && (await pair.join(async () => {}))),
      isForgotten: (lockKey) => slotOf(lockKey) <= 5_461,
      stop: () => cluster.stop(),
    };
  },
};

const faultsOf: Readonly<Record<Topology, readonly Fault[]>> = {
  cluster: ['restarted empty', 'failed over without the grant', 'flushed'],
  sentinel: ['failed over without the grant', 'flushed'],
  single: ['restarted empty', 'flushed'],
};
/** How many leases are held, and how many of them another process waits for. */
const SIZES = [{ leases: 60, waiters: 60 }, { leases: 2_000, waiters: 200 }];
type Size = (typeof SIZES)[number];

interface Hold {
  readonly key: string;
  readonly grantedAt: number;
  readonly endedAt?: number;
  readonly isLost: boolean;
  readonly backAt?: number;
  readonly reason?: string;
}

interface Result {
  readonly run: string;
  readonly forgotten: number;
  /** Why each lease was lost. */
  readonly lost: readonly string[];
  readonly double: number;
  readonly longestDoubleMs: number;
  /** From the instant at which a server that has forgotten serves to the return of each lease. */
  readonly backMs: readonly number[];
}

const results: Result[] = [];
const started: DrivenProcess[] = [];
const loops: ChildProcess[] = [];

async function openProcess(name: string, options: object): Promise<DrivenProcess> {
  const one = new DrivenProcess('test/soak/recovery-process.mjs', {});
  started.push(one);
  await one.ready;
  await one.ask('open', { name, recoveryMs: RECOVERY_MS, leaseMs: LEASE_MS, prefix: 'lock', ...options });
  return one;
}

function beBusy(count: number): void {
  for (let n = 0; n < count; n++) loops.push(spawn(process.execPath, ['-e', 'setTimeout(() => process.exit(), 180000); (function work() { const until = Date.now() + 50; while (Date.now() < until); setImmediate(work); })()'], { stdio: 'ignore' }));
}

function endLoops(): void {
  for (const loop of loops.splice(0)) loop.kill('SIGKILL');
}

async function endAll(): Promise<void> {
  endLoops();
  await Promise.all(started.splice(0).map((one) => one.kill()));
}

function quantile(sorted: readonly number[], part: number): number {
  return Math.round(sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? NaN);
}

/** Two that trusted one lock at a time: the second was granted it before the first had ended. */
function doubles(held: readonly Hold[], granted: readonly Hold[], until: number): number[] {
  const first = new Map(held.map((hold) => [hold.key, hold]));
  return granted.flatMap(({ key, grantedAt, endedAt = until }) => {
    const overlapMs = Math.min(first.get(key)?.endedAt ?? until, endedAt) - grantedAt;
    return overlapMs > 0 ? [overlapMs] : [];
  });
}

/** The processes of a scenario, whose servers forget as often as there are runs. */
class World {
  private constructor(private readonly setting: Setting, private readonly holder: DrivenProcess, private readonly waiter: DrivenProcess) {}

  static async open(setting: Setting, client: string, idle: number): Promise<World> {
    const [holder, waiter] = await Promise.all(['holder', 'waiter', ...Array.from({ length: idle }, (_, n) => `idle${n}`)].map((name) => openProcess(name, { redis: setting.redis, client })));
    return new World(setting, holder!, waiter!);
  }

  async recover(run: string, { leases, waiters }: Size, busy: number): Promise<Result> {
    const { setting, holder, waiter } = this;
    const keys = Array.from({ length: leases }, (_, n) => `k${n}`);
    const forgotten = keys.filter((key) => setting.isForgotten?.(new RedisKeys('lock').lock(key)) ?? true);
    await setting.before?.();
    await holder.ask('hold', { keys });
    await waiter.ask('wait', { keys: keys.slice(0, waiters) });
    beBusy(busy);
    await sleep(300);
    await setting.forget();
    const since = await holder.ask<number>('now');
    const deadline = performance.now() + SETTLED_WITHIN_MS;
    while ((await holder.ask<string[]>('unsettled', { keys: forgotten })).length > 0 && performance.now() < deadline) await sleep(100);
    endLoops();
    const missing = new Set(await holder.ask<string[]>('missing', { keys }));
    const until = await holder.ask<number>('now');
    const [held, granted] = await Promise.all([holder.ask<Hold[]>('report'), waiter.ask<Hold[]>('report')]);
    const lost = held.flatMap(({ key, reason }) => (missing.has(key) ? [reason ?? `The store does not know the lease on '${key}'.`] : []));
    const overlaps = doubles(held, granted, until);
    const backMs = held.flatMap(({ backAt }) => (backAt === undefined ? [] : [Math.max(0, backAt - since)]));
    return { run, forgotten: forgotten.length, lost, double: overlaps.length, longestDoubleMs: Math.round(Math.max(0, ...overlaps)), backMs };
  }

  /** Gives all back, and has the servers as they were. */
  async mend(): Promise<void> {
    await this.setting.mend?.();
    await this.waiter.ask('giveBack');
    await this.holder.ask('giveBack');
  }
}

interface Scenario {
  readonly name: string;
  readonly topology: Topology;
  readonly fault: Fault;
  readonly size: Size;
  readonly client: string;
  readonly busy: number;
  readonly idle: number;
}

const scenarios: readonly Scenario[] = (['cluster', 'sentinel', 'single'] as const).flatMap((topology) =>
  faultsOf[topology].flatMap((fault) => SIZES.flatMap((size) => clients.flatMap((client) => busyLoops.flatMap((busy) => idleProcesses.map((idle) => ({
    name: `recovery: ${topology}, ${fault}, ${size.leases} leases, ${client}, ${busy} busy, ${idle} idle`, topology, fault, size, client, busy, idle,
  })))))));
const chosen = scenarios.filter(({ name }) => name.startsWith(wanted) || name.includes(wanted.replace(/^recovery: ?/, '')));

function line({ run, forgotten, lost, double, longestDoubleMs, backMs }: Result): string {
  const sorted = [...backMs].sort((one, other) => one - other);
  return `${run}: ${forgotten} forgotten, ${lost.length} lost, ${double} held by two (at most ${longestDoubleMs} ms), back after ${quantile(sorted, 0.5)} ms (median), ${quantile(sorted, 1)} ms (longest)${lost.slice(0, 3).map((why) => `\n  ${why}`).join('')}`;
}

describe('A store that forgets', () => {
  afterEach(endAll);
  afterAll(() => void process.stdout.write(`\n${results.map(line).join('\n')}\n`));

  it('is one of those that are asked for', () => expect(chosen).not.toEqual([]));
  it.each(chosen.map((scenario): [string, Scenario] => [scenario.name, scenario]))(
    'costs no lease and lets no two hold a lock in %s',
    async (name, { topology, fault, size, client, busy, idle }) => {
      const setting = await settings[topology](fault);
      const found: Result[] = [];
      try {
        const world = await World.open(setting, client, idle);
        for (let n = 1; n <= runs; n++) {
          const result = await world.recover(`${name} #${n}`, size, busy);
          found.push(result);
          if (log !== undefined) appendFileSync(log, `${line(result)}\n`);
          if (n < runs) await world.mend();
        }
        expect(found.filter(({ lost, double }) => lost.length + double > 0).map(line)).toEqual([]);
      } finally {
        results.push(...found);
        await endAll();
        await setting.stop();
      }
    },
    180_000 * runs,
  );
});
