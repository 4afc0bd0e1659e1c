/** What the Redis store finds out before the first lock is asked for, and how it says so. */
import { readFileSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { inspect } from 'node:util';
import { afterEach, describe, expect, it, jest } from '@jest/globals';
import { Redis } from 'ioredis';
import type { Finding } from '../../../lib/core/port/lock-events.js';
import type { LockStoreError } from '../../../lib/core/port/errors.js';
import { leastRule } from '../../../lib/stores/redis/boot-probe.js';
import { RedisKeys } from '../../../lib/stores/wire/redis-keys.js';
import { eventually } from '../../support/eventually.js';
import { within } from '../../support/in-time.js';
import { freePort } from '../../support/free-port.js';
import { startFlakyProxy } from '../../support/flaky-proxy.js';
import { startRedis } from '../../support/redis-server.js';
import { closeStores, makeRedisStore, openRedisStore } from '../../support/redis-store.js';
import { forAll } from '../../support/started.js';

const server = forAll(startRedis);
afterEach(async () => {
  await closeStores();
  await server.command('FLUSHALL');
  await server.command('CONFIG', 'SET', 'maxmemory-policy', 'noeviction');
});

const usual = { mode: 'write', leaseMs: 5_000, queue: true, fences: 1, minHoldMs: 0, minReplicas: 0 } as const;

async function bootError(store: { open(): Promise<void> }): Promise<LockStoreError> {
  try {
    await store.open();
  } catch (error) {
    expect(error).toMatchObject({ name: 'LockStoreError', code: 'LOCK_STORE' });
    return error as LockStoreError;
  }
  throw new Error('the store opened');
}

describe('a server that cannot be reached', () => {
  it('fails the boot within bootTimeoutMs, naming node and reason', async () => {
    const port = await freePort();
    const error = await within(1_500, () => bootError(makeRedisStore(`redis://127.0.0.1:${port}`, 'p', { bootTimeoutMs: 400 })));
    expect(error).toMatchObject({ retryable: true, nodes: [{ node: `127.0.0.1:${port}`, reason: expect.stringContaining('ECONNREFUSED') }] });
  });

  it('fails the boot in the same time when it accepts connections and says nothing', async () => {
    const proxy = await startFlakyProxy(server.port);
    proxy.freeze();
    await within(1_500, () => bootError(makeRedisStore(proxy.url, 'p', { bootTimeoutMs: 400 })));
    await proxy.stop();
  });

  it('does not fail the boot when it comes up in time', async () => {
    const port = await freePort();
    const opening = openRedisStore(`redis://127.0.0.1:${port}`, 'p');
    const late = await startRedis({ port });
    await opening;
    await closeStores();
    await late.stop();
  });
});

describe('a server behind a slow network', () => {
  it('is asked in few exchanges, for each of which the boot has to wait', async () => {
    const proxy = await startFlakyProxy(server.port);
    await openRedisStore(proxy.url, 'p');
    expect(proxy.exchanges).toBeLessThanOrEqual(12);
    await proxy.stop();
  });

  it('is asked again when it did not say in time what it is, and a policy that evicts is found', async () => {
    await server.command('CONFIG', 'SET', 'maxmemory-policy', 'allkeys-lru');
    const store = makeRedisStore(server.url, 'p', { strictServer: true });
    const { redis: { runner } } = store;
    const ask = runner.command.bind(runner);
    const silence = (): Promise<never> => ((runner.command = ask), Promise.reject(runner.failureOf(new Error('no answer'), { what: 'info' })));
    jest.spyOn(runner, 'command').mockImplementation((words, on) => (words[0] === 'info' ? silence() : ask(words, on)));
    expect((await bootError(store)).message).toContain('allkeys-lru');
  });
});

describe('a URL with parameters', () => {
  it('means the same locks as without them', async () => {
    const store = await openRedisStore(`${server.url}?keyPrefix=app:&stringNumbers=true`, 'p');
    expect(await store.acquire({ ...usual, key: 'k', id: 'p.1', notAfter: performance.now() + 60_000 })).toMatchObject({ kind: 'granted' });
    expect(await server.command('KEYS', '*:l:k')).toEqual([expect.stringMatching(/^\{lock:\d+\}:l:k$/)]);
  });
});

describe('processes that do not agree', () => {
  it.each(['version=6 groups=256 maxLeaseMs=60000', 'version=4 groups=256 maxLeaseMs=60000', 'version=5 groups=16 maxLeaseMs=60000'])('on the wire format are told at boot, with both and the key to delete: %s', async (format) => {
    await server.command('SET', '{lock}:format', format);
    const error = await bootError(makeRedisStore(server.url, 'p2', { maxLeaseMs: 90_000 }));
    expect(error.message).toContain(`found '${format}', this process has 'version=5 groups=256'`);
    expect(error.message).toContain('delete the key {lock}:format');
    expect(error.retryable).toBe(false);
    expect(await server.command('GET', '{lock}:format')).toBe(format);
  });

  it('on maxLeaseMs go by the longest that one of them has, also after the server has lost its data', async () => {
    const format = (): Promise<unknown> => server.command('GET', '{lock}:format');
    await openRedisStore(server.url, 'p1', { recoveryMs: 100 });
    const longest = await openRedisStore(server.url, 'p2', { maxLeaseMs: 90_000 });
    await openRedisStore(server.url, 'p3', { maxLeaseMs: 30_000, recoveryMs: 100 });
    expect(await format()).toBe('version=5 groups=256 maxLeaseMs=90000');
    await longest.close();
    await server.command('FLUSHALL');
    await eventually(async () => expect(await format()).toBe('version=5 groups=256 maxLeaseMs=90000'));
  });

  it('on maxLeaseMs wait with recoveryMs of a lease for the longest of all', async () => {
    await openRedisStore(server.url, 'p1', { maxLeaseMs: 90_000 });
    const { redis } = await openRedisStore(server.url, 'p2', { maxLeaseMs: 30_000, recoveryMs: 'lease' });
    expect(redis.recoveryMs).toBe(90_000);
  });

  it('because another one was first on a server that had lost its data, say so in the log', async () => {
    const reports: Finding[] = [];
    await openRedisStore(server.url, 'p1', { recoveryMs: 100, report: (finding) => reports.push(finding) });
    await server.command('EVAL', "redis.call('FLUSHALL') return redis.call('SET', KEYS[1], 'version=1')", '1', '{lock}:format');
    await eventually(async () => {
      expect(reports).toContainEqual({ kind: expect.stringContaining('format'), level: 'error', message: expect.stringMatching(/found 'version=1'.*version=5 groups=256/) });
    });
  });

  it('may use different prefixes', async () => {
    await openRedisStore(server.url, 'p1');
    await openRedisStore(server.url, 'p2', { prefix: 'other', maxLeaseMs: 90_000 });
  });
});

describe('the access rule of the docs', () => {
  const rule = leastRule('lock').split(' ');
  const login = async (rules: readonly string[]): Promise<string> => {
    await server.command('ACL', 'SETUSER', 'locker', 'reset', 'resetchannels', 'on', '>secret', ...rules);
    return `redis://locker:secret@127.0.0.1:${server.port}`;
  };

  it('is the one that the docs print', () => expect(readFileSync('docs/production.md', 'utf8').replace(/\s+/g, ' ')).toContain(leastRule('lock')));

  it('allows everything, and whoever loses the right to messages later is warned of it', async () => {
    const reports: Finding[] = [];
    const url = await login(rule);
    const [a, b] = [await openRedisStore(url, 'a'), await openRedisStore(url, 'b', { report: (finding) => reports.push(finding) })];
    const request = { ...usual, key: 'k', notAfter: performance.now() + 60_000 };
    const woken = new Promise((resolve) => b.onWake(resolve));
    expect(await a.acquire({ ...request, id: 'a.1', mode: 'read' })).toMatchObject({ kind: 'granted' });
    expect(await a.acquire({ ...request, id: 'a.2', minHoldMs: 10 })).toMatchObject({ kind: 'waiting' });
    expect(await b.acquire({ ...request, id: 'b.1' })).toMatchObject({ kind: 'waiting' });
    expect(await a.renew({ key: 'k', id: 'a.1', leaseMs: 5_000, minReplicas: 0 })).toMatchObject({ kind: 'renewed' });
    expect(await a.downgrade({ key: 'k', id: 'a.1' })).toBe('downgraded');
    expect(await a.release({ key: 'k', id: 'a.1' })).toBe('released');
    expect(await a.acquire({ ...request, id: 'a.2', minHoldMs: 10 })).toMatchObject({ kind: 'granted' });
    expect(await a.forceRelease('k')).toBe(true);
    expect(await woken).toMatchObject({ kind: 'granted', id: 'b.1' });
    const listed = [];
    for await (const state of b.list()) listed.push(state.key);
    expect(listed).toEqual(['k']);
    expect(await b.release({ key: 'k', id: 'b.1' })).toBe('released');
    await login(rule.filter((part) => !part.startsWith('&')));
    await eventually(() => expect(reports.map(({ message }) => message)).toContainEqual(expect.stringMatching(/Allow its user \+subscribe &{lock}:c:\* \(the server said: NOPERM/)));
  });

  it('without +pubsub|numsub the boot says what it costs, and nobody is passed over', async () => {
    const url = await login(rule.filter((part) => part !== '+pubsub|numsub'));
    const reports: Finding[] = [];
    const store = await openRedisStore(url, 'p', { report: (finding) => reports.push(finding) });
    expect(reports).toEqual([{ kind: expect.any(String), level: 'warning', message: expect.stringContaining('Allow its user +pubsub|numsub') }]);
    await store.acquire({ ...usual, key: 'k', id: 'p.1', notAfter: performance.now() + 60_000 });
    await store.acquire({ ...usual, key: 'k', id: 'gone.1', notAfter: performance.now() + 60_000 });
    await store.acquire({ ...usual, key: 'k', id: 'p.2', notAfter: performance.now() + 60_000 });
    await store.release({ key: 'k', id: 'p.1' });
    expect((await store.inspect('k')).holders).toMatchObject([{ id: 'gone.1' }]);
  });

  const needed = rule.filter((part) => part.startsWith('+') && !['+client|setname', '+info', '+pubsub|numsub'].includes(part));
  it.each(needed)('without %s fails the boot with an error that names it', async (part) => {
    const error = await bootError(makeRedisStore(await login(rule.filter((each) => each !== part)), 'p'));
    expect(error.message).toContain(`missing: ${part}.`);
    expect(error.message).toContain(leastRule('lock'));
    expect(error.retryable).toBe(false);
  });

  it('without +info boots, and warns that a restart or a failover that loses data is not noticed', async () => {
    const findings: Finding[] = [];
    const url = await login(rule.filter((part) => part !== '+info'));
    const store = await openRedisStore(url, 'p', { recoveryMs: 50, report: (finding) => findings.push(finding) });
    expect(findings.map(({ level, message }) => [level, message])).toEqual([['warning', expect.stringMatching(/is not noticed.*\+info/s)]]);
    expect(await store.acquire({ ...usual, key: 'k', id: 'p.1', notAfter: performance.now() + 60_000 })).toMatchObject({ kind: 'granted' });
    expect(await store.release({ key: 'k', id: 'p.1' })).toBe('released');
  });

  it.each(rule.filter((part) => !part.startsWith('+')))('without %s fails the boot with an error that names it', async (part) => {
    const error = await bootError(makeRedisStore(await login(rule.filter((each) => each !== part)), 'p'));
    expect(/missing: (.*)\. The least/.exec(error.message)?.[1]).toContain(part);
  });

  it.each(['lock:eu', 'lock:7', 'lockbox'])('keeps the keys and channels of prefix lock from a user of prefix %s, and the other way round', async (other) => {
    const [ours, theirs] = [new RedisKeys('lock'), new RedisKeys(other)];
    const everyKey = (keys: RedisKeys) => [...Array(256).keys()].flatMap((group) => Object.values(keys.probe(group, 'k'))).concat(keys.format);
    const run = async (url: string, command: string, ...args: string[]) => {
      const client = new Redis(url, { enableReadyCheck: false });
      return client.call(command, ...args).then(() => 'done', (error: Error) => error.message).finally(() => client.disconnect());
    };
    for (const [mine, foreign] of [[ours, theirs], [theirs, ours]] as const) {
      const url = await login([...leastRule(mine.prefix).split(' '), '+touch']);
      expect(await run(url, 'TOUCH', ...everyKey(mine))).toBe('done');
      const client = new Redis(url, { enableReadyCheck: false });
      const answers = await Promise.all(everyKey(foreign).map((key) => client.touch(key).then(() => key, (error: Error) => error.message)));
      client.disconnect();
      expect(answers.filter((answer) => !answer.startsWith('NOPERM'))).toEqual([]);
      expect(await run(url, 'PUBLISH', foreign.channel('p'), '')).toMatch(/NOPERM/);
    }
  });

  it('needs +select for a database other than 0: without it the boot fails, and not in database 0', async () => {
    const error = await bootError(makeRedisStore(`${await login(rule)}/1`, 'p'));
    expect(error).toMatchObject({ retryable: false, message: expect.stringContaining('missing: +select. The least rule for its user: +select +eval') });
    const store = await openRedisStore(`${await login(['+select', ...rule])}/1`, 'p');
    expect(await store.acquire({ ...usual, key: 'k', id: 'p.1', notAfter: performance.now() + 60_000 })).toMatchObject({ kind: 'granted' });
    expect(await server.client().exists('{lock}:format')).toBe(0);
  });

  it('is not needed to hear that a database does not exist: the boot fails at once', async () => {
    const error = await bootError(makeRedisStore(`${server.url}/99`, 'p'));
    expect(error).toMatchObject({ retryable: false, message: expect.stringContaining('DB index is out of range') });
  });

  it('is not asked for a password twice: a wrong one fails the boot at once', async () => {
    await login(rule);
    const error = await within(2_000, () => bootError(makeRedisStore(`redis://locker:wrong@127.0.0.1:${server.port}`, 'p')));
    expect(error).toMatchObject({ retryable: false, message: expect.stringMatching(/refused the connection: WRONGPASS .*Check user, password/) });
    expect(error.message).not.toContain('could not be reached');
  });
});

describe('an error that is printed', () => {
  const printed = (error: LockStoreError): string => inspect(error, { depth: Infinity, showHidden: true });

  it('has no password in it', async () => {
    await server.command('ACL', 'SETUSER', 'locker', 'reset', 'on', '>secret');
    const error = await bootError(makeRedisStore(`redis://locker:hunter2@127.0.0.1:${server.port}`, 'p'));
    expect(printed(error)).toContain('WRONGPASS');
    expect(printed(error)).not.toContain('hunter2');
  });

  it('has nothing of what a command carried in it, also when the server repeats it', async () => {
    const other = await startRedis({ args: ['--rename-command', 'HDEL', ''] });
    const error = await bootError(makeRedisStore(other.url, 'p'));
    await other.stop();
    expect(error.message).toMatch(/ERR unknown command '?`?hdel/i);
    expect(printed(error)).not.toMatch(/args|\{lock:\d+\}/);
  });
});

describe('rediss:// for a server without TLS', () => {
  it('fails the boot with an error that speaks of TLS, though Redis says nothing', async () => {
    const error = await bootError(makeRedisStore(`rediss://127.0.0.1:${server.port}`, 'p', { bootTimeoutMs: 700 }));
    expect(error).toMatchObject({ retryable: true, message: expect.stringMatching(/127\.0\.0\.1:\d+ could not be reached within 700 ms.*whether it speaks TLS on that port/) });
  });

  it('fails the boot with an error that says so when it answers in plain text', async () => {
    const endpoint = createServer((socket) => socket.on('error', () => undefined).on('data', () => socket.write('-ERR what?\r\n')));
    await new Promise<void>((resolve) => endpoint.listen(0, '127.0.0.1', resolve));
    const { port } = endpoint.address() as AddressInfo;
    const error = await bootError(makeRedisStore(`rediss://127.0.0.1:${port}`, 'p')).finally(() => endpoint.close());
    expect(error).toMatchObject({ retryable: false, message: expect.stringMatching(/127\.0\.0\.1:\d+ answers without TLS.*rediss:\/\/.*Give a redis:\/\/ URL/) });
  });
});

describe("an application's own client", () => {
  it('is never used, closed or changed, and its keyPrefix, number format and own commands do not matter', async () => {
    const scripts = { get: { lua: "return 'mine'", numberOfKeys: 1 }, evalsha: { lua: 'return 1', numberOfKeys: 1 } };
    const own = new Redis(server.port, { keyPrefix: 'app:', stringNumbers: true, enableAutoPipelining: true, connectionName: 'own', scripts });
    await own.set('x', 1);
    const options = { ...own.options };
    const store = await openRedisStore(own, 'p');
    expect(await store.acquire({ ...usual, key: 'k', id: 'p.1', notAfter: performance.now() + 60_000 })).toMatchObject({ kind: 'granted' });
    expect(await own.call('KEYS', '*:l:*')).toEqual([expect.stringMatching(/^\{lock:\d+\}:l:k$/)]);
    await closeStores();
    expect(own.options).toEqual(options);
    expect(await own.get('x')).toBe('mine');
    expect(await own.client('GETNAME')).toBe('own');
    expect(String(await own.client('LIST'))).not.toContain('nestjs-holdfast');
    own.disconnect();
  });

  it('need not be connected yet', async () => {
    const own = new Redis(server.port, { lazyConnect: true });
    await openRedisStore(own, 'p');
    expect(own.status).toBe('wait');
  });
});
