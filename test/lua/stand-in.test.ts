/** A server that forgot who holds a lock, and is told by those who waited for it, or were refused it. */
import { describe, expect, it } from '@jest/globals';
import { bringBackCall, forceReleaseCall, releaseCall, type BringBackArgs } from '../../lib/stores/wire/lua.generated.js';
import { UNKNOWN_MEMORY } from '../../lib/stores/wire/redis-keys.js';
import { LuaServer, type AcquireArguments, type LuaLock } from '../support/lua-server.js';
import { forAll } from '../support/started.js';

const lua = forAll(() => LuaServer.start());

const RECOVERS = { recoveryMs: 60, known: UNKNOWN_MEMORY } as const;

/** What a caller is told that is refused the lock. */
async function toldBy(lock: LuaLock, id: string, how: AcquireArguments = {}): Promise<string> {
  const reply = (await lock.acquire(id, { ...RECOVERS, queue: 0, ...how })) as (number | string)[];
  expect(reply[0]).toBe(3);
  return `0,${reply[3]}`;
}

/** The lock is held by these; then the server forgets it, and its recovery is over. Gives what was told before. */
async function forgotten(lock: LuaLock, holders: readonly string[], how: AcquireArguments = {}): Promise<string> {
  await lock.memory();
  for (const id of holders) await lock.takes(id, how);
  const told = await toldBy(lock, 'w.0', how.mode === 'r' ? {} : { ...how, owner: '-' });
  await lua.client.del(lock.lockKey, lock.queueKey, lock.fenceKey);
  await lock.memory(RECOVERS.recoveryMs);
  await lua.past((await lua.now()) + RECOVERS.recoveryMs);
  return told;
}

async function bringBack(lock: LuaLock, id: string, how: Partial<BringBackArgs> = {}): Promise<unknown> {
  const lease = { mode: 'write', leaseMs: 20_000, fence: 70, fences: 1, minHoldMs: 0, graceMs: 0, recoveryMs: RECOVERS.recoveryMs } as const;
  const [, code] = (await lua.run(bringBackCall(lock, { ...lease, id, notAfter: (await lua.now()) + 1_000, ...how }))) as number[];
  return code;
}

async function release(lock: LuaLock, id: string): Promise<unknown> {
  return lua.run(releaseCall(lock, { id, mayBeOver: true, floor: 0, abandoned: false, ...RECOVERS }));
}

/** With what code a waiter is answered that asks again. */
const waits = async (lock: LuaLock, id: string): Promise<unknown> => ((await lock.acquire(id, RECOVERS)) as unknown[])[0];

describe('Whoever was told that a lock is held, and asks again when the server has forgotten it,', () => {
  it('waits until the end that was told, and not longer', async () => {
    const lock = lua.lock('si1');
    const told = await forgotten(lock, ['h.1'], { leaseMs: 20_000 });
    const [code, , askAgainMs] = (await lock.acquire('w.1', { ...RECOVERS, told })) as number[];
    expect([code, askAgainMs]).toEqual([2, Number(told.split(',')[4]) + 1]);
    expect(await lock.acquire('n.1', { ...RECOVERS, queue: 0 })).toEqual([3, expect.any(Number), expect.any(Number), expect.any(String)]);
    const over = lua.lock('si2');
    const long = await forgotten(over, ['h.1'], { leaseMs: 20_000 });
    await over.takes('w.1', { ...RECOVERS, told: long.replace('0,', '31000,') });
  });

  it('waits for a whole lease from when the server forgot, because the holder may have renewed it until then', async () => {
    const [lock, other] = [lua.lock('si16'), lua.lock('si17')];
    await Promise.all([lock.takes('h.0'), other.takes('h.2', { leaseMs: 20_000 })]);
    expect(await waits(lock, 'h.1')).toBe(2);
    await release(lock, 'h.0');
    const left = async (of: LuaLock, leaseMs: number): Promise<number> => Number((await toldBy(of, 'w.1', { leaseMs })).split(',')[4]);
    expect([await waits(lock, 'h.1'), await left(lock, 1_000), await left(other, 41_000)]).toEqual([1, 30_000, 41_000]);
    const told = await forgotten(lua.lock('si18'), ['h.1'], { leaseMs: 20_000 });
    expect(Number((await toldBy(lua.lock('si18'), 'w.1', { told: told.replace('0,', '15000,') })).split(',')[4])).toBeGreaterThan(15_000);
  });

  it('waits until the latest end that any of them was told, whoever asks first', async () => {
    const lock = lua.lock('si14');
    const later = await forgotten(lock, ['h.1'], { leaseMs: 20_000 });
    const earlier = later.replace(/,\d{5},h/, ',5000,h');
    const lefts: number[] = [];
    for (const told of [earlier, later, earlier]) lefts.push(Number((await toldBy(lock, 'w.1', { told })).split(',')[4]));
    expect(lefts.map((left) => left > 15_000)).toEqual([false, true, true]);
  });

  it('keeps the lock from others also when it does not wait itself', async () => {
    const lock = lua.lock('si12');
    const told = await forgotten(lock, ['h.1']);
    await toldBy(lock, 'w.1', { told });
    await toldBy(lock, 'n.1');
  });

  it('has a place in the queue while the server recovers, as it had before', async () => {
    const lock = lua.lock('si3');
    const told = await forgotten(lock, ['h.1']);
    await lua.client.del(lock.fenceKey);
    expect(await lock.acquire('n.1', { ...RECOVERS, recoveryMs: 9_000 })).toEqual([7, expect.any(Number), expect.any(Number)]);
    expect(await lock.acquire('w.1', { ...RECOVERS, recoveryMs: 9_000, told })).toEqual([2, expect.any(Number), expect.any(Number), expect.any(String)]);
    expect(await waits(lock, 'w.1')).toBe(2);
  });

  it('waits on when the holder has brought its lease back, and is served when that is released', async () => {
    const lock = lua.lock('si4');
    const told = await forgotten(lock, ['h.1']);
    await lock.acquire('w.1', { ...RECOVERS, told });
    expect(await bringBack(lock, 'h.1')).toBe(1);
    expect(await waits(lock, 'w.1')).toBe(2);
    expect(await release(lock, 'h.1')).toBe(1);
    expect(await waits(lock, 'w.1')).toBe(1);
  });

  it('is served when the holder releases what was forgotten, who is not told that it lost it', async () => {
    const lock = lua.lock('si5');
    const told = await forgotten(lock, ['h.1']);
    await lock.acquire('w.1', { ...RECOVERS, told });
    expect(await release(lock, 'other.1')).toBe(0);
    expect(await waits(lock, 'w.1')).toBe(2);
    expect(await release(lock, 'h.1')).toBe(1);
    expect(await waits(lock, 'w.1')).toBe(1);
  });

  it('does not wait for a holder of whom the server has heard before: who released, or brought back and then released', async () => {
    const lock = lua.lock('si6');
    const told = await forgotten(lock, ['h.1']);
    await release(lock, 'h.1');
    await lock.takes('w.1', { ...RECOVERS, told });
    const back = lua.lock('si7');
    const before = await forgotten(back, ['h.1']);
    await bringBack(back, 'h.1');
    await release(back, 'h.1');
    await back.takes('w.1', { ...RECOVERS, told: before });
  });

  it.each([
    ['w', 'before the recovery is over'],
    ['r', 'before the recovery is over'],
    ['w', 'after it'],
  ] as const)('and whose place a replica kept that lagged behind, is not served from that place before it has said what it was told (the replica knows a holder before in mode %s, and it asks %s)', async (mode, when) => {
    const lock = lua.lock(`si ${mode} ${when}`);
    await lock.memory();
    await lock.takes('a.1', { ...RECOVERS, mode });
    await lock.acquire('h.1', RECOVERS);
    await lock.acquire('w.1', RECOVERS);
    const [record, places] = await Promise.all([lua.client.dumpBuffer(lock.lockKey), lua.client.dumpBuffer(lock.queueKey)]);
    await release(lock, 'a.1');
    await lock.renew('h.1', 20_000);
    const told = ((await lock.acquire('w.1', RECOVERS)) as string[])[3]!;
    expect(told).toMatch(/,w,\d+,\d+,h\.1$/);
    await lua.client.restore(lock.lockKey, 0, record, 'REPLACE');
    await lua.client.restore(lock.queueKey, 0, places, 'REPLACE');
    // The process of the holder is cut off, so that nobody listens there.
    await lua.client.hset(lock.queueKey, '@h.1', (await lua.client.hget(lock.queueKey, '@h.1'))!.replace(/ w3 /, ' w1 '));
    const fence = (await lua.client.get(lock.fenceKey))!;
    await lua.client.set(lock.fenceKey, fence.replace(/ .{8}/, ' 00000000'));
    const newMemory = await lock.memory(RECOVERS.recoveryMs);
    const asks = async (): Promise<void> => {
      await lock.acquire('n.1', { ...RECOVERS, queue: 0 });
      expect(await lock.holders()).not.toContain('w.1');
      await lock.acquire('w.1', { ...RECOVERS, told: `0,${told}`, known: newMemory });
    };
    if (when !== 'after it') await asks();
    await lua.past((await lua.now()) + RECOVERS.recoveryMs);
    if (when === 'after it') {
      await release(lock, 'a.1');
      await asks();
    }
    expect(await lock.holders()).toEqual([]); // but kept for h.1
    expect(await waits(lock, 'w.1')).toBe(2);
    expect(await bringBack(lock, 'h.1')).toBe(1);
    expect(await lock.holders()).toEqual(['h.1']);
  });

  it('and whose place an older state of the server has, is served when it asks again and nobody has the lock', async () => {
    const lock = lua.lock('si served');
    await lock.memory();
    await lock.takes('h.1', RECOVERS);
    await lock.acquire('w.1', RECOVERS);
    await lua.past(await lua.now());
    const fence = (await lua.client.get(lock.fenceKey))!;
    await lua.client.set(lock.fenceKey, fence.replace(/ .{8}/, ' 00000000'));
    const newMemory = await lock.memory(RECOVERS.recoveryMs);
    await lua.past((await lua.now()) + RECOVERS.recoveryMs);
    await release(lock, 'h.1');
    await toldBy(lock, 'n.1', { known: newMemory });
    await lock.takes('w.1', { ...RECOVERS, known: newMemory });
  });

  it.each(['w', 'r'] as const)('does not wait for a holder whom others followed before that, as the record shows that a restart kept (they hold it in mode %s), and they hold it as they did', async (mode) => {
    const lock = lua.lock(`si followed ${mode}`);
    await lock.memory();
    await lock.takes('h.1', { ...RECOVERS, mode: mode === 'w' ? 'r' : 'w' });
    const told = await toldBy(lock, 'w.1');
    await release(lock, 'h.1');
    await lock.takes('a.1', { ...RECOVERS, mode });
    const fence = (await lua.client.get(lock.fenceKey))!;
    await lua.client.set(lock.fenceKey, fence.replace(/ .{8}/, ' 00000000'));
    const newMemory = await lock.memory(RECOVERS.recoveryMs);
    await lua.past((await lua.now()) + RECOVERS.recoveryMs);
    expect(((await lock.acquire('w.1', { ...RECOVERS, told, known: newMemory })) as string[])[3]).toMatch(new RegExp(`,${mode},\\d+,\\d+,a\\.1$`));
    await release(lock, 'a.1');
    expect(await waits(lock, 'w.1')).toBe(1);
  });

  it('does not wait for a holder whose process has replaced its lease', async () => {
    const lock = lua.lock('si replaced');
    const told = await forgotten(lock, ['h.1']);
    expect(await toldBy(lock, 'w.1', { told })).toMatch(/,~h\.1$/);
    await lock.takes('n.1', { ...RECOVERS, replaces: 'h.1' });
    await release(lock, 'n.1');
    await lock.takes('w.1', { ...RECOVERS, told });
  });

  it.each([
    ['releases it', (lock: LuaLock) => release(lock, 'h.1')],
    ['brings it back before it releases it', async (lock: LuaLock) => [await bringBack(lock, 'h.1'), await lua.run(releaseCall(lock, { id: 'h.1', mayBeOver: false, floor: 0, abandoned: false, ...RECOVERS }))]],
  ])('does not wait for a holder whose record a restart kept, once its process %s', async (how, end) => {
    const lock = lua.lock(`si kept ${how}`);
    await lock.memory();
    await lock.takes('h.1', RECOVERS);
    const told = await toldBy(lock, 'w.1');
    await lua.past(await lua.now());
    await lua.client.set(lock.fenceKey, (await lua.client.get(lock.fenceKey))!.replace(/ .{8}/, ' 00000000'));
    await lock.memory(RECOVERS.recoveryMs);
    await lua.past((await lua.now()) + RECOVERS.recoveryMs);
    await end(lock);
    await lock.takes('w.1', { ...RECOVERS, told });
  });

  it('does not wait for a holder whose process asked for it while the server recovered', async () => {
    const lock = lua.lock('si asked');
    const told = await forgotten(lock, ['h.1']);
    await lua.client.del(lock.fenceKey);
    await lock.memory(RECOVERS.recoveryMs);
    expect(await waits(lock, 'h.1')).toBe(7);
    await lua.past((await lua.now()) + RECOVERS.recoveryMs);
    await lock.takes('w.1', { ...RECOVERS, told });
  });

  it('does not wait for a holder that asks for it when the recovery is over, or is told then that the hold which it adopts is gone', async () => {
    const [asking, adopting] = [lua.lock('si asks'), lua.lock('si adopts')];
    const [told, toldToo] = [await forgotten(asking, ['h.1']), await forgotten(adopting, ['h.1'])];
    expect(await toldBy(asking, 'w.1', { told })).toMatch(/,~h\.1$/);
    expect(await toldBy(adopting, 'w.1', { told: toldToo })).toMatch(/,~h\.1$/);
    await asking.takes('h.1', RECOVERS);
    expect(await adopting.acquire('h.1', { ...RECOVERS, takes: 'ticket', replaces: 't.1' })).toEqual([0, expect.any(Number), expect.any(String)]);
    await adopting.takes('w.1', { ...RECOVERS, told: toldToo });
  });

  it('is told of more than what is left of a lease, which may be renewed for the longer time that its holder asked for, and of a minHoldMs as it ends', async () => {
    const [held, owed] = [lua.lock('si renews'), lua.lock('si owes')];
    for (const lock of [held, owed]) await lock.takes('h.1', { leaseMs: 20_000, minHoldMs: lock === owed ? 90_000 : 0 });
    await lua.run(releaseCall(owed, { id: 'h.1', mayBeOver: true, floor: 0, abandoned: false, ...RECOVERS }));
    expect([await toldBy(held, 'w.1', { leaseMs: 1_000 }), await toldBy(owed, 'w.1', { leaseMs: 1_000 })]).toEqual([expect.stringMatching(/,(29...|30000),h/), expect.stringMatching(/,(89...|90000),~h/)]);
  });

  it('leaves no note when it only waited, and gives up', async () => {
    const lock = lua.lock('si note');
    await lock.takes('h.1', RECOVERS);
    await lua.past((await lua.now()) + 5_000);
    expect([await waits(lock, 'w.1'), await release(lock, 'w.1')]).toEqual([2, 1]);
    expect(await lua.client.exists(`${lock.fenceKey.slice(0, -1)}q:%heard`)).toBe(0);
  });

  it('does not wait for a holder whose process gives it back, although a replica knew only that it waited', async () => {
    const [lock, other] = [lua.lock('si place'), lua.lock('si other place')];
    const told = await forgotten(lock, ['h.1']);
    await other.takes('a.1');
    expect([await waits(other, 'h.1'), ((await lock.acquire('w.1', { ...RECOVERS, told })) as number[])[0]]).toEqual([2, 2]);
    await lua.client.restore(lock.queueKey, 0, await lua.client.dumpBuffer(other.queueKey), 'REPLACE');
    await release(lock, 'h.1');
    await lock.takes('w.1', { ...RECOVERS, told });
  });

  it('does not wait for a holder in whose place another has been heard of since', async () => {
    const lock = lua.lock('si heard');
    const told = await forgotten(lock, ['h.1']);
    expect(await bringBack(lock, 'a.1')).toBe(1);
    await lock.acquire('w.1', { ...RECOVERS, told });
    expect(await lock.holders()).toEqual(['a.1']);
    await release(lock, 'a.1');
    expect(await waits(lock, 'w.1')).toBe(1);
  });

  it.each([
    ['in this order', (told: string[]) => told],
    ['in the other order', (told: string[]) => told.reverse()],
  ])('waits for those of the last phase of whom anybody tells, when others tell of earlier ones (%s)', async (_, order) => {
    const lock = lua.lock(`si phases ${_}`);
    await lock.memory();
    const told: string[] = [];
    for (const [n, [mode, ...ids]] of [['w', 'h.1'], ['r', 'r.1', 'r.2'], ['w', 'h.2']].entries()) {
      for (const id of ids) await lock.takes(id, { ...RECOVERS, mode: mode as 'r' | 'w' });
      told.push(await toldBy(lock, `w.${n}`));
      if (n < 2) for (const id of ids) await release(lock, id);
    }
    await lua.client.del(lock.lockKey, lock.queueKey, lock.fenceKey);
    await lock.memory(RECOVERS.recoveryMs);
    for (const [n, each] of order(told).entries()) await lock.acquire(`w.${n}`, { ...RECOVERS, told: each });
    expect(await lua.client.get(lock.lockKey)).toMatch(/^w10 \d+ ~h\.2 \S+ 0 0 - -$/);
  });

  it('waits for all readers of whom it was told, and for no permit that was free', async () => {
    const lock = lua.lock('si8');
    const told = await forgotten(lock, ['r.1', 'r.2'], { mode: 'r' });
    await lock.acquire('w.1', { ...RECOVERS, told });
    await release(lock, 'r.1');
    expect(await waits(lock, 'w.1')).toBe(2);
    expect(await bringBack(lock, 'r.2', { mode: 'read' })).toBe(1);
    await release(lock, 'r.2');
    expect(await waits(lock, 'w.1')).toBe(1);
    const smtp = lua.lock('si9');
    const permits = await forgotten(smtp, ['p.1', 'p.2'], { permits: 2 });
    await release(smtp, 'p.1');
    await smtp.takes('p.3', { ...RECOVERS, permits: 2, told: permits });
    expect(await smtp.acquire('p.4', { ...RECOVERS, permits: 2, told: permits })).toEqual([2, expect.any(Number), -1, expect.any(String)].map((each, n) => (n === 2 ? expect.any(Number) : each)));
  });

  it('waits for all permits of which it was told where until then nobody kept the lock', async () => {
    const lock = lua.lock('si nobody');
    await lock.memory();
    for (const id of ['p.1', 'p.2']) await lock.takes(id, { ...RECOVERS, permits: 2 });
    await lock.acquire('w.1', { ...RECOVERS, permits: 2 });
    const told = await toldBy(lock, 'w.2', { permits: 2 });
    const record = (await lua.client.get(lock.lockKey))!;
    await lua.client.set(lock.lockKey, record.replace(/\d{13} p\.\d/g, '1700000000000 ended.1'));
    await lua.client.del(lock.fenceKey);
    await lock.acquire('n.1', { ...RECOVERS, permits: 2, queue: 0 });
    expect(await lua.client.get(lock.lockKey)).toMatch(/^p10 \d+ ~recovery .*$/);
    await toldBy(lock, 'w.2', { permits: 2, told });
    expect(await lua.client.get(lock.lockKey)).toMatch(/^p11 \d+ ~p\.1 .*\n\d+ ~p\.2 .*$/);
  });

  it('waits for a holder no longer when an operator takes the lock away, and does not tell of it again; what keeps the lock while the server recovers stays', async () => {
    const lock = lua.lock('si20');
    const told = await forgotten(lock, ['h.1']);
    await lock.acquire('w.1', { ...RECOVERS, told });
    const force = async (fence?: number) => ((await lua.run(forceReleaseCall(lock, { fence, notAfter: (await lua.now()) + 1_000, floor: 0, recoveryMs: RECOVERS.recoveryMs }))) as number[])[0];
    expect(await force(5)).toBe(0);
    expect([await waits(lock, 'w.1'), await force()]).toEqual([2, 1]);
    expect(await waits(lock, 'w.1')).toBe(1);
    await lua.client.del(lock.lockKey, lock.queueKey);
    await lock.takes('w.2', { ...RECOVERS, told });
    const again = lua.lock('si21');
    const before = await forgotten(again, ['h.1']);
    await lua.client.del(again.fenceKey);
    await again.acquire('w.1', { ...RECOVERS, recoveryMs: 9_000, told: before });
    expect(await lua.run(forceReleaseCall(again, { notAfter: (await lua.now()) + 1_000, floor: 0, recoveryMs: 9_000 }))).toEqual([1, expect.any(Number)]);
    expect(await lua.run(forceReleaseCall(again, { notAfter: (await lua.now()) + 1_000, floor: 0, recoveryMs: 9_000 }))).toEqual([0, expect.any(Number)]);
    expect(await waits(again, 'w.1')).toBe(2);
  });

  it('makes way for a holder that comes back, of whom it knew nothing', async () => {
    const lock = lua.lock('si10');
    const told = await forgotten(lock, ['h.1']);
    await lock.acquire('w.1', { ...RECOVERS, told });
    expect(await bringBack(lock, 'h.2')).toBe(1);
    await release(lock, 'h.2');
    expect(await waits(lock, 'w.1')).toBe(1);
  });

  it('S7: still stands for the other holds of an owner when one of them comes back, and ends before they do', async () => {
    const lock = lua.lock('si30');
    const told = await forgotten(lock, ['h.1', 'h.2'], { owner: 'o' });
    await lock.acquire('w.1', { ...RECOVERS, told });
    const lease = { owner: 'o', fence: Number(told.split(',')[3]) };
    expect(await bringBack(lock, 'h.1', lease)).toBe(1);
    await release(lock, 'h.1');
    expect(await waits(lock, 'w.1')).toBe(2);
    expect(await bringBack(lock, 'h.2', lease)).toBe(1);
    expect(await bringBack(lock, 'h.3', { fence: lease.fence })).toBe(0);
    await release(lock, 'h.2');
    expect(await waits(lock, 'w.1')).toBe(1);
  });

  it('S7: gives one permit, that which ends first, to a holder that comes back of whom nobody was told, and keeps the others', async () => {
    const lock = lua.lock('si31');
    const told = await forgotten(lock, ['h.1', 'h.2'], { permits: 2 });
    const [first, second] = [told.replace(/,\d+,h\.1/, ',9000,h.1'), told];
    await lock.acquire('w.1', { ...RECOVERS, permits: 2, told: first });
    expect(first).not.toBe(second);
    expect(await bringBack(lock, 'h.3', { mode: 'permit', owner: '2', fence: 71 })).toBe(1);
    const held = (await lua.client.get(lock.lockKey)) as string;
    expect([held.includes('~h.1 '), held.includes('~h.2 '), held.includes(' h.3 ')]).toEqual([false, true, true]);
    expect(((await lock.acquire('w.1', { ...RECOVERS, permits: 2 })) as unknown[])[0]).toBe(2);
    expect(await bringBack(lock, 'h.2', { mode: 'permit', owner: '2', fence: 72 })).toBe(1);
    expect(await bringBack(lock, 'h.4', { mode: 'permit', owner: '2', fence: 73 })).toBe(0);
  });

  it('is believed only where something was forgotten since', async () => {
    const lock = lua.lock('si11');
    await lock.memory();
    await lock.takes('h.1', RECOVERS);
    const told = await toldBy(lock, 'w.0');
    expect(await release(lock, 'h.1')).toBe(1);
    await lock.takes('w.1', { ...RECOVERS, told });
  });
});
