/** heartbeat.lua on a real server: every code it returns, and what a waiter's silence does. */
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { releaseCall } from '../../lib/stores/wire/lua.generated.js';
import { UNKNOWN_MEMORY } from '../../lib/stores/wire/redis-keys.js';
import { heartbeats, LuaServer, type LuaLock } from '../support/lua-server.js';

let lua: LuaServer;
beforeAll(async () => {
  lua = await LuaServer.start();
});
afterAll(() => lua.stop());

/** Makes a waiter one that was last heard of too long ago. */
async function fallSilent(lock: LuaLock, id: string): Promise<void> {
  const record = (await lua.client.hget(lock.queueKey, `@${id}`)) as string;
  await lua.client.hset(lock.queueKey, `@${id}`, `${(await lua.now()) - 1}${record.slice(13)}`);
}

const gone = [expect.any(Number), 0, 0, 0, 0, 0, 0];

describe('heartbeat.lua', () => {
  it('returns 2 to a waiter, with the time until the lease ends to the first in line', async () => {
    const lock = lua.lock('h1');
    const { grantedAt } = await lock.takes('p.0', { leaseMs: 20_000 });
    await lock.acquire('p.1');
    await lock.acquire('p.2');
    const [now, code, askAgain] = (await lock.heartbeat('p.1')) as number[];
    expect([code, now! + askAgain!]).toEqual([2, grantedAt + 20_001]);
    expect(await lock.heartbeat('p.2')).toEqual([expect.any(Number), 2, -1, '-', 0, 0, 0]);
  });

  it('returns 1 with the grant that was made since', async () => {
    const lock = lua.lock('h2');
    await lock.acquire('p.0');
    await lock.acquire('p.1', { fences: 4 });
    await lock.acquire('p.2', { mode: 'r' });
    await lock.release('p.0');
    const [, code, fence, fences, write, end, contended] = (await lock.heartbeat('p.2')) as number[];
    expect([code, fences, write, contended]).toEqual([1, 1, 0, 1]);
    expect(await lock.acquire('p.2')).toEqual([1, expect.any(Number), fence, 1, 0, end, 1]);
    await lock.release('p.2');
    expect(((await lock.heartbeat('p.1')) as number[]).slice(1, 5)).toEqual([1, expect.any(Number), 4, 1]);
  });

  it('returns 0 to who has no place, or lost it by its silence', async () => {
    const lock = lua.lock('h3');
    expect(await lock.heartbeat('p.1')).toEqual(gone);
    await lock.acquire('p.0');
    expect(await lock.heartbeat('p.1')).toEqual(gone);
    await lock.acquire('p.1');
    await fallSilent(lock, 'p.1');
    expect(await lock.heartbeat('p.1')).toEqual(gone);
    expect(await lua.client.exists(lock.queueKey)).toBe(0);
  });

  it('drops the silent ahead, however many, and lets in the first who is alive', async () => {
    const lock = lua.lock('h4');
    await lock.acquire('p.0');
    for (let i = 1; i <= 200; i++) await lock.acquire(`dead.${i}`);
    await lock.acquire('p.1');
    for (let i = 1; i <= 200; i++) await fallSilent(lock, `dead.${i}`);
    await lock.release('p.0');
    const [, code] = (await lock.heartbeat('p.1')) as number[];
    expect(code).toBe(1);
    expect(await lua.client.exists(lock.queueKey)).toBe(0);
  });

  it('lets readers in beside the present readers when the writer they queue behind has fallen silent', async () => {
    const lock = lua.lock('h5');
    await lock.acquire('p.0', { mode: 'r' });
    await lock.acquire('p.1', { mode: 'w' });
    await lock.acquire('p.2', { mode: 'r' });
    await fallSilent(lock, 'p.1');
    expect(((await lock.heartbeat('p.2')) as number[])[1]).toBe(1);
    expect(await lua.client.get(lock.lockKey)).toMatch(/^r01 .*p\.0 .*\n.*p\.2 /);
  });

  it('keeps places on a server whose memory is full, and lets in who is next', async () => {
    const lock = lua.lock('h7');
    await lock.acquire('p.0');
    await lock.acquire('p.1');
    await lock.acquire('p.2');
    await lua.client.config('SET', 'maxmemory', 1);
    try {
      const shipped = (id: string) => lua.shipped(heartbeats(lock, [id]));
      expect(await shipped('p.2')).toEqual([expect.any(Number), 2, -1, '-', 0, 0, 0]);
      expect(await lua.shipped(releaseCall(lock, { id: 'p.0', mayBeOver: true, floor: 0, abandoned: false, recoveryMs: 0, known: UNKNOWN_MEMORY }))).toBe(1);
      expect(((await shipped('p.1')) as number[])[1]).toBe(1);
    } finally {
      await lua.client.config('SET', 'maxmemory', 0);
    }
  });

  it('gives up the place of a waiter whose lease ends later than one can: the clock was set back', async () => {
    const lock = lua.lock('h8');
    await lock.acquire('p.0');
    await lock.acquire('p.1');
    const record = (await lua.client.hget(lock.queueKey, '@p.1')) as string;
    await lua.client.hset(lock.queueKey, '@p.1', `${Number(record.slice(0, 13)) + 3_600_000}${record.slice(13)}`);
    expect(await lock.heartbeat('p.1')).toEqual(gone);
    expect(((await lock.acquire('p.1')) as number[])[0]).toBe(2);
  });

  it('answers a batch in its order, also for several waiters of one lock', async () => {
    const lock = lua.lock('h6');
    await lock.acquire('p.0');
    await lock.acquire('p.1');
    await lock.acquire('p.2');
    const reply = (await lua.run(heartbeats(lock, ['p.2', 'p.9', 'p.0']))) as number[];
    expect([reply.length, reply[1], reply[7], reply[13]]).toEqual([19, 2, 0, 1]);
  });
});
