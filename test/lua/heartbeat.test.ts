/** heartbeat.lua on a real server: every code it returns, and what a waiter's silence does. */
import { describe, expect, it } from '@jest/globals';
import { releaseCall } from '../../lib/stores/wire/lua.generated.js';
import { UNKNOWN_MEMORY } from '../../lib/stores/wire/redis-keys.js';
import { heartbeats, LuaServer, type LuaLock } from '../support/lua-server.js';
import { forAll } from '../support/started.js';

const lua = forAll(() => LuaServer.start());

/** Makes a waiter one that was last heard of too long ago. */
async function fallSilent(lock: LuaLock, id: string): Promise<void> {
  const record = (await lua.client.hget(lock.queueKey, `@${id}`)) as string;
  await lua.client.hset(lock.queueKey, `@${id}`, `${(await lua.now()) - 1}${record.slice(13)}`);
}

const gone = [expect.any(Number), 0, 0, 0, 0, 0, 0];

describe('heartbeat.lua', () => {
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

  it('keeps places on a server whose memory is full, and lets in who is next', async () => {
    const lock = lua.lock('h7');
    await lock.acquire('p.0');
    await lock.acquire('p.1');
    await lock.acquire('p.2');
    const released = releaseCall(lock, { id: 'p.0', mayBeOver: true, floor: 0, abandoned: false, recoveryMs: 0, known: UNKNOWN_MEMORY });
    const [waits, code, letIn] = await lua.whenFull(heartbeats(lock, ['p.2']), released, heartbeats(lock, ['p.1']));
    expect([waits, code, (letIn as number[])[1]]).toEqual([[expect.any(Number), 2, -1, '-', 0, 0, 0], 1, 1]);
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
