/** hand-off.lua and adopt.lua: what becomes of a hold between two processes, and each thing that the scripts can answer. */
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { adoptCall, handOffCall, readAdoptHead, readAdoptHold, adoptHeadSize, type AdoptArgs, type ReplyItems } from '../../lib/stores/wire/lua.generated.js';
import { NEVER } from '../../lib/stores/wire/trial-lock.js';
import { LuaServer, type LuaLock } from '../support/lua-server.js';

let lua: LuaServer;
beforeAll(async () => {
  lua = await LuaServer.start();
});
afterAll(() => lua.stop());

const TICKET = 'giver.=abc';

async function handOff(lock: LuaLock, id: string, { withinMs = 5_000, stays = false, ticketId = TICKET, notAfter = NEVER } = {}): Promise<number[]> {
  return (await lua.run(handOffCall({ keys: [lock] }, { ticketId, withinMs, notAfter, holds: [{ id, stays }] }))) as number[];
}

async function adopt(lock: LuaLock, id: string, how: Partial<AdoptArgs> & { readonly floor?: number; readonly known?: string } = {}): Promise<ReplyItems> {
  const { floor = 0, known = await lock.memory(how.recoveryMs), ...terms } = how;
  const said = { ticketId: TICKET, ticketEnd: Number.MAX_SAFE_INTEGER, notAfter: (await lua.now()) + 5_000, leaseMs: 4_000, graceMs: 0, longestMs: 60_000, recoveryMs: 0, label: 'Payments.pay', ...terms };
  return (await lua.run(adoptCall({ keys: [lock] }, { ...said, holds: [{ id, floor, known }] }))) as ReplyItems;
}

const outcomeOf = (reply: ReplyItems): string => readAdoptHead(reply).outcome;

describe('hand-off.lua', () => {
  it('answers 1 and the end of the ticket, which stands in the place of the hold with its fence', async () => {
    const lock = lua.lock('ho1');
    const { fence } = await lock.takes('p.1', { label: 'Orders.order' });
    const [code, now, until] = await handOff(lock, 'p.1');
    expect(code).toBe(1);
    expect(until).toBe(now! + 5_000);
    expect(await lock.inspect()).toEqual(['w', 1, TICKET, fence, '-', expect.any(Number), 'Orders.order', 0]);
    expect(await lua.client.pttl(lock.lockKey)).toBeGreaterThan(5_000);
    expect(await lock.lastFence()).toBe(fence);
  });

  it('answers 2 and which hold is not there, and does nothing for any', async () => {
    const lock = lua.lock('ho2');
    expect(await handOff(lock, 'p.1')).toEqual([2, expect.any(Number), 1]);
    await lock.takes('p.1', { leaseMs: 100 });
    await lua.past((await lua.now()) + 110);
    expect((await handOff(lock, 'p.1'))[0]).toBe(2);
    expect(await lua.client.exists(lock.fenceKey)).toBe(1);
    const [, waits] = (await lock.acquire('p.2')) as string;
    expect(waits).toBeDefined();
    expect((await handOff(lock, 'p.3'))[0]).toBe(2);
    expect(((await lock.inspect()) as unknown[]).slice(0, 3)).toEqual(['w', 1, 'p.2']);
  });

  it('does not take the lock from a ticket that has it already, and does not move its end', async () => {
    const lock = lua.lock('ho3');
    await lock.takes('p.1');
    const [, , until] = await handOff(lock, 'p.1');
    expect(await handOff(lock, 'p.1', { withinMs: 30_000 })).toEqual([1, expect.any(Number), until]);
  });

  it('answers 3 after its limit, and nothing is done: a copy makes no second ticket of a used one, beside readers who stayed', async () => {
    const lock = lua.lock('ho6');
    await lock.takes('p.1', { mode: 'r' });
    const notAfter = (await lua.now()) + 200;
    expect((await handOff(lock, 'p.1', { stays: true, notAfter }))[0]).toBe(1);
    expect(outcomeOf(await adopt(lock, 'w.1'))).toBe('adopted');
    await lua.past(notAfter);
    expect(await handOff(lock, 'p.1', { stays: true, notAfter })).toEqual([3, expect.any(Number)]);
    expect(outcomeOf(await adopt(lock, 'w.2'))).toBe('gone');
    expect(await handOff(lock, 'p.9', { notAfter })).toEqual([3, expect.any(Number)]);
  });

  it('leaves the queue as it is, and does not let readers in beside a reader that waits for a writer', async () => {
    const lock = lua.lock('ho4');
    await lock.takes('p.1', { mode: 'r' });
    await lock.acquire('p.2');
    await lock.acquire('p.3', { mode: 'r' });
    await handOff(lock, 'p.1', { stays: true });
    const reply = (await lock.inspect()) as unknown[];
    expect(reply.filter((item) => typeof item === 'string' && /^(?:p\.|giver)/.test(item))).toEqual(['p.1', TICKET, 'p.3', 'p.2']);
  });

  it('works on a full server, on which the hold must leave its process too', async () => {
    const lock = lua.lock('ho5');
    await lock.takes('p.1');
    await lua.client.config('SET', 'maxmemory', '1');
    try {
      const { script, keys, args } = handOffCall({ keys: [lock] }, { ticketId: TICKET, withinMs: 5_000, notAfter: NEVER, holds: [{ id: 'p.1', stays: false }] });
      const [code] = (await lua.shipped({ script, keys, args })) as number[];
      expect(code).toBe(1);
    } finally {
      await lua.client.config('SET', 'maxmemory', '0');
    }
  });
});

describe('adopt.lua', () => {
  it('answers adopted with a fence above that of the giver, above what the caller saw, and above all of the slot group', async () => {
    const lock = lua.lock('ad1');
    const { fence } = await lock.takes('p.1', { fences: 16 });
    await handOff(lock, 'p.1');
    const floor = fence + 1_000_000_000;
    const reply = await adopt(lock, 'w.1', { floor, graceMs: 700 });
    const { now } = readAdoptHead(reply);
    expect(outcomeOf(reply)).toBe('adopted');
    const hold = readAdoptHold(reply, adoptHeadSize);
    expect(hold).toMatchObject({ mode: 'write', end: now + 4_000, minHoldMs: 0, contended: false, owner: undefined });
    expect(hold.fence).toBeGreaterThan(floor);
    expect(await lock.lastFence()).toBe(hold.fence);
    expect(await lua.client.get(lock.lockKey)).toMatch(new RegExp(` w\\.1 ${hold.fence} 1 0 - Payments\\.pay 700$`));
    expect(outcomeOf(await adopt(lock, 'w.1'))).toBe('adopted');
    expect(await lock.renew('w.1')).toEqual([expect.any(Number)]);
  });

  it('answers gone for a ticket that was adopted, that never was, and whose time is over', async () => {
    const lock = lua.lock('ad2');
    expect(outcomeOf(await adopt(lock, 'w.1'))).toBe('gone');
    await lock.takes('p.1');
    await handOff(lock, 'p.1', { withinMs: 50 });
    await lua.past((await lua.now()) + 55);
    expect(outcomeOf(await adopt(lock, 'w.2'))).toBe('gone');
    await lock.takes('p.2');
    await handOff(lock, 'p.2');
    await adopt(lock, 'w.3');
    expect(readAdoptHead(await adopt(lock, 'w.4'))).toMatchObject({ outcome: 'gone', detail: 1 });
    expect(((await lock.inspect()) as unknown[])[2]).toBe('w.3');
  });

  it('answers gone while only the minHoldMs of the hold keeps the lock taken', async () => {
    const lock = lua.lock('ad3');
    await lock.takes('p.1', { minHoldMs: 3_000 });
    await handOff(lock, 'p.1', { withinMs: 50 });
    await lua.past((await lua.now()) + 55);
    expect(outcomeOf(await adopt(lock, 'w.1'))).toBe('gone');
    expect(((await lock.acquire('w.2', { queue: 0 })) as number[])[0]).toBe(3);
  });

  it('answers gone after the end that the hand-off told, though a second hand-off has put the ticket there anew', async () => {
    const lock = lua.lock('ad6');
    await lock.takes('p.1');
    await handOff(lock, 'p.1');
    expect(outcomeOf(await adopt(lock, 'w.1', { ticketEnd: (await lua.now()) - 1 }))).toBe('gone');
    expect(((await lock.inspect()) as unknown[])[2]).toBe(TICKET);
    expect(outcomeOf(await adopt(lock, 'w.1', { ticketEnd: (await lua.now()) + 5_000 }))).toBe('adopted');
  });

  it('answers late after its limit, and nothing is done', async () => {
    const lock = lua.lock('ad4');
    await lock.takes('p.1');
    await handOff(lock, 'p.1');
    expect(outcomeOf(await adopt(lock, 'w.1', { notAfter: (await lua.now()) - 1 }))).toBe('late');
    expect(((await lock.inspect()) as unknown[])[2]).toBe(TICKET);
  });

  it('keeps the whole grace of an adopted hold, also behind a minHoldMs that is as long as a lease can be', async () => {
    const lock = lua.lock('ad7');
    await lock.takes('p.1', { minHoldMs: 60_000 });
    await handOff(lock, 'p.1');
    const { end } = readAdoptHold(await adopt(lock, 'w.1', { leaseMs: 1_000, graceMs: 5_000 }), adoptHeadSize);
    const [code, now, leftMs] = (await lock.acquire('w.2', { queue: 0 })) as number[];
    expect(code).toBe(3);
    expect(now! + leftMs!).toBeGreaterThan(end + 4_500);
  });

  it('answers recovering while a server that forgot waits for those who hold, also for a ticket that it has', async () => {
    const lock = lua.lock('ad5');
    await lock.takes('p.1');
    await handOff(lock, 'p.1');
    await lua.client.del(lock.fenceKey); // as after a restart from a snapshot: the ticket may have been adopted since
    const reply = await adopt(lock, 'w.1', { recoveryMs: 300 });
    expect(outcomeOf(reply)).toBe('recovering');
    expect(readAdoptHead(reply).detail).toBeGreaterThan(0);
    await lua.past((await lua.now()) + 310);
    expect(outcomeOf(await adopt(lock, 'w.1', { recoveryMs: 300 }))).toBe('adopted');
  });
});
