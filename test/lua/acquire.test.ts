/** acquire.lua on a real server: what the contract of the port does not say of it, its keys and its full servers. */
import { describe, expect, it } from '@jest/globals';
import { acquireCall, bringBackCall } from '../../lib/stores/wire/lua.generated.js';
import { acquireArguments, LuaServer, renewal } from '../support/lua-server.js';
import { forAll } from '../support/started.js';

const BROUGHT_BACK = { id: 'p.1', notAfter: 9_999_999_999_999, fence: 70, fences: 1, minHoldMs: 0, graceMs: 0, recoveryMs: 0, known: '-', ticketId: undefined, owner: undefined, label: undefined } as const;

const lua = forAll(() => LuaServer.start());

describe('acquire.lua', () => {
  it('returns a fence of sixteen digits for a free lock, which is the server time in µs', async () => {
    const lock = lua.lock('a0');
    const before = await lua.now();
    const fence = await lock.acquire('p.1');
    expect(fence).toMatch(/^\d{16}$/);
    expect(Number(fence) / 1000).toBeGreaterThanOrEqual(before);
    expect(Number(fence) / 1000).toBeLessThan((await lua.now()) + 1);
    await lock.release('p.1');
    const later = await lua.now();
    expect((await lock.takes('p.2', { minHoldMs: 1 })).fence / 1000).toBeGreaterThanOrEqual(later);
  });

  it('returns 5 after notAfter, and neither grants nor replaces', async () => {
    const lock = lua.lock('a7');
    await lock.acquire('p.1');
    const past = (await lua.now()) - 1;
    expect(await lock.acquire('p.2', { notAfter: past, replaces: 'p.1' })).toEqual([5, expect.any(Number)]);
    expect(await lock.release('p.1')).toBe(1);
    expect(await lock.acquire('p.3', { notAfter: past })).toEqual([5, expect.any(Number)]);
    expect(await lua.client.exists(lock.lockKey)).toBe(0);
  });

  it('grants above the floor that it is told, and above the last fence, whatever the clock says', async () => {
    const lock = lua.lock('a8');
    const ahead = 1_000 * (await lua.now()) + 7_200_000_000;
    const first = await lock.takes('p.1', { floor: ahead });
    expect(first.fence).toBe(ahead + 1);
    await lock.release('p.1');
    const second = await lock.takes('p.2');
    expect(second.fence).toBe(ahead + 2);
  });

  it('does not take a queue for its own that outlived its lock', async () => {
    const lock = lua.lock('a10');
    await lock.acquire('p.1');
    await lock.acquire('p.2', { mode: 'r' });
    await lua.client.del(lock.lockKey);
    await lock.acquire('p.3');
    await lock.acquire('p.4');
    expect(((await lock.inspect()) as unknown[]).slice(8)).toEqual(['p.4', 'w', '-']);
  });

  it('answers who waits with the hold that its owner got meanwhile', async () => {
    const lock = lua.lock('a16');
    await lock.acquire('p.0');
    for (const id of ['p.1', 'p.2']) await lock.acquire(id, { owner: 'o' });
    await lock.release('p.0');
    expect(await lock.acquire('p.2', { owner: 'o' })).toEqual([1, expect.any(Number), (await lock.takes('p.1', { owner: 'o' })).fence, 1, 1, expect.any(Number), 0]);
  });

  it('lets the lock go at the latest when the longest lease has passed, though the clock was set back an hour', async () => {
    const lock = lua.lock('a12');
    await lock.acquire('p.1');
    const record = (await lua.client.get(lock.lockKey)) as string;
    await lua.client.set(lock.lockKey, `${record.slice(0, 4)}${Number(record.slice(4, 17)) + 3_600_000}${record.slice(17)}`);
    expect(await lock.acquire('p.3', { queue: 0 })).toEqual([3, expect.any(Number), 60_001, '-']);
    const cut = (await lua.client.get(lock.lockKey)) as string;
    expect(Number(cut.slice(4, 17))).toBeLessThanOrEqual((await lua.now()) + 60_000);
    await lua.client.set(lock.lockKey, `${cut.slice(0, 4)}${Number(cut.slice(4, 17)) + 3_600_000}${cut.slice(17)}`);
    expect(await lock.acquire('p.2')).toEqual([2, expect.any(Number), 60_001, '-']);
    const [now, , left] = (await lock.renew('p.1', 20_000)) as number[];
    expect(now! + left!).toBeLessThanOrEqual((await lua.now()) + 60_000);
  });

  it.each(['acquired', 'renewed', 'kept for minHoldMs', 'brought back', 'let in from the queue with minHoldMs'])('does not shorten a lease that was longer than usual and is %s, whatever others with short ones do', async (how) => {
    const lock = lua.lock(`a15 ${how}`);
    const [long, short] = [{ mode: 'r', leaseMs: 7_200_000 }, { mode: 'r' }] as const;
    const atLeast = (await lua.now()) + 7_200_000;
    if (how === 'acquired') await lock.acquire('p.1', long);
    if (how === 'renewed') await lock.acquire('p.1', short);
    if (how === 'kept for minHoldMs') await lock.acquire('p.1', { ...short, minHoldMs: 7_200_000 });
    if (how === 'brought back') await lua.run(bringBackCall(lock, { ...BROUGHT_BACK, mode: 'read', leaseMs: 7_200_000 }));
    if (how === 'let in from the queue with minHoldMs') {
      await lock.acquire('p.0');
      await lock.acquire('p.1', { ...short, minHoldMs: 7_200_000 });
      await lock.release('p.0');
    }
    if (how === 'renewed' || how.startsWith('let in')) await lock.renew('p.1', how === 'renewed' ? 7_200_000 : 30_000);
    for (const id of ['p.2', 'p.3', 'p.4']) await lock.acquire(id, short);
    await lock.renew('p.2');
    await lock.release('p.3');
    await lock.acquire('p.5');
    await lock.acquire('p.5');
    const keptMs = await lua.client.pttl(lock.lockKey);
    const [, , , , , left] = (await lock.inspect()) as number[];
    expect((await lua.now()) + left!).toBeGreaterThanOrEqual(atLeast);
    expect(keptMs).toBeGreaterThan(left!);
  });

  it('keeps the keys for longer than the leases in them, and the queue for no longer than its lock', async () => {
    const lock = lua.lock('a11');
    await lock.acquire('p.1', { leaseMs: 2_000 });
    const keptMs = await lua.client.pttl(lock.lockKey);
    const [, , , , , leftMs] = (await lock.inspect()) as number[];
    expect(keptMs).toBeGreaterThan(leftMs!);
    const lockAndQueue = async (): Promise<number[]> => [await lua.client.pttl(lock.lockKey), await lua.client.pttl(lock.queueKey), 0];
    const isLongerThanTheNext = (ttls: readonly number[]): void => expect(ttls).toEqual([...new Set(ttls)].sort((a, b) => b - a));
    await lock.acquire('p.2');
    isLongerThanTheNext(await lockAndQueue());
    await lock.renew('p.1', 2_100);
    await lock.acquire('p.2');
    isLongerThanTheNext(await lockAndQueue());
  });
});

/** renew.lua on a real server: every code it returns, for one lock and for many. */
describe('renew.lua', () => {
  it('returns the time alone when all is as was asked for, and the ms until the new end and 1 while others wait', async () => {
    const lock = lua.lock('n1');
    await lock.acquire('p.1');
    const reply = (await lock.renew('p.1', 40_000)) as [number];
    expect(reply).toEqual([expect.any(Number)]);
    expect(await lua.client.get(lock.lockKey)).toContain(`w00 ${reply[0] + 40_000} p.1 `);
    await lock.acquire('p.2');
    expect(await lock.renew('p.1', 60_000)).toEqual([expect.any(Number), 1, 60_000, 1]);
    expect(await lua.client.pttl(lock.lockKey)).toBeGreaterThan(45_000);
  });

  it('brings an end from before the clock was set back to the latest that can be, of a crashed holder beside and of its own', async () => {
    const lock = lua.lock('n5');
    const setBack = async (): Promise<unknown> => {
      const record = (await lua.client.get(lock.lockKey)) as string;
      return lua.client.set(lock.lockKey, record.replace(/\d{13}(?= p\.)/g, (end) => String(Number(end) + 3_600_000)));
    };
    await lock.acquire('p.1', { mode: 'r', leaseMs: 5_000 });
    await setBack();
    expect(await lock.renew('p.1', 5_000)).toEqual([expect.any(Number), 1, 60_000, 0]);
    await lock.acquire('p.2', { mode: 'r', leaseMs: 5_000 });
    await setBack();
    await lock.renew('p.2', 5_000);
    const renewedBy = await lua.now();
    const [, , , , , crashed] = (await lock.inspect()) as number[];
    expect(crashed).toBeLessThanOrEqual(60_000);
    await lua.past(renewedBy + 50);
    await lock.renew('p.2', 5_000);
    const [, , , , , later] = (await lock.inspect()) as number[];
    expect(later).toBeLessThanOrEqual(60_000 - 50);
  });

  it('works on a server whose memory is full, also for a batch', async () => {
    const keys = [0, 1].map((i) => `{lock:8}:l:full${i}`);
    for (const i of [0, 1]) {
      const on = { lockKey: keys[i]!, queueKey: `{lock:8}:q:full${i}`, fenceKey: '{lock:8}:f' };
      await lua.run(acquireCall(on, acquireArguments(`p.${i}`)));
    }
    expect(await lua.whenFull(renewal(keys, [{ leaseMs: 40_000, ids: 'p.0 p.1' }]))).toEqual([[expect.any(Number)]]);
  });

  it('renews several holders of one lock in one batch, and each keeps its end', async () => {
    const lock = lua.lock('n9');
    await lock.acquire('p.1', { mode: 'r' });
    await lock.acquire('p.2', { mode: 'r' });
    await lua.run(renewal([lock.lockKey, lock.lockKey], [{ leaseMs: 60_000, ids: 'p.1 p.2' }]));
    const [, , , , , first, , , , , , second] = (await lock.inspect()) as number[];
    expect(first).toBeGreaterThan(30_000);
    expect(second).toBeGreaterThan(30_000);
  });

  it('gives each run of a batch its own length, and touches no key but those of the locks', async () => {
    // Locks of one slot group, as a batch in a Cluster has them.
    const keys = [0, 1, 2].map((i) => `{lock:7}:l:n${i}`);
    for (const i of [0, 2]) {
      const on = { lockKey: keys[i]!, queueKey: `{lock:7}:q:n${i}`, fenceKey: '{lock:7}:f' };
      await lua.run(acquireCall(on, acquireArguments(`p.${i}`)));
    }
    const runs = [{ leaseMs: 40_000, ids: 'p.0 p.1' }, { leaseMs: 60_000, ids: 'p.2' }];
    expect(await lua.run(renewal(keys, runs))).toEqual([expect.any(Number), 2, -1, 0]);
    expect(await lua.client.pttl(keys[0]!)).toBeLessThanOrEqual(41_000);
    expect(await lua.client.pttl(keys[2]!)).toBeGreaterThan(45_000);
  });
});
