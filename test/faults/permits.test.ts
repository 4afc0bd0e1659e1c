/**
 * Processes that share the permits of one lock on a real server, while some of them are killed or stopped, connections break and
 * replies are dropped. HOLDFAST_ROUNDS says how many rounds of faults there are: 18 take half a minute.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { startFlakyProxy, type FlakyProxy } from '../support/flaky-proxy.js';
import { startRedis, type RedisServer } from '../support/redis-server.js';
import { startWorker, type Worker } from '../support/worker.js';

const KEY = 'smtp';
const PERMITS = 4;
const CALLERS = 16;
const LEASE_MS = 1_000;
const CALM_MS = 4_000;
const ROUNDS = Number(process.env.HOLDFAST_ROUNDS ?? 3);

/** A time in which one holder was sure of its lease, in ms of the machine's monotonic clock, which all its processes share. */
interface Sure {
  readonly name: string;
  readonly from: number;
  readonly until: number;
  readonly fence: number;
}

describe('Processes that share permits', () => {
  let redis: RedisServer;
  let notes: RedisServer;
  const workers: Worker[] = [];
  const networks: FlakyProxy[] = [];

  beforeAll(async () => {
    [redis, notes] = [await startRedis(), await startRedis()];
  });
  afterEach(async () => {
    await Promise.all(workers.splice(0).map((worker) => worker.kill()));
    await Promise.all(networks.splice(0).map((network) => network.stop()));
    await Promise.all([redis, notes].map((server) => server.command('FLUSHALL')));
  });
  afterAll(async () => {
    await Promise.all([redis.stop(), notes.stop()]);
  });

  /** A process whose callers take permits from now on; `holds` is how often they had one, once they were told to stop. */
  async function start(): Promise<{ worker: Worker; network: FlakyProxy; holds: Promise<number> }> {
    const network = await startFlakyProxy(redis.port);
    networks.push(network);
    const worker = await startWorker({ redis: network.url });
    workers.push(worker);
    const holds = worker.takesPermits({ key: KEY, permits: PERMITS, callers: CALLERS, leaseMs: LEASE_MS, at: notes.url });
    holds.catch(() => undefined); // of one that is killed
    return { worker, network, holds };
  }

  /** What all holders noted, also those who were killed. */
  async function noted(): Promise<Sure[]> {
    const all = await notes.client().hgetall('holds');
    return Object.entries(all).map(([name, text]) => {
      const [from = 0, until = 0, fence = 0] = text.split(' ').map(Number);
      return { name, from, until, fence };
    });
  }

  function expectNoMoreThanPermits(holds: readonly Sure[]): void {
    let open: Sure[] = [];
    for (const next of [...holds].sort((one, other) => one.from - other.from)) {
      open = open.filter(({ until }) => until > next.from);
      open.push(next);
      expect(open.length <= PERMITS ? [] : open).toEqual([]);
    }
    expect(new Set(holds.map(({ fence }) => fence)).size).toBe(holds.length);
  }

  async function scriptsRun(): Promise<number> {
    const stats = String(await redis.command('INFO', 'commandstats'));
    return [...stats.matchAll(/^cmdstat_eval(?:sha)?:calls=(\d+)/gm)].reduce((sum, [, calls]) => sum + Number(calls), 0);
  }

  async function allCanBeHad(withinMs: number): Promise<void> {
    const worker = await startWorker({ redis: redis.url });
    workers.push(worker);
    const leases = await Promise.all(Array.from({ length: PERMITS }, () => worker.hold(KEY, { permits: PERMITS, waitMs: withinMs })));
    await expect(worker.hold(KEY, { permits: PERMITS, waitMs: 0 })).rejects.toMatchObject({ code: 'LOCK_TIMEOUT' });
    for (const lease of leases) expect(await lease.release()).toBe('released');
  }

  it('are served alike, at two commands a hold or fewer, and never more are inside than there are permits', async () => {
    const fleet = await Promise.all(Array.from({ length: 4 }, start));
    const before = await scriptsRun();
    await sleep(CALM_MS);
    const ran = (await scriptsRun()) - before;
    const during = (await noted()).length;
    await Promise.all(fleet.map(({ worker }) => worker.stops()));
    const holds = await Promise.all(fleet.map((each) => each.holds));
    expectNoMoreThanPermits(await noted());
    expect(Math.min(...holds)).toBeGreaterThan(0);
    expect({ holds, fair: Math.max(...holds) / Math.min(...holds) <= 1.5 }).toMatchObject({ fair: true });
    // Heartbeats of 16 places and renewals come beside the two of each hold.
    expect(ran / during).toBeLessThanOrEqual(2.5);
    await allCanBeHad(LEASE_MS);
  });

  it('never have more inside than there are permits when some are killed or stopped, connections break and replies are dropped, and lose no permit', async () => {
    const fleet = await Promise.all(Array.from({ length: 4 }, start));
    for (let round = 0; round < ROUNDS; round++) {
      await sleep(400);
      const [dead, asleep, deaf] = fleet.splice(0, 3);
      deaf!.network.dropReplies(true);
      asleep!.worker.pause();
      await dead!.worker.kill();
      await redis.command('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
      fleet.push(await start());
      await sleep(LEASE_MS);
      asleep!.worker.resume();
      await redis.command('CLIENT', 'KILL', 'TYPE', 'pubsub');
      // The connections go with their replies, because no network loses bytes in the middle of a connection.
      deaf!.network.resetConnections();
      deaf!.network.dropReplies(false);
      fleet.push(asleep!, deaf!);
    }
    await sleep(400);
    await Promise.all(fleet.map(({ worker }) => worker.stops()));
    const holds = await Promise.all(fleet.map((each) => each.holds));
    expect(Math.min(...holds)).toBeGreaterThan(0);
    expectNoMoreThanPermits(await noted());
    await allCanBeHad(2 * LEASE_MS);
    expect((await redis.client().keys('lock*')).filter((key) => /:l:|:q:/.test(key) && key.endsWith(`:${KEY}`))).toEqual([]);
  }, 60_000 + 4_000 * ROUNDS);
});
