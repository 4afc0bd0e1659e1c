/** downgrade.lua, force-release.lua and inspect.lua on a real server: every code they return. */
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { eventually } from '../support/eventually.js';
import { LuaServer } from '../support/lua-server.js';

let lua: LuaServer;
beforeAll(async () => {
  lua = await LuaServer.start();
});
afterAll(() => lua.stop());

describe('downgrade.lua', () => {
  it('returns 1 and lets the queued readers in beside the one that was a writer', async () => {
    const lock = lua.lock('d1');
    const { fence } = await lock.takes('p.0');
    await lock.acquire('p.1', { mode: 'r' });
    await lock.acquire('p.2', { mode: 'w' });
    expect(await lock.downgrade('p.0')).toBe(1);
    const state = (await lock.inspect()) as unknown[];
    expect([state[0], state[1], state[2], state[3], state[8], state[14]]).toEqual(['r', 2, 'p.0', fence, 'p.1', 'p.2']);
    expect(await lock.downgrade('p.0')).toBe(1);
  });

  it('returns 0 to who does not hold', async () => {
    const lock = lua.lock('d2');
    expect(await lock.downgrade('p.0')).toBe(0);
    await lock.acquire('p.0');
    expect(await lock.downgrade('p.1')).toBe(0);
  });

  it('stays a write hold while another of the same owner still writes', async () => {
    const lock = lua.lock('d3');
    await lock.acquire('p.0', { owner: 'o' });
    await lock.acquire('q.0', { owner: 'o' });
    await lock.acquire('p.1', { mode: 'r' });
    expect(await lock.downgrade('p.0')).toBe(1);
    expect(((await lock.inspect()) as unknown[]).slice(0, 2)).toEqual(['w', 2]);
  });
});

describe('force-release.lua', () => {
  it('answers taken, takes the lock from all holders and lets in who waits', async () => {
    const lock = lua.lock('f1');
    await lock.acquire('p.0', { mode: 'r' });
    await lock.acquire('p.1', { mode: 'r' });
    await lock.acquire('p.2');
    expect(await lock.forceRelease()).toBe('taken');
    expect(((await lock.inspect()) as unknown[]).slice(0, 3)).toEqual(['w', 1, 'p.2']);
  });

  it('answers taken for any of the fences that a holder has reserved, and none for all others', async () => {
    const lock = lua.lock('f2');
    const { fence } = await lock.takes('p.0', { fences: 5 });
    expect(await lock.forceRelease(fence - 1)).toBe('none');
    expect(await lock.forceRelease(fence + 5)).toBe('none');
    expect(await lock.forceRelease(fence + 4)).toBe('taken');
    expect(await lock.forceRelease()).toBe('none');
    expect(await lua.client.exists(lock.lockKey)).toBe(0);
  });

  it('answers late after its limit, and nothing is done: a copy that was held up does not touch whoever has the lock then', async () => {
    const lock = lua.lock('f6');
    const { fence } = await lock.takes('p.0');
    await lock.acquire('p.1');
    const notAfter = (await lua.now()) - 1;
    expect([await lock.forceRelease(undefined, { notAfter }), await lock.forceRelease(fence, { notAfter })]).toEqual(['late', 'late']);
    const reply = (await lock.inspect()) as unknown[];
    expect([reply[2], reply[8]]).toEqual(['p.0', 'p.1']);
    expect(await lua.lock('f7').forceRelease(undefined, { notAfter })).toBe('late');
  });

  it('tells a grant that it made on its way, and then took away, in the mode in which it was made', async () => {
    const lock = lua.lock('f4');
    const listener = lua.server.client();
    const heard: string[] = [];
    listener.on('message', (_channel: string, message: string) => heard.push(message.split(' ').slice(0, message.startsWith('g') ? 5 : 3).join(' ')));
    await listener.subscribe('{lock}:c:f');
    const { grantedAt } = await lock.takes('p.0', { leaseMs: 100 });
    await lock.acquire('f.1', { mode: 'r' });
    await lock.acquire('f.2', { mode: 'w' });
    await lua.past(grantedAt + 100);
    expect(await lock.forceRelease()).toBe('taken');
    await eventually(() => expect(heard.filter((message) => !message.startsWith('c ')).map((message) => message.replace(/\d{16}/, 'fence'))).toEqual(['g f.1 fence 1 r', 'l f.1 f4', 'g f.2 fence 1 w']));
  });

  it('takes what is left of a minHoldMs, which nobody holds any more', async () => {
    const lock = lua.lock('f3');
    await lock.acquire('p.0', { minHoldMs: 20_000 });
    expect(await lock.release('p.0')).toBe(1);
    expect(await lock.release('p.0')).toBe(0);
    expect(((await lock.acquire('p.1', { queue: 0 })) as number[])[0]).toBe(3);
    expect(await lock.forceRelease()).toBe('taken');
    expect((await lock.takes('p.1')).fence).toBeGreaterThan(0);
  });
});

describe('A forced release of a lock that nobody holds', () => {
  it('answers none, also while the server recovers and keeps the lock for whoever brings it back', async () => {
    const lock = lua.lock('f5');
    const { grantedAt } = await lock.takes('p.0', { leaseMs: 100 });
    await lock.acquire('p.1');
    await lua.past(grantedAt + 100);
    await lua.client.del(lock.fenceKey);
    const forced = (): Promise<string> => lock.forceRelease(undefined, { recoveryMs: 20_000 });
    expect([await forced(), await forced()]).toEqual(['none', 'none']);
    expect(((await lock.inspect()) as unknown[]).slice(-3)).toEqual(['p.1', 'w', '-']);
  });
});

describe('inspect.lua', () => {
  it('returns nothing for a free lock', async () => {
    expect(await lua.lock('i1').inspect()).toEqual(['', 0]);
  });

  it('returns holders, then readers, then writers, each in the order they came', async () => {
    const lock = lua.lock('i2');
    await lock.acquire('p.0', { owner: 'o', label: 'Orders.pay', leaseMs: 20_000 });
    for (const [id, mode] of [['p.1', 'w'], ['p.2', 'r'], ['p.3', 'w'], ['p.4', 'r']] as const) await lock.acquire(id, { mode, label: `L${id}` });
    const [phase, count, id, fence, owner, left, label, graceMs, ...waiters] = (await lock.inspect()) as (string | number)[];
    expect([phase, count, id, owner, label, graceMs]).toEqual(['w', 1, 'p.0', 'o', 'Orders.pay', 0]);
    expect(String(fence)).toMatch(/^\d{16}$/);
    expect(left).toBeGreaterThan(15_000);
    expect(waiters).toEqual(['p.2', 'r', 'Lp.2', 'p.4', 'r', 'Lp.4', 'p.1', 'w', 'Lp.1', 'p.3', 'w', 'Lp.3']);
  });

  it('leaves out who has ended, and drops nothing', async () => {
    const lock = lua.lock('i3');
    const { grantedAt } = await lock.takes('p.0', { leaseMs: 100 });
    await lock.acquire('p.1');
    await lua.past(grantedAt + 100);
    const before = await lua.client.get(lock.lockKey);
    expect(await lock.inspect()).toEqual(['w', 0, 'p.1', 'w', '-']);
    expect(await lua.client.get(lock.lockKey)).toBe(before);
  });
});
