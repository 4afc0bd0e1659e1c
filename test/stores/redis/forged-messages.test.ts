/** Messages from somebody who may publish, as every new user of Redis 6.2 may: a message says no more than its request could get. */
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import type { AcquireRequest, Wake } from '../../../lib/core/port/lock-store.js';
import { FenceFloors } from '../../../lib/stores/redis/remote-redis.js';
import { acquireCall, releaseCall, type BuiltCall } from '../../../lib/stores/wire/lua.generated.js';
import { RedisKeys, UNKNOWN_MEMORY } from '../../../lib/stores/wire/redis-keys.js';
import type { RedisStore } from '../../../lib/stores/redis/redis-store.js';
import { acquireRequest, granted, newId } from '../../support/acquire-request.js';
import { eventually } from '../../support/eventually.js';
import { acquireArguments } from '../../support/lua-server.js';
import { startRedis } from '../../support/redis-server.js';
import { closeStores, openRedisStore } from '../../support/redis-store.js';
import { forAll } from '../../support/started.js';

const keys = new RedisKeys('lock');
const DAY_US = 86_400_000_000;
const HIGHEST = Number.MAX_SAFE_INTEGER;
let holder: RedisStore;
let store: RedisStore;
let wakes: Wake[];

const server = forAll(startRedis);
beforeEach(async () => {
  holder = await openRedisStore(server.url, 'h');
  store = await openRedisStore(server.url, 'p');
  wakes = [];
  store.onWake((wake) => wakes.push(wake));
});
afterEach(async () => {
  await closeStores();
  await server.command('FLUSHALL');
});

function request(process: string, how: Partial<AcquireRequest> = {}): AcquireRequest {
  return acquireRequest({ key: 'k', id: newId(process), ...how });
}

/** A request that waits for a lock that another process holds. */
async function waiter(how?: Partial<AcquireRequest>): Promise<AcquireRequest> {
  granted(await holder.acquire(request('h')));
  const waiting = request('p', how);
  expect((await store.acquire(waiting)).kind).toBe('waiting');
  return waiting;
}

interface Forged {
  readonly fence?: number | string;
  readonly fences?: number;
  readonly mode?: 'w' | 'r';
  readonly endsInMs?: number;
  readonly lengthMs?: number;
}

/** As a script would publish it, but for what is forged. */
async function forge(id: string, { fence = 1_000 * Date.now() + 1_000, fences = 1, mode = 'w', endsInMs = 1_500, lengthMs = 1_500 }: Forged): Promise<void> {
  await server.command('PUBLISH', keys.channel('p'), `g ${id} ${fence} ${fences} ${mode} ${Date.now() + endsInMs} ${lengthMs} 0 k`);
}

describe('a forged grant', () => {
  const beyond: readonly (readonly [string, Forged, Partial<AcquireRequest>])[] = [
    ['longer than a first lease', { endsInMs: 60_000, lengthMs: 60_000 }, { leaseMs: 60_000 }],
    ['longer than the lease that was asked for', { endsInMs: 1_500, lengthMs: 1_500 }, { leaseMs: 1_000 }],
    ['with more fences than were asked for', { fences: 2 }, {}],
    ['for the other mode', { mode: 'r' }, {}],
    ['with a fence that is no whole number', { fence: '1795233600123456.5' }, {}],
    ['with a fence that is no number', { fence: 'x' }, {}],
    ['with a fence more than a day ahead of the server', { fence: 1_000 * Date.now() + DAY_US + 60_000_000 }, {}],
    ['with the highest fence that there is', { fence: HIGHEST }, {}],
  ];

  it.each(beyond)('%s is not believed: the store is asked', async (_, forged, how) => {
    const waiting = await waiter(how);
    await forge(waiting.id, forged);
    await eventually(() => expect(wakes).toContainEqual({ kind: 'ask', key: waiting.key, id: waiting.id }));
    expect(wakes.filter(({ kind }) => kind === 'granted')).toEqual([]);
    expect((await store.acquire(waiting)).kind).toBe('waiting');
  });

  it('with a fence that this process has seen used is not believed: the store is asked', async () => {
    const before = request('p');
    const { fence } = granted(await store.acquire(before));
    await store.release(before);
    const waiting = await waiter();
    await forge(waiting.id, { fence });
    await eventually(() => expect(wakes).toContainEqual({ kind: 'ask', key: waiting.key, id: waiting.id }));
    expect(wakes.filter(({ kind }) => kind === 'granted')).toEqual([]);
  });

  it('that could be true is trusted for a first lease at most, and lost at its first renewal', async () => {
    const waiting = await waiter();
    await forge(waiting.id, { endsInMs: 60_000 });
    await eventually(() => expect(wakes.map(({ kind }) => kind)).toEqual(['granted']));
    const [wake] = wakes as [Extract<Wake, { kind: 'granted' }>];
    expect(wake.grant.trustedUntil).toBeLessThan(performance.now() + 1_500);
    expect(await store.renew(waiting)).toEqual({ kind: 'lost' });
  });

  it('leaves the fences of its slot group as they are', async () => {
    const group = keys.groupOf('k');
    const waiting = await waiter();
    await forge(waiting.id, { fence: HIGHEST });
    await eventually(() => expect(wakes).toHaveLength(1));
    await holder.forceRelease('k');
    const fences: number[] = [];
    for (let round = 0; round < 3; round++) {
      const next = request('p');
      await store.release(waiting);
      fences.push(granted(await store.acquire(next)).fence);
      await store.release(next);
    }
    expect(new Set(fences).size).toBe(3);
    expect(parseInt(String(await server.command('GET', keys.fence(group))), 10)).toBeLessThan(1_000 * Date.now() + DAY_US);
  });

  it('of a hold that another process has does not take it away', async () => {
    const held = request('h');
    await holder.acquire(held);
    await forge(held.id, {});
    // Messages of one publisher come in order.
    const waiting = request('p', { key: 'other' });
    await holder.acquire(request('h', { key: 'other' }));
    await store.acquire(waiting);
    await forge(waiting.id, {});
    await eventually(() => expect(wakes.map(({ id }) => id)).toContain(waiting.id));
    expect(wakes.filter(({ id }) => id === held.id)).toEqual([]);
  });
});

describe('a server whose last fence is years ahead of its clock', () => {
  it('serves who waits, with fences that rise: what its message tells is asked for', async () => {
    const ahead = 1_000 * Date.now() + 9_000 * DAY_US;
    await server.command('SET', keys.fence(keys.groupOf('k')), ahead);
    const [held, waiting] = [request('h'), request('p')];
    const first = granted(await holder.acquire(held)).fence;
    expect((await store.acquire(waiting)).kind).toBe('waiting');
    await holder.release(held);
    // A connection that is made anew on a busy machine asks again.
    const heard = (): string[] => [...new Set(wakes.map(({ kind, id }) => `${kind} ${id}`))];
    await eventually(() => expect(heard()).toEqual([`ask ${waiting.id}`]));
    expect([first, granted(await store.acquire(waiting)).fence]).toEqual([ahead + 1, ahead + 2]);
  });
});

describe('a floor', () => {
  it('beyond any clock is cut by the process that would send it', () => {
    const floors = new FenceFloors();
    floors.saw(3, HIGHEST);
    expect(floors.highest[3]).toBe(2 ** 52);
    floors.saw(3, 2 ** 52 + 1);
    expect(floors.highest[3]).toBe(2 ** 52);
  });

  it('beyond any clock is cut by the script that is told it, and fences go on rising from there by one', async () => {
    const spot = keys.spotOf('k');
    const client = server.client();
    const run = ({ script, keys: names, args }: BuiltCall) => client.eval(script.source, names.length, ...names, ...args);
    const fences: unknown[] = [];
    for (const id of ['x.1', 'x.2', 'x.3']) {
      const reply = (await run(acquireCall(spot, acquireArguments(id, { leaseMs: 5_000, floor: HIGHEST })))) as number[];
      fences.push(reply[2]);
      await run(releaseCall(spot, { id, mayBeOver: true, floor: HIGHEST, abandoned: false, recoveryMs: 0, known: UNKNOWN_MEMORY }));
    }
    expect(fences).toEqual([2 ** 52 + 1, 2 ** 52 + 2, 2 ** 52 + 3]);
  });
});
