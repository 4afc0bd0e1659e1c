/** What an operator reads of an outage, on servers that go away. */
import { afterEach, describe, expect, it } from '@jest/globals';
import type { LockStoreError } from '../../../lib/core/port/errors.js';
import type { LockStore } from '../../../lib/core/port/lock-store.js';
import type { Finding, Report } from '../../../lib/core/port/lock-events.js';
import { LockService } from '../../../lib/lock.service.js';
import { connectTo } from '../../../lib/stores/wire/connect-to.js';
import { Outage } from '../../../lib/stores/wire/store-failure.js';
import { eventually } from '../../support/eventually.js';
import { FakeClock } from '../../support/fake-clock.js';
import { startCluster } from '../../support/redis-cluster.js';
import { startMasters, startRedis, type RedisServer } from '../../support/redis-server.js';
import { closeStores, openRedisStore } from '../../support/redis-store.js';
import { closeRedlocks, openRedlock } from '../../support/redlock-store.js';

const servers: RedisServer[] = [];
afterEach(async () => {
  await Promise.all([closeStores(), closeRedlocks()]);
  await Promise.all(servers.splice(0).map((server) => server.stop()));
});

/** A service on a store, and what both tell an operator. */
async function watched(open: (report: Report) => Promise<LockStore>) {
  const told: Finding[] = [];
  const report = (finding: Finding): void => void told.push(finding);
  const locks = new LockService({ store: await open(report), process: 'p', report });
  return { told, locks, kinds: () => told.map(({ kind }) => kind) };
}

async function started() {
  const server = await startRedis();
  servers.push(server);
  return { server, ...(await watched((report) => openRedisStore(server.url, 'p', { report }))) };
}

describe('A Redis that goes away', () => {
  it('is one warning with the reason, and one line with the time when it is back, also while nobody asks it', async () => {
    const { server, told, kinds } = await started();
    await server.kill();
    await eventually(() => expect(kinds()).toEqual(['store lost']));
    expect(told[0]).toMatchObject({ level: 'warning', message: expect.stringMatching(/^Locks: 127\.0\.0\.1:\d+ does not serve: .*ECONNREFUSED/) });
    await server.start();
    await eventually(() => expect(kinds()).toEqual(['store lost', 'store back']));
    expect(told[1]).toMatchObject({ level: 'info', message: expect.stringMatching(/^Locks: 127\.0\.0\.1:\d+ serves again, after [\d.]+ m?s\.$/) });
  });

  it('under a hold tells that it could not be renewed, and that it was lost', async () => {
    const { server, told, kinds, locks } = await started();
    const site = { label: 'OrderService.pay', leaseMs: 900 };
    const work = locks.withLock('order:1', site, (lease) => new Promise((resolve) => lease.signal.addEventListener('abort', resolve)));
    await eventually(async () => expect(await locks.isLocked('order:1')).toBe(true));
    await server.pause();
    await expect(work).rejects.toMatchObject({ code: 'LOCK_LOST' });
    await eventually(() => expect(new Set(kinds())).toEqual(new Set(['renewal failed', 'lease lost', 'store lost'])));
    const text = (kind: string): string | undefined => told.find((finding) => finding.kind === kind)?.message;
    expect(text('renewal failed')).toMatch(/^Lock 'order:1' could not be renewed: 127\.0\.0\.1:\d+: no answer .* ms and is lost after that/);
    expect(text('lease lost')).toMatch(/^Lock 'order:1' was lost: .* It was held by OrderService\.pay for \d+ ms\.$/);
    await server.resume();
    await eventually(() => expect(kinds().at(-1)).toBe('store back'));
  });

  it.each(['ioredis', 'redis'] as const)('because it was stopped says, over %s, for how long it gave no answer', async (client) => {
    const server = await startRedis();
    servers.push(server);
    const connection = await connectTo(server.url, client);
    const { told, locks } = await watched((report) => openRedisStore(server.url, 'p', { report, commandTimeoutMs: 300, connection }));
    await server.pause();
    const reasonOf = async (waitMs: number): Promise<string> => {
      const error: unknown = await locks.acquire('order:1', { waitMs }).catch((failed: unknown) => failed);
      return (error as LockStoreError).nodes[0]!.reason;
    };
    await reasonOf(600);
    await eventually(async () => expect(await reasonOf(0)).toMatch(/^not connected \(the server takes connections, but gave no answer within \d+ ms\)$/));
    await eventually(() => expect(told[0]?.message).toMatch(/does not serve: .*no answer within \d+ ms/));
    await server.resume();
  });

  it('because it refuses to write is back when it writes, and not when it reads', async () => {
    const { server, kinds, locks } = await started();
    await server.command('CONFIG', 'SET', 'maxmemory', '1');
    await expect(locks.acquire('k', { waitMs: 1_000 })).rejects.toMatchObject({ code: 'LOCK_STORE' });
    expect(kinds()).toEqual(['store lost']);
    const until = performance.now() + 1_200;
    while (performance.now() < until) await locks.isLocked('k');
    expect(kinds()).toEqual(['store lost']);
    await server.command('CONFIG', 'SET', 'maxmemory', '0');
    await locks.withLock('k', () => 1);
    await eventually(() => expect(kinds()).toEqual(['store lost', 'store back']));
  });
});

describe('One master of a Cluster that goes away', () => {
  it('is told though the others answer all the while, and is back when its replica took over', async () => {
    await using cluster = await startCluster({ masters: 3, replicasEach: 1 });
    const { kinds, locks } = await watched((report) => openRedisStore({ cluster: cluster.startupNodes }, 'p', { report }));
    const [master] = cluster.masters;
    let asking = true;
    const crowd = Array.from({ length: 40 }, async (_, n) => {
      while (asking) await locks.withLock(`k${n}`, { waitMs: 1_000 }, () => 1).catch(() => undefined);
    });
    await master!.kill();
    await eventually(() => expect(kinds()).toContain('store lost'));
    await eventually(() => expect(kinds()).toContain('store back'));
    asking = false;
    await Promise.all(crowd);
  });
});

describe('Nodes of a Redlock that go away', () => {
  it('are one warning each, which says whether a quorum is left, and one line when they are back', async () => {
    const masters = await startMasters(3);
    servers.push(...masters);
    const { told } = await watched((report) => openRedlock(masters, 'p', { maxLeaseMs: 500, report }));
    const lines = (kind: string): string[] => told.filter((finding) => finding.kind === kind).map(({ message }) => message);
    const [one, two] = [masters[0]!, masters[1]!];
    await one.kill();
    await eventually(() => expect(lines('node lost')).toEqual([expect.stringMatching(`${one.port} does not serve: .*ECONNREFUSED.* 2 of 3 nodes serve, which is a quorum`)]));
    await two.kill();
    await eventually(() => expect(lines('store lost')).toEqual([expect.stringMatching(`${two.port} does not serve: .* 1 of 3 nodes serve, which is no quorum`)]));
    await two.start();
    await eventually(() => expect(lines('store back')).toEqual([expect.stringMatching(`${two.port} serves again, after .*: there is a quorum again`)]));
    await one.start();
    await eventually(() => expect(lines('node back')).toEqual([expect.stringMatching(`${one.port} serves again, after .* 3 of 3 nodes serve`)]));
  });

  it('and were away at boot, which told of them, are one line when they are there', async () => {
    const masters = await startMasters(3);
    servers.push(...masters);
    await masters[0]!.kill();
    const { told, kinds } = await watched((report) => openRedlock(masters, 'p', { maxLeaseMs: 500, report }));
    await masters[0]!.start();
    await eventually(() => expect(kinds()).toContain('node back'));
    expect(told.filter(({ kind }) => ['boot', 'node lost', 'store lost'].includes(kind))).toMatchObject([{ kind: 'boot', level: 'warning' }]);
    await eventually(() => expect(kinds()).toContainEqual(expect.stringMatching(/^votes /)));
    expect(told.filter(({ level }) => level === 'error')).toEqual([]);
  });
});

describe('An outage', () => {
  function outage() {
    const clock = new FakeClock();
    const lines: string[] = [];
    const listener = { away: (reason: string) => void lines.push(`away: ${reason}`), back: (afterMs: number) => void lines.push(`back after ${afterMs}`) };
    const it = new Outage(clock, listener, () => void lines.push('asked'));
    it.watch();
    return { clock, lines, outage: it };
  }

  it('is told once, and lasts from its first failure to the first answer after its last', async () => {
    const { clock, lines, outage: store } = outage();
    for (let n = 0; n < 20; n += 1) {
      store.failed('not connected');
      await clock.advance(100);
    }
    expect(lines.filter((line) => line !== 'asked')).toEqual(['away: not connected']);
    store.answered('time');
    await clock.advance(1_000);
    expect([lines.at(-1), clock.pendingTimers]).toEqual(['back after 2000', 0]);
  });

  it('goes on while answers come between its failures', async () => {
    const { clock, lines, outage: store } = outage();
    for (let n = 0; n < 20; n += 1) {
      store.failed('not connected');
      await clock.advance(50);
      store.answered('time');
      await clock.advance(50);
    }
    expect(lines).toEqual(['away: not connected']);
    await clock.advance(1_000);
  });

  it('that nobody else would see the end of is asked about once a second, and a server that refuses writes is not', async () => {
    const { clock, lines, outage: store } = outage();
    store.failed('not connected');
    await clock.advance(3_600);
    expect(lines).toEqual(['away: not connected', 'asked', 'asked', 'asked', 'asked']);
    const other = outage();
    other.outage.refused(`OOM command not allowed when used memory > 'maxmemory'.`);
    await other.clock.advance(3_600);
    expect(other.lines).toEqual([`away: OOM command not allowed when used memory > 'maxmemory'.`]);
    expect(other.clock.pendingTimers).toBe(0);
    other.outage.answered('acquire');
    await other.clock.advance(1_000);
    expect(other.lines.at(-1)).toBe('back after 3600');
  });

  it('is none when the server refuses a single key', async () => {
    const { clock, lines, outage: store } = outage();
    for (let n = 0; n < 20; n += 1) {
      store.refused('WRONGTYPE Operation against a key holding the wrong kind of value');
      await clock.advance(100);
    }
    expect(lines).toEqual([]);
  });
});
