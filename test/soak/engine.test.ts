/** What the lock engine promises to many real processes, at sizes that take longer than the other tests may. */
import { afterEach, describe, expect, it } from '@jest/globals';
import { checkHistory } from '../model/history-checker.js';
import type { HistoryEvent } from '../model/history.js';
import { DrivenProcess } from '../support/driven-process.js';
import { eventually } from '../support/eventually.js';
import { startRedis } from '../support/redis-server.js';
import { forAll } from '../support/started.js';
import { startWorker, type Worker } from '../support/worker.js';

/** After so much silence a waiter has lost its place, and so long is a grant at first that it got before. */
const [WAITER_LEASE_MS, FIRST_LEASE_MS] = [2_500, 1_500];
/** A machine with two cores and nine processes is late at times. */
const LATE_MS = 1_000;

const started: DrivenProcess[] = [];

const redis = forAll(startRedis);
afterEach(async () => {
  await Promise.all(started.splice(0).map((worker) => worker.kill()));
  await redis.command('FLUSHALL');
});

async function atThePort(name: string): Promise<DrivenProcess> {
  const one = new DrivenProcess('test/soak/port-process.mjs', { url: redis.url, name });
  started.push(one);
  await one.ready;
  return one;
}

const fourAtThePort = (): Promise<DrivenProcess[]> => Promise.all(['a', 'b', 'c', 'd'].map((name) => atThePort(name)));

async function application(): Promise<Worker> {
  const worker = await startWorker({ redis: redis.url });
  started.push(worker);
  return worker;
}

async function scriptCalls(): Promise<number> {
  const stats = await redis.client().info('commandstats');
  return [...stats.matchAll(/cmdstat_eval(?:sha)?:calls=(\d+)/g)].reduce((sum, [, calls]) => sum + Number(calls), 0);
}

const lockKeys = async (): Promise<string[]> => redis.client().keys('{lock:*}:[lq]:*');
const sum = (numbers: readonly number[]): number => numbers.reduce((one, other) => one + other, 0);

describe('Requests of four processes, each with a place of its own', () => {
  it.each([1, 10, 100, 1_000])('cost at most 2.1 commands for each critical section with %i waiters, heartbeats apart', async (waiters) => {
    const processes = await fourAtThePort();
    const key = 'order:hot';
    await redis.command('CONFIG', 'RESETSTAT');
    await processes[0]!.ask('hold', { key });
    const share = (at: number): number => Math.floor((waiters + at) / processes.length);
    await Promise.all(processes.map((worker, at) => worker.ask('line', { key, count: share(at) })));
    await processes[0]!.ask('release', { key });
    const heartbeats = sum(await Promise.all(processes.map((worker) => worker.ask<number>('served', { key }))));
    expect(sum(processes.map((_, at) => share(at)))).toBe(waiters);
    const commands = (await scriptCalls()) - heartbeats;
    expect(commands).toBeGreaterThanOrEqual(waiters);
    expect(commands / (waiters + 1)).toBeLessThanOrEqual(2.1);
  }, 60_000);

  it('that were killed, 500 of them, delay a live one behind them by a waiter lease and a first lease at most', async () => {
    const processes = await fourAtThePort();
    const holder = await application();
    const lease = await holder.hold('k');
    await Promise.all(processes.map((worker) => worker.ask('line', { key: 'k', count: 125 })));
    const live = await application();
    const served = live.hold('k', { waitMs: 60_000 });
    await eventually(async () => expect((await holder.inspect('k')).waiters).toHaveLength(501));
    await Promise.all(processes.map((worker) => worker.kill()));
    const since = performance.now();
    await lease.release();
    await (await served).release();
    expect(performance.now() - since).toBeLessThan(WAITER_LEASE_MS + FIRST_LEASE_MS + LATE_MS);
  }, 60_000);

  it('whose processes are stopped and continued in turn never stall the queue for longer', async () => {
    const processes = await fourAtThePort();
    const turns = processes.map((worker) => worker.ask<number[]>('turns', { key: 'k', callers: 10, forMs: 20_000 }));
    for (let stop = 0; stop < 8; stop++) {
      const worker = processes[stop % processes.length]!;
      worker.pause();
      await new Promise((resolve) => setTimeout(resolve, 2_000));
      worker.resume();
    }
    const began = (await Promise.all(turns)).flat().sort((one, other) => one - other);
    const gaps = began.slice(1).map((at, before) => at - began[before]!);
    expect(began.length).toBeGreaterThan(1_000);
    expect(Math.max(...gaps)).toBeLessThan(WAITER_LEASE_MS + FIRST_LEASE_MS + LATE_MS);
  }, 90_000);

  it('are 120 workers of which 15 % write and some downgrade: writers overlap nobody and keep their order, readers share', async () => {
    const processes = await fourAtThePort();
    const work = { key: 'prices', workers: 30, turns: 25, writers: 0.15 };
    const history = (await Promise.all(processes.map((worker) => worker.ask<HistoryEvent[]>('crowd', work)))).flat().sort((one, other) => one.at - other.at);
    expect(history.filter(({ kind }) => kind === 'granted')).toHaveLength(120 * 25);
    expect(checkHistory(history)).toEqual([]);
    expect(history.filter(({ kind }) => kind === 'downgraded').length).toBeGreaterThan(50);
    expect(mostReadersAtOnce(history)).toBeGreaterThan(30);
    expect(await lockKeys()).toEqual([]);
  }, 120_000);

  it('that race a cancel with the release of the holder leave nothing in 10,000 tries', async () => {
    const [holder, waiter] = await Promise.all([atThePort('a'), atThePort('b')]);
    for (let round = 0; round < 20; round++) {
      const keys = Array.from({ length: 500 }, (_, n) => `race:${round}:${n}`);
      await holder.ask('take', { keys });
      await waiter.ask('queue', { keys });
      await Promise.all([holder.ask('drop', { keys }), waiter.ask('drop', { keys })]);
    }
    expect(await lockKeys()).toEqual([]);
  }, 120_000);

  it('leave no more than fences after 50,000 different keys', async () => {
    const worker = await atThePort('a');
    for (let round = 0; round < 50; round++) {
      const keys = Array.from({ length: 1_000 }, (_, n) => `many:${round}:${n}`);
      await worker.ask('take', { keys });
      await worker.ask('drop', { keys });
    }
    const left = (await redis.command('KEYS', '*')) as string[];
    expect(left.filter((name) => !/^\{lock:\d+\}:f$/.test(name))).toEqual(['{lock}:format']);
    expect(left).toHaveLength(257);
  }, 120_000);
});

describe('Applications of several processes', () => {
  it.each([[[0, 1, 2]], [[0, 2, 1]], [[1, 0, 2]], [[1, 2, 0]], [[2, 0, 1]], [[2, 1, 0]]])(
    'whose three holds have one owner may end them in the order %j, and nobody else gets in before',
    async (order) => {
      const processes = await Promise.all([application(), application(), application()]);
      const leases = [];
      for (const worker of processes) leases.push(await worker.hold('k', { owner: 'saga:1' }));
      expect(new Set(leases.map(({ fence }) => fence)).size).toBe(1);
      const stranger = await application();
      for (const at of order) {
        await expect(stranger.hold('k', { waitMs: 0 })).rejects.toMatchObject({ code: 'LOCK_TIMEOUT' });
        expect(await leases[at]!.release()).toBe('released');
      }
      await (await stranger.hold('k', { waitMs: 0 })).release();
      expect(await lockKeys()).toEqual([]);
    },
    60_000,
  );

  it('cancel 20 waiters at once on SIGTERM, keep 5 holders protected until they are done, and exit with 0', async () => {
    const [app, other] = await Promise.all([application(), application()]);
    const busy = await other.hold('busy');
    const leases = await Promise.all(Array.from({ length: 5 }, (_, n) => app.hold(`held:${n}`, { leaseMs: 600 })));
    const waiters = Array.from({ length: 20 }, () => app.hold('busy', { waitMs: 60_000 }).catch((error: { code?: string }) => error.code));
    await eventually(async () => expect((await other.inspect('busy')).waiters).toHaveLength(1));
    app.terminate();
    const since = performance.now();
    expect(await Promise.all(waiters)).toEqual(waiters.map(() => 'LOCK_CLOSED'));
    expect(performance.now() - since).toBeLessThan(LATE_MS);
    // Longer than their lease: it is renewed all the while.
    await new Promise((resolve) => setTimeout(resolve, 1_500));
    for (const lease of leases) expect(await lease.verify()).toBe(true);
    expect(await Promise.all(leases.map((lease) => lease.release()))).toEqual(leases.map(() => 'released'));
    expect(await app.exited).toEqual({ code: 0, signal: null });
    expect(app.errors).toBe('');
    await busy.release();
  }, 60_000);
});

/** How many reads went on at the busiest moment. */
function mostReadersAtOnce(history: readonly HistoryEvent[]): number {
  const reading = new Set<string>();
  let most = 0;
  for (const event of history) {
    if (event.kind === 'granted' && event.mode === 'read') reading.add(event.id);
    if (event.kind === 'released') reading.delete(event.id);
    most = Math.max(most, reading.size);
  }
  return most;
}
