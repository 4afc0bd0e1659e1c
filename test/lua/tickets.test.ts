/** What becomes of a hold between two processes, in acquire.lua: a ticket takes it, and a hold takes the ticket. */
import { describe, expect, it } from '@jest/globals';
import { acquireCall, readAcquire, type AcquireReply, type BuiltCall, type ReplyItems } from '../../lib/stores/wire/lua.generated.js';
import { NEVER } from '../../lib/stores/redis/boot-probe.js';
import { acquireArguments, LuaServer, type LuaLock } from '../support/lua-server.js';
import { forAll } from '../support/started.js';

const lua = forAll(() => LuaServer.start());

const TICKET = 'giver.=abc';

interface Adopting {
  readonly leaseMs?: number;
  readonly graceMs?: number;
  readonly floor?: number;
  readonly ticketEnd?: number;
  readonly notAfter?: number;
  readonly recoveryMs?: number;
}

function handOffCall(lock: LuaLock, id: string, { withinMs = 5_000, stays = false, notAfter = NEVER, floor = 0 } = {}): BuiltCall {
  return acquireCall(lock, acquireArguments(TICKET, { leaseMs: withinMs, floor, replaces: id, takes: stays ? 'beside' : 'hold', notAfter, queue: 0 }));
}

/** The code of the answer, and of a hand-off the time of the server and the end of the ticket. */
async function handOff(lock: LuaLock, id: string, how?: Parameters<typeof handOffCall>[2]): Promise<number[]> {
  const [code, now, , , , end] = (await lua.run(handOffCall(lock, id, { floor: await lock.lastFence(), ...how }))) as number[];
  return code === 9 ? [code, now!, end!] : [code!];
}

async function adopt(lock: LuaLock, id: string, { ticketEnd = Number.MAX_SAFE_INTEGER, graceMs = 0, ...how }: Adopting = {}): Promise<AcquireReply> {
  const terms = { leaseMs: 4_000, label: 'Payments.pay', known: await lock.memory(how.recoveryMs), notAfter: (await lua.now()) + 5_000, replaces: TICKET, takes: 'ticket', queue: 0 } as const;
  return readAcquire((await lua.run(acquireCall(lock, { ...acquireArguments(id, { ...terms, ...how }), minHoldMs: ticketEnd, graceMs }))) as ReplyItems);
}

const taken = (reply: AcquireReply): Extract<AcquireReply, { kind: 'taken' }> => {
  if (reply.kind !== 'taken') throw new Error(`expected an adoption, got ${reply.kind}`);
  return reply;
};

describe('A hand-off', () => {
  it('answers 9 and the end of the ticket, which stands in the place of the hold with its fence', async () => {
    const lock = lua.lock('ho1');
    const { fence } = await lock.takes('p.1', { label: 'Orders.order' });
    const [code, now, until] = await handOff(lock, 'p.1');
    expect(code).toBe(9);
    expect(until).toBe(now! + 5_000);
    const keptMs = await lua.client.pttl(lock.lockKey);
    const state = (await lock.inspect()) as unknown[];
    expect(state).toEqual(['w', 1, TICKET, fence, '-', expect.any(Number), 'Orders.order', 0]);
    expect(keptMs).toBeGreaterThan(Number(state[5]));
    expect(await lock.lastFence()).toBe(fence);
  });

  it('works on a full server, on which the hold must leave its process too', async () => {
    const lock = lua.lock('ho5');
    await lock.takes('p.1');
    const [reply] = await lua.whenFull(handOffCall(lock, 'p.1', { floor: await lock.lastFence() }));
    expect((reply as number[])[0]).toBe(9);
  });
});

describe('A network that delivers requests twice', () => {
  it('puts no ticket there anew after its adoption, by copies of the request for the hold and of its hand-off', async () => {
    const lock = lua.lock('tw1');
    const { fence: floor } = await lock.takes('p.1');
    await handOff(lock, 'p.1', { floor });
    taken(await adopt(lock, 'w.1'));
    await lock.release('w.1');
    await lock.takes('p.1');
    expect(await handOff(lock, 'p.1', { floor })).toEqual([0]);
    expect((await adopt(lock, 'w.2')).kind).toBe('gone');
  });
});

describe('An adoption', () => {
  it('answers adopted with a fence above that of the giver, above what the caller saw, and above all of the slot group', async () => {
    const lock = lua.lock('ad1');
    const { fence } = await lock.takes('p.1', { fences: 16 });
    await handOff(lock, 'p.1');
    const floor = fence + 1_000_000_000;
    const hold = taken(await adopt(lock, 'w.1', { floor, graceMs: 700 }));
    expect(hold).toMatchObject({ mode: 'write', end: hold.now + 4_000, minHoldMs: 0, contended: false, owner: undefined });
    expect(hold.fence).toBeGreaterThan(floor);
    expect(await lock.lastFence()).toBe(hold.fence);
    expect(await lua.client.get(lock.lockKey)).toMatch(new RegExp(` w\\.1 ${hold.fence} 1 0 - Payments\\.pay 700 0 0$`));
    expect((await adopt(lock, 'w.1')).kind).toBe('taken');
    expect(await lock.renew('w.1')).toEqual([expect.any(Number)]);
  });

  it('keeps the whole grace of an adopted hold, also behind a minHoldMs that is as long as a lease can be', async () => {
    const lock = lua.lock('ad7');
    await lock.takes('p.1', { minHoldMs: 60_000 });
    await handOff(lock, 'p.1');
    const { end } = taken(await adopt(lock, 'w.1', { leaseMs: 1_000, graceMs: 5_000 }));
    const [code, now, leftMs] = (await lock.acquire('w.2', { queue: 0 })) as number[];
    expect(code).toBe(3);
    expect(now! + leftMs!).toBeGreaterThan(end + 4_500);
  });

  it('answers recovering while a server that forgot waits for those who hold, also for a ticket that it has', async () => {
    const lock = lua.lock('ad5');
    await lock.takes('p.1');
    await handOff(lock, 'p.1');
    await lua.client.del(lock.fenceKey); // as after a restart from a snapshot: the ticket may have been adopted since
    expect(await adopt(lock, 'w.1', { recoveryMs: 300 })).toMatchObject({ kind: 'recovering', leftMs: expect.any(Number) });
    await lua.past((await lua.now()) + 310);
    expect((await adopt(lock, 'w.1', { recoveryMs: 300 })).kind).toBe('taken');
  });
});
