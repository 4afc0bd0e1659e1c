/** renew.lua on a real server: every code it returns, for one lock and for many. */
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { acquireCall } from '../../lib/stores/wire/lua.generated.js';
import { acquireArguments, LuaServer, renewal } from '../support/lua-server.js';

let lua: LuaServer;
beforeAll(async () => {
  lua = await LuaServer.start();
});
afterAll(() => lua.stop());

describe('renew.lua', () => {
  it('returns the time alone when all is as was asked for, and the ms until the new end and 1 while others wait', async () => {
    const lock = lua.lock('n1');
    await lock.acquire('p.1', { leaseMs: 1_000 });
    const reply = (await lock.renew('p.1', 9_000)) as [number];
    expect(reply).toEqual([expect.any(Number)]);
    expect(await lua.client.get(lock.lockKey)).toContain(`w00 ${reply[0] + 9_000} p.1 `);
    await lock.acquire('p.2');
    expect(await lock.renew('p.1', 10_000)).toEqual([expect.any(Number), 1, 10_000, 1]);
    expect(await lua.client.pttl(lock.lockKey)).toBeGreaterThan(10_000);
  });

  it('returns -1 for an id that never held, waits, has released or has ended', async () => {
    const lock = lua.lock('n2');
    const lost = [expect.any(Number), 1, -1, 0];
    expect(await lock.renew('p.1')).toEqual(lost);
    await lock.acquire('p.1');
    await lock.acquire('p.2');
    expect(await lock.renew('p.2')).toEqual(lost);
    await lock.release('p.1');
    expect(await lock.renew('p.1')).toEqual(lost);
    await lock.release('p.2');
    const { grantedAt } = await lock.takes('p.3', { leaseMs: 100 });
    await lua.past(grantedAt + 100);
    expect(await lock.renew('p.3')).toEqual(lost);
    expect(await lua.client.get(lock.lockKey)).toContain('p.3');
  });

  it('never brings the end of a lease forward', async () => {
    const lock = lua.lock('n3');
    const { grantedAt } = await lock.takes('p.1', { leaseMs: 20_000 });
    const [now, , left] = (await lock.renew('p.1', 500)) as number[];
    expect(now! + left!).toBe(grantedAt + 20_000);
  });

  it('renews one reader among several, and one whose minHoldMs has not passed, without the others', async () => {
    const lock = lua.lock('n4');
    await lock.acquire('p.1', { mode: 'r', leaseMs: 5_000 });
    await lock.acquire('p.2', { mode: 'r', leaseMs: 5_000, minHoldMs: 3_000 });
    expect(await lock.renew('p.2', 20_000)).toEqual([expect.any(Number), 1, 20_000, 0]);
    const [, , , , , first, , , , , , second] = (await lock.inspect()) as number[];
    expect(first).toBeLessThanOrEqual(5_000);
    expect(second).toBeGreaterThan(19_000);
    expect(await lua.client.pttl(lock.lockKey)).toBeGreaterThan(20_000);
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
      await lua.run(acquireCall(on, acquireArguments(`p.${i}`, { leaseMs: 1_000 })));
    }
    await lua.client.config('SET', 'maxmemory', 1);
    try {
      const reply = await lua.shipped(renewal(keys, [{ leaseMs: 9_000, ids: 'p.0 p.1' }]));
      expect(reply).toEqual([expect.any(Number)]);
    } finally {
      await lua.client.config('SET', 'maxmemory', 0);
    }
  });

  it('renews several holders of one lock in one batch, and each keeps its end', async () => {
    const lock = lua.lock('n9');
    await lock.acquire('p.1', { mode: 'r', leaseMs: 2_000 });
    await lock.acquire('p.2', { mode: 'r', leaseMs: 2_000 });
    await lua.run(renewal([lock.lockKey, lock.lockKey], [{ leaseMs: 20_000, ids: 'p.1 p.2' }]));
    const [, , , , , first, , , , , , second] = (await lock.inspect()) as number[];
    expect(first).toBeGreaterThan(19_000);
    expect(second).toBeGreaterThan(19_000);
  });

  it('gives each run of a batch its own length, and touches no key but those of the locks', async () => {
    // Locks of one slot group, as a batch in a Cluster has them.
    const keys = [0, 1, 2].map((i) => `{lock:7}:l:n${i}`);
    for (const i of [0, 2]) {
      const on = { lockKey: keys[i]!, queueKey: `{lock:7}:q:n${i}`, fenceKey: '{lock:7}:f' };
      await lua.run(acquireCall(on, acquireArguments(`p.${i}`, { leaseMs: 1_000 })));
    }
    const runs = [{ leaseMs: 5_000, ids: 'p.0 p.1' }, { leaseMs: 7_000, ids: 'p.2' }];
    expect(await lua.run(renewal(keys, runs))).toEqual([expect.any(Number), 2, -1, 0]);
    expect(await lua.client.pttl(keys[0]!)).toBeLessThanOrEqual(6_000);
    expect(await lua.client.pttl(keys[2]!)).toBeGreaterThan(6_500);
  });
});
