/** Faults of a single Redis, and of the network to it. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { FlakyProxy } from '../../support/flaky-proxy.js';
import type { RedisServer } from '../../support/redis-server.js';
import { usualPlans } from './plans.js';
import { steadyHolder, type Scenario, type Stage } from './fault-run.js';

function serverOf({ topology }: Stage): RedisServer {
  return topology.servers[0] as RedisServer;
}

function proxiesOf({ topology }: Stage): FlakyProxy[] {
  return topology.proxies.flat();
}

async function repeat(forMs: number, everyMs: number, act: () => Promise<unknown>): Promise<void> {
  const until = performance.now() + forMs;
  while (performance.now() < until) {
    await act();
    await sleep(everyMs);
  }
}

/** A network that is away for so many leases: connections are reset and refused, or bytes just do not arrive. */
async function away(proxies: readonly FlakyProxy[], ms: number, silent: boolean): Promise<void> {
  await Promise.all(proxies.map((proxy) => (silent ? proxy.freeze() : proxy.cut())));
  await sleep(ms);
  await Promise.all(proxies.map((proxy) => (silent ? proxy.thaw() : proxy.heal())));
}

/** The bound of the docs: a store that lost its memory is noticed at the next renewal. */
const noticedWithinMs = (leaseMs: number): number => leaseMs / 3 + 400;

const server: readonly Scenario[] = [
  {
    name: 'server killed and restarted empty',
    topology: 'single',
    losses: 'during',
    overlapMs: noticedWithinMs(1_000),
    fault: async (stage) => {
      await serverOf(stage).kill();
      await sleep(stage.random() * 600);
      await serverOf(stage).restart({ keepData: false });
    },
  },
  {
    name: 'server frozen for two leases',
    topology: 'single',
    losses: 'during',
    fault: async (stage) => {
      await serverOf(stage).pause();
      await sleep(2 * stage.leaseMs);
      await serverOf(stage).resume();
    },
  },
  {
    name: 'server frozen for half a lease',
    topology: 'single',
    losses: 'none',
    leaseMs: 2_000,
    fault: async (stage) => {
      await serverOf(stage).pause();
      await sleep(0.5 * stage.leaseMs);
      await serverOf(stage).resume();
    },
  },
  {
    name: 'scripts flushed every 300 ms',
    topology: 'single',
    losses: 'none',
    fault: (stage) => repeat(1_800, 300, () => serverOf(stage).command('SCRIPT', 'FLUSH')),
  },
  {
    name: 'busy with a script of somebody else',
    topology: 'single',
    losses: 'during',
    serverArgs: ['--lua-time-limit', '100'],
    fault: async (stage) => {
      const endless = serverOf(stage).client();
      const rescue = serverOf(stage).client();
      await rescue.ping();
      const running = endless.eval('while true do end', 0).catch(() => {});
      await sleep(400 + stage.random() * 800);
      await rescue.script('KILL');
      await running;
      endless.disconnect();
      rescue.disconnect();
    },
  },
  {
    name: 'out of memory',
    topology: 'single',
    losses: 'during',
    fault: async (stage) => {
      const filler = serverOf(stage).client();
      const used = Number(/used_memory:(\d+)/.exec(await filler.info('memory'))?.[1]);
      await filler.config('SET', 'maxmemory', String(used + 400_000));
      for (let n = 0; n < 5_000; n++) {
        if ((await filler.set(`filler:${n}`, 'x'.repeat(1_000)).catch(() => 'full')) === 'full') break;
      }
      await sleep(700 + stage.random() * 800);
      await filler.del(...(await filler.keys('filler:*')));
      filler.disconnect();
    },
  },
  {
    name: 'read-only for a while',
    topology: 'single',
    losses: 'during',
    fault: async (stage) => {
      await serverOf(stage).command('REPLICAOF', '127.0.0.1', 1);
      await sleep(500 + stage.random() * 1_500);
      await serverOf(stage).command('REPLICAOF', 'NO', 'ONE');
    },
  },
  {
    name: 'loading its data after a restart',
    topology: 'single',
    losses: 'during',
    serverArgs: ['--key-load-delay', '0', '--loading-process-events-interval-bytes', '1024'],
    fault: async (stage) => {
      const redis = serverOf(stage);
      // 300 keys at 4 ms each: a load that takes its time, as that of a big file does.
      await redis.command('DEBUG', 'POPULATE', 300, 'filler', 200);
      await redis.command('SAVE');
      await redis.kill();
      await redis.start(['--key-load-delay', '4000']);
    },
  },
  // Held and wanted all the time: no waiter may sleep on a free lock for longer than until it asks again.
  ...[2_400, 10_000].map(
    (forMs): Scenario => ({
      name: `connections of subscribers killed every 300 ms for ${forMs / 1_000} s`,
      topology: 'single',
      losses: 'none',
      idleInside: true,
      long: forMs > 5_000,
      fault: (stage) => repeat(forMs, 300, () => serverOf(stage).command('CLIENT', 'KILL', 'TYPE', 'pubsub')),
    }),
  ),
  {
    name: 'all connections killed every 500 ms',
    topology: 'single',
    losses: 'none',
    leaseMs: 1_500,
    fault: (stage) => repeat(2_500, 500, () => serverOf(stage).command('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')),
  },
  {
    name: 'flushed by an operator',
    topology: 'single',
    losses: 'during',
    overlapMs: noticedWithinMs(1_000),
    fault: (stage) => repeat(1_200, 400, () => serverOf(stage).command('FLUSHALL')),
  },
];

const network: readonly Scenario[] = [
  ...[0.5, 2.5].flatMap((leases): Scenario[] => [
    {
      name: `network gone for all for ${leases} leases`,
      topology: 'single',
      proxied: true,
      losses: leases < 1 ? 'none' : 'during',
      leaseMs: leases < 1 ? 2_000 : 1_000,
      fault: (stage) => away(proxiesOf(stage), leases * stage.leaseMs, stage.random() < 0.5),
    },
    {
      name: `network gone for the holder alone for ${leases} leases`,
      topology: 'single',
      proxied: true,
      losses: leases < 1 ? 'none' : 'during',
      leaseMs: leases < 1 ? 2_000 : 1_000,
      fault: async (stage) => away(stage.topology.proxies[await steadyHolder(stage)] ?? [], leases * stage.leaseMs, stage.random() < 0.5),
    },
  ]),
  {
    name: 'replies dropped, then connections reset',
    topology: 'single',
    proxied: true,
    losses: 'during',
    fault: async (stage) => {
      for (let round = 0; round < 4; round++) {
        for (const proxy of proxiesOf(stage)) proxy.dropReplies(true);
        await sleep(50 + stage.random() * 250);
        for (const proxy of proxiesOf(stage)) {
          proxy.dropReplies(false);
          proxy.resetConnections();
        }
        await sleep(stage.random() * 300);
      }
    },
  },
  {
    name: 'replies to the holder dropped for longer than a lease',
    topology: 'single',
    proxied: true,
    losses: 'during',
    fault: async (stage) => {
      const proxies = stage.topology.proxies[await steadyHolder(stage)] ?? [];
      for (const proxy of proxies) proxy.dropReplies(true);
      await sleep(1.5 * stage.leaseMs);
      for (const proxy of proxies) {
        proxy.dropReplies(false);
        proxy.resetConnections();
      }
    },
  },
  {
    name: 'half-open subscribers',
    topology: 'single',
    proxied: true,
    losses: 'none',
    idleInside: true,
    fault: async (stage) => {
      for (const proxy of proxiesOf(stage)) proxy.freezeSubscribers();
      await sleep(2_500);
    },
  },
  {
    name: 'a slow network that jitters',
    topology: 'single',
    proxied: true,
    losses: 'none',
    leaseMs: 1_500,
    fault: async (stage) => {
      for (let round = 0; round < 8; round++) {
        for (const proxy of proxiesOf(stage)) proxy.delay(stage.random() * 120);
        await sleep(200);
      }
      for (const proxy of proxiesOf(stage)) proxy.delay(0);
    },
  },
];

const GRACE_MS = 1_500;

const processes: readonly Scenario[] = [
  {
    name: 'the holder stopped for two leases, others at work',
    topology: 'single',
    losses: 'during',
    fault: async (stage) => {
      const holder = stage.crew[await steadyHolder(stage)];
      holder?.pause();
      await sleep(2 * stage.leaseMs);
      holder?.resume();
    },
  },
  {
    name: 'the holder stopped until after its lease, and not beyond its grace',
    topology: 'single',
    losses: 'during',
    noLateWrites: true,
    leaseMs: 1_500,
    options: { graceMs: GRACE_MS },
    plans: (process, leaseMs) => usualPlans(process, leaseMs).map((plan) => (plan.key === 'long' ? { ...plan, stepMs: 40 } : plan)),
    resumesWithinMs: 2_000 + GRACE_MS,
    idleMs: 1_000 + GRACE_MS,
    fault: async (stage) => {
      const holder = stage.crew[await steadyHolder(stage)];
      holder?.pause();
      // At least 0.6 of a lease is left after a renewal.
      await sleep(0.6 * stage.leaseMs + 0.85 * GRACE_MS);
      holder?.resume();
    },
  },
  {
    name: 'processes stopped by turns for parts of a lease',
    topology: 'single',
    losses: 'during',
    fault: async (stage) => {
      for (let round = 0; round < 8; round++) {
        const member = stage.crew[Math.floor(stage.random() * stage.crew.length)];
        member?.pause();
        await sleep(50 + stage.random() * 1.3 * stage.leaseMs * 0.3);
        member?.resume();
        await sleep(stage.random() * 50);
      }
    },
  },
  {
    name: 'the wall clock of a process stepped an hour back and forth',
    topology: 'single',
    losses: 'none',
    fault: async (stage) => {
      for (const hours of [1, -1, 0]) {
        await stage.crew[0]?.stepClock(hours * 3_600_000);
        await sleep(500);
      }
    },
  },
];

export const singleScenarios: readonly Scenario[] = [...server, ...network, ...processes];
