/** acquire.lua on a real server: every code it returns, and what it leaves behind. */
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { LuaServer } from '../support/lua-server.js';

let lua: LuaServer;
beforeAll(async () => {
  lua = await LuaServer.start();
});
afterAll(() => lua.stop());

describe('acquire.lua', () => {
  it('returns a fence of sixteen digits for a free lock, which is the server time in µs', async () => {
    const before = await lua.now();
    const fence = await lua.lock('a0').acquire('p.1');
    expect(fence).toMatch(/^\d{16}$/);
    expect(Number(fence) / 1000).toBeGreaterThanOrEqual(before);
    expect(Number(fence) / 1000).toBeLessThan((await lua.now()) + 1);
  });

  it('returns 1 with the same grant when the same id asks again', async () => {
    const lock = lua.lock('a1');
    const { fence, grantedAt } = await lock.takes('p.1', { leaseMs: 4_000 });
    expect(await lock.acquire('p.1', { leaseMs: 9_000 })).toEqual([1, expect.any(Number), fence, 1, 1, grantedAt + 4_000, 0]);
  });

  it('returns 1 when several fences are asked for, and reserves them', async () => {
    const [first, second] = [lua.lock('a2'), lua.lock('a2')];
    const [code, , fence, fences] = (await first.acquire('p.1', { fences: 40 })) as number[];
    expect([code, fences]).toEqual([1, 40]);
    expect(await first.lastFence()).toBe(fence! + 39);
    await first.release('p.1');
    const next = await second.takes('p.2');
    expect(next.fence).toBeGreaterThan(fence! + 39);
  });

  it('returns 2 with the time until the lease ends to the first in line, and -1 to the others', async () => {
    const lock = lua.lock('a3');
    const { grantedAt } = await lock.takes('p.1', { leaseMs: 20_000 });
    const [code, now, askAgain] = (await lock.acquire('p.2')) as number[];
    expect([code, now! + askAgain!]).toEqual([2, grantedAt + 20_001]);
    expect(await lock.acquire('p.3')).toEqual([2, expect.any(Number), -1, '-']);
  });

  it('returns 2 once more to a waiter that asks again, which keeps its place', async () => {
    const lock = lua.lock('a4');
    await lock.acquire('p.1');
    await lock.acquire('p.2');
    await lock.acquire('p.3');
    expect(await lock.acquire('p.2')).toEqual([2, expect.any(Number), expect.any(Number), '-']);
    expect(((await lock.inspect()) as unknown[]).slice(8)).toEqual(['p.2', 'w', '-', 'p.3', 'w', '-']);
  });

  it('returns 3 when the lock is busy and no place is wanted, and takes none', async () => {
    const lock = lua.lock('a5');
    await lock.acquire('p.1', { leaseMs: 20_000 });
    const [code, , left] = (await lock.acquire('p.2', { queue: 0 })) as number[];
    expect(code).toBe(3);
    expect(left).toBeGreaterThan(15_000);
    expect(await lua.client.exists(lock.queueKey)).toBe(0);
  });

  it('returns 4 to an owner who reads and asks to write', async () => {
    const lock = lua.lock('a6');
    await lock.acquire('p.1', { mode: 'r', owner: 'o' });
    expect(await lock.acquire('p.2', { mode: 'w', owner: 'o' })).toEqual([4, expect.any(Number)]);
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

  it('hands a replaced hold on and queues behind, in one step', async () => {
    const lock = lua.lock('a9');
    await lock.acquire('p.1');
    await lock.acquire('p.2');
    expect(await lock.acquire('p.3', { replaces: 'p.1' })).toEqual([2, expect.any(Number), expect.any(Number), '-']);
    const state = (await lock.inspect()) as unknown[];
    expect([state[2], state[8]]).toEqual(['p.2', 'p.3']);
  });

  it('returns 10 more when the id to replace had ended or never was', async () => {
    const lock = lua.lock('a13');
    expect(((await lock.acquire('p.1', { replaces: 'p.0', leaseMs: 100 })) as number[])[0]).toBe(11);
    await lua.past((await lua.now()) + 100);
    expect(((await lock.acquire('p.2', { replaces: 'p.1' })) as number[])[0]).toBe(11);
    expect(((await lock.acquire('p.3', { replaces: 'p.1' })) as number[])[0]).toBe(12);
    expect(((await lock.acquire('p.4', { replaces: 'p.1', queue: 0 })) as number[])[0]).toBe(13);
    expect(await lock.release('p.3')).toBe(1);
    expect(((await lock.acquire('p.5', { replaces: 'p.2', fences: 16 })) as number[])[0]).toBe(1);
    expect(((await lock.acquire('p.6', { replaces: 'p.5' })) as number[])[0]).toBe(1);
  });

  it('does not take a queue for its own that outlived its lock', async () => {
    const lock = lua.lock('a10');
    await lock.acquire('p.1');
    await lock.acquire('p.2');
    await lua.client.del(lock.lockKey);
    await lock.acquire('p.3');
    await lock.acquire('p.4');
    expect(((await lock.inspect()) as unknown[]).slice(8)).toEqual(['p.4', 'w', '-']);
    expect(await lock.heartbeat('p.2')).toEqual([expect.any(Number), 0, 0, 0, 0, 0, 0]);
  });

  it('lets the lock go at the latest when the longest lease has passed, though the clock was set back an hour', async () => {
    const lock = lua.lock('a12');
    await lock.acquire('p.1');
    const record = (await lua.client.get(lock.lockKey)) as string;
    await lua.client.set(lock.lockKey, `${record.slice(0, 4)}${Number(record.slice(4, 17)) + 3_600_000}${record.slice(17)}`);
    expect(await lock.acquire('p.2')).toEqual([2, expect.any(Number), 60_001, '-']);
    const [now, , left] = (await lock.renew('p.1', 20_000)) as number[];
    expect(now! + left!).toBeLessThanOrEqual((await lua.now()) + 60_000);
  });

  it('keeps the keys for longer than the leases in them, and the queue for no longer than its lock', async () => {
    const lock = lua.lock('a11');
    await lock.acquire('p.1', { leaseMs: 500 });
    expect(await lua.client.pttl(lock.lockKey)).toBeGreaterThan(1_000);
    await lock.acquire('p.2');
    const [lockTtl, queueTtl] = [await lua.client.pttl(lock.lockKey), await lua.client.pttl(lock.queueKey)];
    expect(queueTtl).toBeGreaterThan(2_500);
    expect(lockTtl).toBeGreaterThan(queueTtl);
    await lock.renew('p.1', 600);
    await lock.heartbeat('p.2');
    expect(await lua.client.pttl(lock.lockKey)).toBeGreaterThan(await lua.client.pttl(lock.queueKey));
  });
});
