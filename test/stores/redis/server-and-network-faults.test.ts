/** The Redis store on a server, a network and a script cache that fail: what is told, and that service resumes. */
import { afterAll, beforeEach, describe, expect, it } from '@jest/globals';
import { systemClock } from '../../../lib/core/port/clock.js';
import type { LockStoreError } from '../../../lib/core/port/errors.js';
import type { AcquireOutcome, AcquireRequest, Wake } from '../../../lib/core/port/lock-store.js';
import type { RedisStore } from '../../../lib/stores/redis/redis-store.js';
import { acquireRequest, newId } from '../../support/acquire-request.js';
import { eventually } from '../../support/eventually.js';
import { startFlakyProxy } from '../../support/flaky-proxy.js';
import { within } from '../../support/in-time.js';
import { startRedis } from '../../support/redis-server.js';
import { closeStores, openRedisStore } from '../../support/redis-store.js';
import { forAll, forEachTest } from '../../support/started.js';

/** Behind the proxy, with a short command timeout. */
let store: RedisStore;
/** Beside the proxy, undisturbed. */
let other: RedisStore;
let wakes: Wake[];

const server = forAll(startRedis);
const proxy = forEachTest(() => startFlakyProxy(server.port), closeStores);
beforeEach(async () => {
  store = await openRedisStore(proxy.url, 'p', { commandTimeoutMs: 300 });
  other = await openRedisStore(server.url, 'o');
  wakes = [];
  store.onWake((wake) => wakes.push(wake));
});

function request(how: Partial<AcquireRequest> = {}): AcquireRequest {
  return acquireRequest({ notAfter: performance.now() + 300, ...how });
}

async function failure(promise: Promise<unknown>): Promise<LockStoreError> {
  const error = await promise.then(() => undefined, (reason: LockStoreError) => reason);
  expect(error).toMatchObject({ code: 'LOCK_STORE', nodes: [{ node: `127.0.0.1:${proxy.port}` }] });
  return error!;
}

/** Asks until it is granted. */
async function resumes(on = store, now = () => performance.now()): Promise<void> {
  const ask = request();
  await eventually(async () => expect((await on.acquire({ ...ask, notAfter: now() + 300 })).kind).toBe('granted'));
  await on.release(ask);
}

describe('a network that fails', () => {
  it('when it is cut, every act ends at once with an error that names node and key, and service resumes within 2 s', async () => {
    const held = request();
    await store.acquire(held);
    await proxy.cut();
    const ask = request();
    const error = await failure(store.acquire(ask));
    expect(error).toMatchObject({ key: ask.key, retryable: true });
    expect(error.message).toContain(`'${ask.key}'`);
    expect(await store.renew({ ...held })).toMatchObject({ kind: 'unknown', cause: { code: 'LOCK_STORE' } });
    await failure(store.release(held));
    await proxy.heal();
    await within(2_000, () => resumes());
    expect(await store.release(held)).toBe('released');
  });

  it('when it swallows everything, every act ends within its timeout, and service resumes within 2 s', async () => {
    proxy.freeze();
    const startedAt = performance.now();
    await failure(store.acquire(request()));
    expect(performance.now() - startedAt).toBeLessThan(900);
    await proxy.stop();
    await proxy.heal();
    proxy.thaw();
    await within(2_000, () => resumes());
  });

  it('when a connection hangs while new ones work, the old one is given up', async () => {
    proxy.freeze();
    const links = proxy.connections;
    await failure(store.acquire(request()));
    proxy.thaw();
    expect(links).toBeGreaterThan(1);
    await within(2_000, () => resumes());
  });

  it('a connection that has gone silent is given up before commandTimeoutMs is over, so that service resumes within 2 s', async () => {
    const patient = await openRedisStore(proxy.url, 'q', { commandTimeoutMs: 2_000 });
    proxy.freezePresent();
    await within(1_900, () => resumes(patient));
  });

  it('a request that lay in the network until its time was over does nothing when it arrives', async () => {
    const ask = request({ notAfter: performance.now() + 250 });
    proxy.delay(500);
    await failure(store.acquire(ask));
    proxy.delay(0);
    await resumes();
    expect((await other.inspect(ask.key)).mode).toBeNull();
  });

  it('nor does one of a process that had heard nothing of the server for minutes', async () => {
    let idleMs = 0;
    const clock = { ...systemClock, now: () => systemClock.now() + idleMs };
    const idle = await openRedisStore(proxy.url, 'i', { commandTimeoutMs: 300, clock });
    const hasAllAnswers = (): Promise<void> => eventually(() => expect(idle.redis.runner.underway).toHaveLength(0));
    await hasAllAnswers();
    idleMs = 300_000;
    proxy.holdUp();
    const late = request({ notAfter: clock.now() + 250 });
    const refused = failure(idle.acquire(late));
    await eventually(() => expect(proxy.bytesHeldUp).toBeGreaterThan(0));
    proxy.loseHeldUp();
    await refused;
    await proxy.deliverHeldUp();
    expect((await other.inspect(late.key)).mode).toBeNull();
    await resumes(idle, clock.now);
    await hasAllAnswers();
    idleMs = 600_000;
    expect(await idle.acquire(request({ notAfter: clock.now() + 300 }))).toMatchObject({ kind: 'granted' });
  });

  it('a renewal ends in a third of its lease when that is shorter than the timeout', async () => {
    const held = request({ leaseMs: 300 });
    await store.acquire(held);
    proxy.freeze();
    expect(await within(250, () => store.renew({ ...held }))).toMatchObject({ kind: 'unknown' });
    proxy.thaw();
  });
});

describe('a process that was stopped', () => {
  it('for longer than its timeouts reads the answers that came meanwhile', async () => {
    const direct = await openRedisStore(server.url, 'd', { commandTimeoutMs: 300 });
    const asked = [request(), request()].map((each) => direct.acquire({ ...each, notAfter: performance.now() + 2_000 }));
    await new Promise((resolve) => setImmediate(resolve));
    const until = performance.now() + 700;
    while (performance.now() < until);
    for (const outcome of await Promise.all(asked)) expect(outcome.kind).toBe('granted');
  });
});

describe('a server that fails', () => {
  it('when it is killed and comes back empty, fences go on rising, whatever its clock says', async () => {
    const ask = request();
    const before = (await store.acquire(ask)) as Extract<AcquireOutcome, { kind: 'granted' }>;
    await server.kill();
    await failure(store.acquire(request()));
    await server.start();
    await eventually(async () => {
      const again = (await store.acquire({ ...request({ key: ask.key }), queue: false })) as typeof before;
      expect(again.kind).toBe('granted');
      expect(again.grant.fence).toBeGreaterThan(before.grant.fence);
    });
    expect(await store.renew({ ...ask })).toEqual({ kind: 'lost' });
  });

  it('when it is too busy to SELECT the database of a new connection, nothing is granted in another one', async () => {
    const [near, far] = [await openRedisStore(`${server.url}/1`, 'n'), await openRedisStore(`${proxy.url}/1`, 'f', { commandTimeoutMs: 300 })];
    const held = request();
    expect(await near.acquire(held)).toMatchObject({ kind: 'granted' });
    await server.command('CONFIG', 'SET', 'lua-time-limit', 20);
    const operator = server.client();
    await operator.ping();
    const hog = server.client().eval('while true do end', 0).catch(() => undefined);
    const askFar = (): Promise<AcquireOutcome> => far.acquire(request({ key: held.key, queue: false }));
    await eventually(async () => expect((await failure(askFar())).message).toContain('BUSY'));
    // Valkey 9 lets SELECT through; then the connection is made, and scripts are refused on it.
    const lets = await operator.select(0).catch(() => 'refused');
    const before = proxy.accepted;
    proxy.resetConnections();
    await eventually(async () => {
      expect((await failure(askFar())).message).toContain(lets === 'OK' ? 'BUSY' : 'not connected (BUSY');
      expect(proxy.accepted).toBeGreaterThan(before);
    });
    await operator.script('KILL');
    await hog;
    const answers: string[] = [];
    await eventually(async () => {
      answers.push((await askFar()).kind);
    }, 10_000);
    expect(answers).toEqual(['busy']);
    await near.release(held);
  });
});

describe('a push connection that fails', () => {
  it('every waiter is told to ask when it is back', async () => {
    const held = request({ id: newId('o') });
    await other.acquire(held);
    const ask = request({ key: held.key });
    expect((await store.acquire(ask)).kind).toBe('waiting');
    proxy.resetConnections();
    await eventually(() => expect(wakes).toContainEqual({ kind: 'ask', key: ask.key, id: ask.id }));
  });
});

describe('A server that has become read-only', () => {
  /** How often the server was left. */
  function countLeavings({ redis: { connections } }: RedisStore): () => number {
    let ends = 0;
    connections.commands.events.on('end', () => ends++);
    return () => ends;
  }

  afterAll(() => closeStores());
  const redis = forAll(startRedis);

  it('is left once, not once for each of a hundred answers, and served from again when it can write', async () => {
    const store = await openRedisStore(redis.url, 'p1');
    const ask = () => acquireRequest({ queue: false, notAfter: performance.now() + 5_000 });
    const leavings = countLeavings(store);
    await redis.command('REPLICAOF', '127.0.0.1', 1);
    const answers = await Promise.allSettled(Array.from({ length: 100 }, () => store.acquire(ask())));
    expect(answers.every(({ status }) => status === 'rejected')).toBe(true);
    await redis.command('REPLICAOF', 'NO', 'ONE');
    let outcome;
    for (const until = performance.now() + 2_000; outcome === undefined && performance.now() < until; ) {
      outcome = await store.acquire(ask()).catch(() => new Promise<undefined>((resolve) => setTimeout(() => resolve(undefined), 20)));
    }
    expect(outcome).toMatchObject({ kind: 'granted' });
    expect(leavings()).toBe(1);
  });

  it.each(['acquire', 'renew', 'release'] as const)('is left also when it refuses the %s of one key, which is no error of the whole script', async (verb) => {
    const store = await openRedisStore(redis.url, verb);
    const request = (key: string) => acquireRequest({ key, permits: 1, notAfter: performance.now() + 5_000 });
    const [holder, waiter] = [request(verb), request(verb)];
    expect(await store.acquire(holder)).toMatchObject({ kind: 'granted' });
    expect(await store.acquire(waiter)).toMatchObject({ kind: 'waiting' });
    const leavings = countLeavings(store);
    await redis.command('REPLICAOF', '127.0.0.1', 1);
    const asked = { acquire: () => store.acquire(request('another')), renew: () => store.renew(holder), release: () => store.release(holder) };
    await asked[verb]().catch(() => undefined);
    const left = leavings();
    await redis.command('REPLICAOF', 'NO', 'ONE');
    expect(left).toBe(1);
  });
});
