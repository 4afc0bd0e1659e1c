/** release.lua on a real server: every code it returns, in every place where an id can be. */
import { describe, expect, it } from '@jest/globals';
import { releaseCall } from '../../lib/stores/wire/lua.generated.js';
import { UNKNOWN_MEMORY } from '../../lib/stores/wire/redis-keys.js';
import { eventually } from '../support/eventually.js';
import { LuaServer } from '../support/lua-server.js';
import { forAll } from '../support/started.js';

const lua = forAll(() => LuaServer.start());

describe('release.lua', () => {
  // A release that comes in time by the caller's clock spares the script a look at the server's, and must be as careful.
  describe.each([{ mayBeOver: true }, { mayBeOver: false }])('of a caller who says %j', (said) => {
    it('is not misled by an id that begins or ends like the holder', async () => {
      const lock = lua.lock(`r3-${said.mayBeOver}`);
      await lock.acquire('p.12');
      for (const id of ['p.1', 'p.123', 'q.12', '.12', '~p.12', '-']) expect(await lock.release(id, said)).toBe(0);
      expect(await lock.release('p.12', said)).toBe(1);
      expect(await lock.release('p.12', said)).toBe(0);
    });
  });

  it('publishes the grant to the channel of the process whose turn it is', async () => {
    const lock = lua.lock('r5');
    const listener = lua.server.client();
    const heard: [string, string][] = [];
    listener.on('message', (channel: string, message: string) => heard.push([channel, message]));
    await listener.subscribe('{lock}:c:host.b');
    await lock.acquire('a.1');
    await lock.acquire('host.b.2', { leaseMs: 20_000, fences: 3 });
    await lock.release('a.1');
    await eventually(() => expect(heard).toHaveLength(1));
    const [, , fence, fences, , end] = (await lock.acquire('host.b.2')) as number[];
    expect(fences).toBe(3);
    expect(heard).toEqual([['{lock}:c:host.b', `g host.b.2 ${fence} 3 w ${end} 1500 0 r5`]]);
  });

  it('lets a waiter in for a short while, and makes it owe its minHoldMs with its first renewal', async () => {
    const lock = lua.lock('r6');
    await lock.acquire('p.0');
    await lock.acquire('p.1', { minHoldMs: 60_000 });
    await lock.release('p.0');
    const [, , leftMs] = (await lock.renew('p.1', 200)) as number[];
    expect(leftMs).toBeGreaterThan(30_000);
  });

  it('works on a server whose memory is full, with waiters and without', async () => {
    const lock = lua.lock('r7');
    const other = lua.lock('r7b');
    await lock.acquire('p.0');
    await lock.acquire('p.1');
    await other.acquire('p.2', { mode: 'r' });
    await other.acquire('p.3', { mode: 'r' });
    const released = (one: typeof lock, id: string) => releaseCall(one, { id, mayBeOver: true, floor: 0, abandoned: false, recoveryMs: 0, known: UNKNOWN_MEMORY });
    const replies = await lua.whenFull(released(lock, 'p.0'), released(lock, 'p.1'), released(other, 'p.2'), released(other, 'p.3'));
    expect(replies).toEqual([1, 1, 1, 1]);
  });
});
