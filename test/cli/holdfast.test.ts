/** The command line against real servers. */
import { afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type { AcquireRequest } from '../../lib/core/port/lock-store.js';
import { systemClock } from '../../lib/core/port/clock.js';
import type { RedisStore } from '../../lib/stores/redis/redis-store.js';
import { startFlakyProxy, type FlakyProxy } from '../support/flaky-proxy.js';
import { startCluster } from '../support/redis-cluster.js';
import { startMasters, startRedis, type RedisServer } from '../support/redis-server.js';
import { closeStores, openRedisStore, PATIENT } from '../support/redis-store.js';
import { eventually } from '../support/eventually.js';
import { admitAll, closeRedlocks, openRedlock, startVoters, votes } from '../support/redlock-store.js';
import { finished, holdfast, programPath } from './program.js';
import { forAll, forEachTest } from '../support/started.js';

let store: RedisStore;

const redis = forAll(startRedis);
beforeAll(() => void programPath()); // compiles the program once

beforeEach(async () => {
  await redis.command('FLUSHALL');
  store = await openRedisStore(redis.url, 'web-1:12:abcdefgh', PATIENT);
  // What it asks while the store closes is not answered.
  heart = setInterval(() => waiters.forEach((waiter) => void store.acquire(waiter).catch(() => undefined)), 500);
});

afterEach(async () => {
  clearInterval(heart);
  waiters.clear();
  await closeStores();
});

let sequence = 0;
/** Kept in the queue while the program starts, as the watchdog of their process would. */
const waiters = new Set<AcquireRequest>();
let heart: NodeJS.Timeout;

function request(key: string, given: Partial<AcquireRequest> = {}): AcquireRequest {
  const base = { mode: 'write', leaseMs: 60_000, queue: true, fences: 1, minHoldMs: 0, minReplicas: 0, label: 'OrderService.pay' } as const;
  return { ...base, key, id: `web-1:12:abcdefgh.${(sequence += 1)}`, notAfter: systemClock.now() + 30_000, ...given };
}

async function hold(key: string, given: Partial<AcquireRequest> = {}): Promise<number> {
  const outcome = await store.acquire(request(key, given));
  if (outcome.kind !== 'granted') throw new Error(`${key} is ${outcome.kind}`);
  return outcome.grant.fence;
}

async function wait(key: string, label: string): Promise<void> {
  const waiter = request(key, { label, id: `web-2:34:ijklmnop.${(sequence += 1)}` });
  await store.acquire(waiter);
  waiters.add(waiter);
}

const ask = (...args: string[]): ReturnType<typeof holdfast> => holdfast([...args, '--redis', redis.url]);

describe('holdfast list', () => {
  it('tells each lock with its mode, its holder, the rest of its lease and how many wait', async () => {
    await hold('order:1');
    await wait('order:1', 'OrderService.refund');
    await hold('price:7', { mode: 'read', label: undefined });
    const { code, out, err } = await ask('list');
    expect(out).toMatch(/^KEY +MODE +HELD BY +LEFT +WAITING$/m);
    expect(out).toMatch(/^order:1 +write +OrderService\.pay on web-1:12 +\d\d s +1$/m);
    expect(out).toMatch(/^price:7 +read +unnamed work on web-1:12 +\d\d s +-$/m);
    expect(err).toBe('2 locks\n');
    expect(code).toBe(0);
  });

  it('tells how many permits are in use of how many, and inspect names who has them', async () => {
    for (const label of ['MailService.send', 'MailService.retry']) await hold('smtp', { permits: 5, label });
    expect((await ask('list')).out).toMatch(/^smtp +write +2 of 5 in use: MailService\.send on web-1:12 \(\+1\) +\d\d s +-$/m);
    const { out } = await ask('inspect', 'smtp');
    expect(out).toMatch(/^smtp: 2 of 5 permits in use\n {2}MailService\.send on web-1:12\n[^]* {2}MailService\.retry on web-1:12/);
    expect(out).not.toContain('owner');
  });

  it('tells of a hold in its grace when the lock is free unless it is released, and so does inspect', async () => {
    await hold('order:1', { leaseMs: 20_000, graceMs: 30_000 });
    expect((await ask('inspect', 'order:1')).out).toMatch(/lease ends in \d+ s unless renewed, then taken for 30 s more unless released, fence/);
    await hold('order:2', { leaseMs: 100, graceMs: 50_000 });
    await eventually(async () => expect((await store.inspect('order:2')).holders).toMatchObject([{ remainingMs: 0 }]));
    expect((await ask('list')).out).toMatch(/^order:2 +write +free in \d\d s unless released: OrderService\.pay on web-1:12 +- +-$/m);
    expect((await ask('inspect', 'order:2')).out).toMatch(/lease has ended, free in \d\d s unless released, fence \d/);
  });

  it('tells only keys that start with a text, or only what is waited for', async () => {
    await hold('order:1');
    await hold('order:2');
    await hold('price:7');
    await wait('order:2', 'OrderService.refund');
    const keysOf = (out: string) => out.trim().split('\n').map((line) => (JSON.parse(line) as { key: string }).key).sort();
    expect(keysOf((await ask('list', 'order:', '--json')).out)).toEqual(['order:1', 'order:2']);
    expect(keysOf((await ask('list', '--waited', '--json')).out)).toEqual(['order:2']);
  });

  it('ends with 1 where nothing is locked', async () => {
    expect(await ask('list')).toMatchObject({ code: 1, out: '', err: expect.stringContaining('No lock is held') });
  });

  it('ends without complaint when its reader hangs up', async () => {
    await Promise.all(Array.from({ length: 3_000 }, (_, n) => hold(`order:${n}`)));
    const line = `"${process.execPath}" "${programPath()}" list --redis ${redis.url} | head -1; echo "\${PIPESTATUS[0]}"`;
    const { out, err } = await finished('bash', ['-c', line]);
    expect(out).toMatch(/^KEY .*\n0\n$/);
    expect(err).toBe('');
  });

  it('writes nothing to Redis and asks for 4,000 locks page by page, one small script each', async () => {
    await Promise.all(Array.from({ length: 4_000 }, (_, n) => hold(`order:${n}`)));
    await redis.command('SCRIPT', 'FLUSH');
    await redis.command('CONFIG', 'RESETSTAT');
    const before = await keysOf(redis);
    const { code, out } = await ask('list');
    expect(code).toBe(0);
    expect(new Set(out.trim().split('\n')).size).toBe(4_001);
    const calls = await callsOf(redis);
    expect([...calls.keys()].filter((name) => !READING.test(name))).toEqual([]);
    expect(calls.get('scan')).toBeGreaterThanOrEqual(8);
    expect(calls.get('scan')).toBeLessThanOrEqual(12);
    expect((calls.get('evalsha') ?? 0) + (calls.get('eval') ?? 0)).toBeGreaterThanOrEqual(4_000);
    expect(await keysOf(redis)).toBe(before);
  });

  it('is content with a user who may run no command that writes', async () => {
    const fence = await hold('order:1');
    const rule = ['~{lock:[0-9]}:[lq]:*', '~{lock:[0-9][0-9]}:[lq]:*', '~{lock:[0-9][0-9][0-9]}:[lq]:*', '+eval', '+evalsha', '+get', '+hgetall', '+time', '+scan', '+client|setname'];
    await redis.command('ACL', 'SETUSER', 'looker', 'reset', 'on', '>word', ...rule);
    const url = redis.url.replace('redis://', 'redis://looker:word@');
    expect(await holdfast(['list', '--redis', url])).toMatchObject({ code: 0, out: expect.stringContaining('order:1') });
    expect(await holdfast(['inspect', 'order:1', '--redis', url])).toMatchObject({ code: 0 });
    const taken = await holdfast(['release', 'order:1', '--fence', String(fence), '--yes', '--redis', url]);
    expect(taken).toMatchObject({ code: 3, err: expect.stringMatching(/NOPERM|ACL failure|can't run this command/) });
    expect((await store.inspect('order:1')).holders).toHaveLength(1);
  });

  it('needs no more memory for 10,000 locks than for a few, at the speed of its reader', async () => {
    await Promise.all(Array.from({ length: 10_000 }, (_, n) => hold(`order:${n}`)));
    const heap = '--max-old-space-size=20';
    const { code, out, err } = await finished(process.execPath, [heap, programPath(), 'list', '--json', '--redis', redis.url]);
    expect({ code, lines: out.trim().split('\n').length, err }).toEqual({ code: 0, lines: 10_000, err: '' });
  });
});

describe('holdfast inspect', () => {
  it('tells the holder with its fence and its age, and who waits, in order', async () => {
    const fence = await hold('order:1', { owner: 'saga-1' });
    await wait('order:1', 'OrderService.refund');
    await wait('order:1', 'OrderService.cancel');
    const { code, out } = await ask('inspect', 'order:1');
    expect(out).toMatch(/^order:1: held for writing\n {2}OrderService\.pay on web-1:12\n/);
    expect(out).toMatch(new RegExp(`since about \\d+ m?s, lease ends in 5\\d s unless renewed, fence ${fence}, owner saga-1`));
    expect(out).toMatch(/1\. write {2}OrderService\.refund on web-2:34\n {2}2\. write {2}OrderService\.cancel on web-2:34\n/);
    expect(code).toBe(0);
  });

  it('gives the state as the library has it with --json, and ends with 1 for a free lock', async () => {
    const { code, out } = await ask('inspect', 'order:9', '--json');
    expect(JSON.parse(out)).toEqual({ key: 'order:9', mode: null, holders: [], waiters: [] });
    expect(code).toBe(1);
  });

  it('takes and gives a key as it was written, with any character in it, and lets none steer the terminal', async () => {
    const key = 'order:urn:{7}:50%\u001b[J';
    const fence = await hold(key);
    expect(JSON.parse((await ask('list', 'order:urn:{', '--json')).out)).toMatchObject({ key, mode: 'write' });
    expect(await ask('inspect', key)).toMatchObject({ code: 0, out: expect.stringContaining('order:urn:{7}:50%?[J: held for writing') });
    expect(await ask('release', key, '--fence', String(fence), '--yes', '--json')).toMatchObject({ code: 0 });
    expect((await store.inspect(key)).mode).toBeNull();
  });

  it('lets nothing that a holder wrote steer the terminal', async () => {
    await hold('order:1', { owner: '\u001b]0;owned\u0007' });
    expect((await ask('inspect', 'order:1')).out).toContain('owner ?]0;owned?');
  });
});

describe('holdfast release', () => {
  it('takes the lock from the holder with this fence only, and the next in line has it', async () => {
    const fence = await hold('order:1');
    await wait('order:1', 'OrderService.refund');
    expect(await ask('release', 'order:1', '--fence', String(fence - 1), '--yes')).toMatchObject({ code: 1 });
    expect((await store.inspect('order:1')).holders).toMatchObject([{ fence }]);
    expect(await ask('release', 'order:1', '--fence', String(fence), '--yes', '--json')).toMatchObject({ code: 0, out: expect.stringContaining('"released":true') });
    expect((await store.inspect('order:1')).holders).toMatchObject([{ label: 'OrderService.refund' }]);
  });

  it('says whom it would hit and does nothing without --yes or --fence', async () => {
    const fence = await hold('order:1');
    expect(await ask('release', 'order:1', '--fence', String(fence))).toMatchObject({ code: 2, err: expect.stringContaining('OrderService.pay on web-1:12') });
    expect(await ask('release', 'order:1', '--yes')).toMatchObject({ code: 2, err: expect.stringContaining('--fence') });
    expect((await store.inspect('order:1')).holders).toHaveLength(1);
  });
});

describe('holdfast leader', () => {
  it('tells who leads a role, since when, and who stands for it', async () => {
    const fence = await hold('leader:indexer', { label: 'IndexService.index' });
    await wait('leader:indexer', 'IndexService.index');
    const { code, out } = await ask('leader', 'indexer');
    expect(out).toMatch(/^indexer: led by\n {2}IndexService\.index on web-1:12\n {4}since about \d.*lease ends in \d\d s unless renewed, fence \d{16}\nstands for election/);
    expect(out).toMatch(/^ {2}1\. IndexService\.index on web-2:34$/m);
    expect(code).toBe(0);
    expect(JSON.parse((await ask('leader', 'indexer', '--json')).out)).toMatchObject({ role: 'indexer', leader: { fence }, candidates: [{ label: 'IndexService.index' }] });
  });

  it('ends with 1 where nobody leads, and with 2 without a role', async () => {
    expect(await ask('leader', 'indexer')).toMatchObject({ code: 1, out: 'indexer: nobody leads\n' });
    expect(await ask('leader')).toMatchObject({ code: 2, err: expect.stringContaining('leader wants a role') });
  });
});

describe('holdfast watch', () => {
  it('looks again and again, the most waited for first, also when the server was away meanwhile, and ends with 0 on Ctrl-C', async () => {
    for (const key of ['order:1', 'order:2']) await hold(key);
    await wait('order:2', 'OrderService.refund');
    const proxy = await startFlakyProxy(redis.port);
    let told = 0;
    const stopWhen = (soFar: string): boolean => {
      if (told > 0) return soFar.length > 3 * told;
      const { accepted } = proxy;
      told = soFar.length;
      proxy.hangUp();
      void eventually(() => expect(proxy.accepted).toBeGreaterThan(accepted + 5)).then(() => proxy.pickUp());
      return false;
    };
    const { code, out, err } = await holdfast(['watch', '--json', '--every', '100', '--redis', proxy.url], stopWhen);
    const looks = out.trim().split('\n').map((line) => JSON.parse(line) as { held: number; rows: { key: string }[] });
    expect(looks[0]).toMatchObject({ held: 2, waitedFor: 1, waiting: 1, more: 0, rows: [{ key: 'order:2' }, { key: 'order:1' }] });
    expect([code, err]).toEqual([0, expect.stringMatching(/^holdfast: Locks: .* failed on 127/)]);
    await proxy.stop();
  });
});

describe('the exit code', () => {
  it('is 2 for a command line that is wrong, and the message says what is', async () => {
    expect(await holdfast([])).toMatchObject({ code: 2, err: expect.stringContaining('a command is missing') });
    expect(await holdfast(['list'])).toMatchObject({ code: 2, err: expect.stringContaining('REDIS_URL') });
    expect(await ask('lost')).toMatchObject({ code: 2, err: expect.stringContaining("no command 'lost'") });
    expect(await ask('list', '--fence', '1')).toMatchObject({ code: 2, err: expect.stringContaining('--fence belongs to release') });
    expect(await ask('list', '--redis', 'redis://127.0.0.1:1')).toMatchObject({ code: 2, err: expect.stringContaining('odd number') });
  });

  it('is 3 when the store cannot be reached or refuses the password', async () => {
    expect(await holdfast(['list', '--redis', 'redis://127.0.0.1:1'])).toMatchObject({ code: 3, err: expect.stringMatching(/127\.0\.0\.1:1 cannot be reached: .*ECONNREFUSED/) });
    await using guarded = await startRedis({ args: ['--requirepass', 'secret'] });
    const url = guarded.url.replace('redis://', 'redis://:wrong@');
    expect(await holdfast(['list', '--redis', url])).toMatchObject({ code: 3, err: expect.stringMatching(/WRONGPASS|NOAUTH/) });
    expect(await holdfast(['list'], undefined, { REDIS_URL: guarded.url.replace('redis://', 'redis://:secret@') })).toMatchObject({ code: 1 });
  });
});

describe('a server that does not answer', () => {
  it.each([
    ['accepts connections and closes them', (proxy: FlakyProxy) => proxy.hangUp()],
    ['accepts connections and says nothing', (proxy: FlakyProxy) => proxy.freeze()],
  ])('and %s ends the program with an error and exit code 3, not in silence', async (_, fail) => {
    const proxy = await startFlakyProxy(redis.port);
    fail(proxy);
    const { code, out, err } = await holdfast(['list', '--redis', proxy.url]);
    await proxy.stop();
    expect({ code, out }).toEqual({ code: 3, out: '' });
    expect(err).toMatch(new RegExp(`127\\.0\\.0\\.1:${proxy.port} cannot be reached`));
  });
});

describe('other topologies', () => {
  it('a Cluster is looked at on all its masters', async () => {
    await using cluster = await startCluster();
    const clustered = await openRedisStore({ cluster: cluster.startupNodes }, 'web-1:12:abcdefgh');
    await Promise.all(Array.from({ length: 40 }, (_, n) => clustered.acquire(request(`order:${n}`))));
    const { code, out } = await holdfast(['list', '--json', '--cluster', '--redis', cluster.masters[0]!.url]);
    expect(new Set(out.trim().split('\n')).size).toBe(40);
    expect(code).toBe(0);
    const [holder] = (await clustered.inspect('order:3')).holders;
    expect(await holdfast(['release', 'order:3', '--fence', String(holder?.fence), '--yes', '--cluster', '--redis', cluster.masters[1]!.url])).toMatchObject({ code: 0 });
    expect((await clustered.inspect('order:3')).mode).toBeNull();
    await closeStores();
  });

  it('a Redlock is looked at by quorum, also with a node down, and a forced release needs a quorum', async () => {
    await using masters = await startVoters(3);
    const redlock = await openRedlock(masters, 'web-1:12:abcdefgh');
    const outcome = await redlock.acquire(request('order:1', { queue: false }));
    const fence = outcome.kind === 'granted' ? outcome.grant.fence : 0;
    const nodes = masters.flatMap(({ url }) => ['--redis', url]);
    const before = await Promise.all(masters.map(keysOf));
    expect(await holdfast(['list', ...nodes])).toMatchObject({ err: '1 lock\n', out: expect.stringMatching(/^order:1 +write +OrderService\.pay on web-1:12/m) });
    expect((await holdfast(['inspect', 'order:1', ...nodes])).out).toContain(`fence ${fence}`);
    expect(await Promise.all(masters.map(keysOf))).toEqual(before);
    await masters[2]!.kill();
    expect((await holdfast(['list', '--json', ...nodes])).out).toContain('"order:1"');
    expect(await holdfast(['release', 'order:1', '--fence', String(fence), '--yes', ...nodes])).toMatchObject({ code: 0 });
    expect(await holdfast(['inspect', 'order:1', ...nodes])).toMatchObject({ code: 1 });
    await masters[1]!.kill();
    expect(await holdfast(['list', ...nodes])).toMatchObject({ code: 3, err: expect.stringContaining('quorum') });
  });
});

describe('holdfast redlock init', () => {
  const masters = forEachTest(() => startMasters(3), closeRedlocks);
  const urls = (): string[] => masters.map(({ url }) => url);
  const records = () => Promise.all(masters.map((master) => master.command('GET', '{lock:0}:f')));
  const voting = () => Promise.all(masters.map((master) => votes(master)));

  it('ends the first quarantine at once, for processes that are waiting for its end and for those that come', async () => {
    const told: string[] = [];
    const waiting = await openRedlock(masters, 'web-1:12:abcdefgh', { report: ({ message }) => told.push(message) });
    await expect(waiting.acquire(request('order:1', { queue: false }))).rejects.toMatchObject({ code: 'LOCK_STORE' });
    expect(await holdfast(['redlock', 'init', ...urls()])).toMatchObject({ code: 0, out: expect.stringMatching(/^3 Redlock nodes vote from now on for prefix 'lock'/), err: '' });
    expect(await waiting.acquire(request('order:1', { queue: false }))).toMatchObject({ kind: 'granted' });
    const later = await openRedlock(masters, 'web-2:34:ijklmnop');
    expect(await later.acquire(request('order:2', { queue: false }))).toMatchObject({ kind: 'granted' });
    await eventually(() => expect(told.filter((line) => line.includes('votes again'))).toHaveLength(3));
  });

  it('may come before the first process, with the URLs as for other commands, for any prefix', async () => {
    const nodes = urls().flatMap((url) => ['--redis', url]);
    const { code, out } = await holdfast(['redlock', 'init', ...nodes, '--prefix', 'shop', '--json']);
    expect({ code, ...(JSON.parse(out) as object) }).toEqual({ code: 0, prefix: 'shop', nodes: masters.map(({ port }) => `127.0.0.1:${port}`), vote: true });
    const store = await openRedlock(masters, 'web-1:12:abcdefgh', { prefix: 'shop' });
    expect(await store.acquire(request('order:1', { queue: false }))).toMatchObject({ kind: 'granted' });
  });

  it.each(['votes', 'voted and was restarted with its data'])('refuses, and changes nothing, when one of the nodes %s', async (past) => {
    await admitAll(masters.slice(2));
    if (past !== 'votes') await masters[2]!.restart({ keepData: true });
    const before = (await records()).slice(0, 2);
    const { code, err, out } = await holdfast(['redlock', 'init', ...urls()]);
    expect({ code, out }).toEqual({ code: 1, out: '' });
    expect(err).toContain(`127.0.0.1:${masters[2]!.port} has voted before`);
    expect(before).toEqual([null, null]);
    expect((await voting()).slice(0, 2)).toEqual([false, false]);
    // The first look noticed the restart, and the node must not forget with it that it voted before.
    expect(await holdfast(['redlock', 'init', ...urls()])).toMatchObject({ code: 1, out: '' });
  });

  it('changes nothing when a node cannot be reached, or two are one server', async () => {
    const twins = [urls()[0]!, urls()[1]!, urls()[1]!.replace('127.0.0.1', 'localhost')];
    expect(await holdfast(['redlock', 'init', ...twins])).toMatchObject({ code: 1, err: expect.stringContaining('are one server') });
    await masters[2]!.kill();
    expect(await holdfast(['redlock', 'init', ...urls()])).toMatchObject({ code: 3, err: expect.stringContaining(`127.0.0.1:${masters[2]!.port} cannot be reached: not connected`) });
    await masters[2]!.start();
    // A server that keeps locks alone would be closed for years by a recall.
    expect(await records()).toEqual([null, null, null]);
  });

  it.each([
    [['redlock']], [['redlock', 'drop']], [['redlock', 'init', 'redis://a']], [['redlock', 'init', 'redis://a', 'redis://b']], [['redlock', 'init', 'redis://a', 'redis://b', 'redis://c', '--cluster']],
  ])('is told what is wrong with %j', async (args) => expect(await holdfast(args)).toMatchObject({ code: 2, out: '' }));
});

/** What a look may send, and what its script may call. */
const READING = /^(scan|evalsha|eval|get|hgetall|time|hello|auth|ping|info|script\|.*|client\|.*|config\|.*|dbsize|debug|slowlog\|.*|command)$/;

async function callsOf(server: RedisServer): Promise<Map<string, number>> {
  const text = String(await server.command('INFO', 'commandstats'));
  return new Map([...text.matchAll(/^cmdstat_([^:]+):calls=(\d+)/gm)].map(([, name, calls]) => [name ?? '', Number(calls)]));
}

/** A digest of everything that stands in the server. */
const keysOf = async (server: RedisServer): Promise<string> => String(await server.command('DEBUG', 'DIGEST'));
