/** recall.lua and bring-back.lua: what a server that forgot is told, and what it believes. */
import { describe, expect, it } from '@jest/globals';
import { bringBackCall, recallCall, releaseCall, type BringBackArgs } from '../../lib/stores/wire/lua.generated.js';
import { eventually } from '../support/eventually.js';
import { LuaServer, type LuaLock } from '../support/lua-server.js';
import { forAll } from '../support/started.js';

const lua = forAll(() => LuaServer.start());

const lease = { mode: 'write', leaseMs: 5_000, fences: 1, minHoldMs: 0, graceMs: 0, recoveryMs: 10_000, label: 'Orders.pay' } as const;

async function bringBack(lock: LuaLock, id: string, how: Partial<BringBackArgs> & { readonly fence: number }): Promise<unknown> {
  const notAfter = (await lua.now()) + 60_000;
  const [, code] = (await lua.run(bringBackCall(lock, { ...lease, id, notAfter, ...how }))) as number[];
  return code;
}

describe('bring-back.lua', () => {
  it('brings a lease back that the server forgot, under its id and fence, and raises the last fence above it', async () => {
    const lock = lua.lock('bb1');
    const fence = 2 ** 51;
    expect(await bringBack(lock, 'p.1', { fence, fences: 3 })).toBe(1);
    expect((await lock.inspect()) as unknown[]).toEqual(['w', 1, 'p.1', fence, '-', expect.any(Number), 'Orders.pay', 0]);
    expect(await lock.lastFence()).toBe(fence + 2);
  });

  it('keeps the grace of a lease that is brought back behind its end, which is answered without it', async () => {
    const lock = lua.lock('bb6');
    const call = bringBackCall(lock, { ...lease, id: 'p.1', notAfter: (await lua.now()) + 60_000, fence: 70, graceMs: 700 });
    const [, , leftMs] = (await lua.run(call)) as number[];
    expect(leftMs).toBe(5_000);
    expect(await lua.client.get(lock.lockKey)).toMatch(/ Orders\.pay 700 0 0$/);
    const keptMs = await lua.client.pttl(lock.lockKey);
    expect(keptMs).toBeGreaterThan(Number(((await lock.inspect()) as unknown[])[5]));
  });

  it('does not bring back a lease whose trust has ended', async () => {
    const lock = lua.lock('bb2');
    expect(await bringBack(lock, 'p.1', { fence: 70, notAfter: (await lua.now()) - 1 })).toBe(2);
    expect(await lock.inspect()).toEqual(['', 0]);
  });

  it('tells a holder that it lost what the memory that knew it still has and does not find', async () => {
    const lock = lua.lock('bb3');
    expect(await bringBack(lock, 'p.1', { fence: 70, knownBy: await lock.memory(10_000) })).toBe(0);
    expect(await lock.inspect()).toEqual(['', 0]);
  });

  it('notices by the fence of a lease that the records of the server were put back to an earlier state', async () => {
    const lock = lua.lock('bb8');
    const known = await lock.memory();
    // A memory is named after the millisecond from which it counts.
    await lua.past(await lua.now());
    expect(await bringBack(lock, 'p.1', { fence: (await lock.lastFence()) + 5, knownBy: known })).toBe(1);
    expect(await lock.memory(10_000)).not.toBe(known);
  });

  it('gives the lock to the newer fence while the server recovers, whichever comes first', async () => {
    const lock = lua.lock('bb4');
    expect(await bringBack(lock, 'old.1', { fence: 70 })).toBe(1);
    expect(await bringBack(lock, 'new.1', { fence: 80 })).toBe(1);
    expect(await bringBack(lock, 'old.1', { fence: 70 })).toBe(0);
    expect(((await lock.inspect()) as unknown[]).slice(0, 4)).toEqual(['w', 1, 'new.1', 80]);
  });
});

describe('A lease that comes back to a server with an older record of its lock', () => {
  const idsIn = async (lock: LuaLock): Promise<unknown[]> => ((await lock.inspect()) as unknown[]).filter((item) => typeof item === 'string' && /^(?:p|q|giver)\./.test(item));

  it('takes the place of an earlier hold of its owner, and stands beside those that share its fence', async () => {
    const lock = lua.lock('bb20');
    const owner = 'job-7';
    expect(await bringBack(lock, 'p.dead', { fence: 70, owner })).toBe(1);
    expect(await bringBack(lock, 'p.1', { fence: 80, owner })).toBe(1);
    expect(await bringBack(lock, 'p.2', { fence: 80, owner })).toBe(1);
    expect(await bringBack(lock, 'p.dead', { fence: 70, owner })).toBe(0);
    expect(await idsIn(lock)).toEqual(['p.1', 'p.2']);
  });

  it.each([1, 2])('shares its fence with further holds of its owner only when its process was heard of since the server forgot (%i in the record)', async (count) => {
    const [silent, heard] = [lua.lock(`bb25 ${count}`), lua.lock(`bb26 ${count}`)];
    const owner = 'job-7';
    for (const lock of [silent, heard]) {
      for (let n = 1; n <= count; n++) await lock.acquire(`p.${n}`, { owner });
      const fence = await lock.lastFence();
      await lua.past(await lua.now());
      await lua.client.del(lock.fenceKey);
      if (lock === heard) expect(await bringBack(lock, 'p.1', { fence, owner, recoveryMs: 0 })).toBe(1);
      const [, , shared] = (await lock.acquire('q.1', { owner })) as number[];
      if (lock === heard) expect(shared).toBe(fence);
      else expect(shared).toBeGreaterThan(fence);
      const [, , next] = (await lock.acquire('q.2', { owner })) as number[];
      expect(next).toBe(shared);
    }
  });

  it('reads beside other readers, though its owner wrote in the record', async () => {
    const lock = lua.lock('bb21');
    expect(await bringBack(lock, 'p.dead', { fence: 70, owner: 'job-7' })).toBe(1);
    expect(await bringBack(lock, 'p.1', { mode: 'read', fence: 80, owner: 'job-7' })).toBe(1);
    expect(await bringBack(lock, 'q.1', { mode: 'read', fence: 81 })).toBe(1);
    expect(await idsIn(lock)).toEqual(['p.1', 'q.1']);
  });

  it('reads beside other readers, though it wrote in the record, before its downgrade', async () => {
    const lock = lua.lock('bb22');
    expect(await bringBack(lock, 'p.1', { fence: 70 })).toBe(1);
    expect(await bringBack(lock, 'p.1', { mode: 'read', fence: 70 })).toBe(1);
    expect(await bringBack(lock, 'q.1', { mode: 'read', fence: 71 })).toBe(1);
    expect(await idsIn(lock)).toEqual(['p.1', 'q.1']);
  });

  it.each([{ mode: 'read', owner: undefined }, { mode: 'permit', owner: '2' }, { mode: 'write', owner: 'job-7' }] as const)(
    'leaves nothing of the ticket of which it was made ($mode), so that nobody else adopts that',
    async ({ mode, owner }) => {
      const lock = lua.lock(`bb23 ${mode}`);
      const ticketId = 'giver.=abc';
      expect(await bringBack(lock, ticketId, { mode, fence: 70, owner })).toBe(1);
      expect(await bringBack(lock, 'p.1', { mode, fence: 80, owner, ticketId })).toBe(1);
      expect(await idsIn(lock)).toEqual(['p.1']);
    },
  );

  it('lasts for what is left of its minHoldMs, as it did before', async () => {
    const lock = lua.lock('bb24');
    const call = bringBackCall(lock, { ...lease, id: 'p.1', notAfter: (await lua.now()) + 60_000, fence: 70, minHoldMs: 20_000 });
    const [, , leftMs] = (await lua.run(call)) as number[];
    expect(leftMs).toBe(20_000);
  });
});

describe('A slot group that recovers', () => {
  /** It forgot so long ago, and lets nobody new in for so long. */
  async function recovering(key: string, sinceMs: number, forMs: number): Promise<LuaLock> {
    const lock = lua.lock(key);
    const memory = await lock.memory();
    const now = await lua.now();
    await lua.client.set(lock.fenceKey, `70 ${memory.slice(0, 17)}${now - sinceMs} ${now + forMs}`);
    return lock;
  }

  /** What a process says of its holds. Answers when that was, and until when the group lets nobody new in. */
  async function says(lock: LuaLock, process: string, holds: boolean): Promise<{ at: number; until: number }> {
    const call = recallCall({ keys: [lock] }, { process, recoveryMs: 1, groups: [{ floor: 0, holds }] });
    const [at, leftMs] = (await lua.run(call)) as [number, number];
    return { at, until: at + leftMs };
  }

  async function claims(lock: LuaLock, process: string): Promise<number> {
    const { at, until } = await says(lock, process, true);
    expect(until).toBe(at + 5_000);
    return until;
  }

  it('stays closed for 5 s from the last claim, and for 15 s from when the server forgot', async () => {
    const lock = await recovering('bb14', 1_000, 500);
    await claims(lock, 'p');
    expect(await lock.acquire('q.1')).toEqual([7, expect.any(Number), expect.any(Number)]);
    const longAgo = await recovering('bb15', 12_000, 500);
    const forgotAt = Number((await lua.client.get(longAgo.fenceKey))!.slice(20, 33));
    expect((await says(longAgo, 'p', true)).until).toBe(forgotAt + 15_000);
    const longest = await recovering('bb16', 16_000, 20_000);
    const until = Number((await lua.client.get(longest.fenceKey))!.split(' ')[2]);
    expect((await says(longest, 'p', true)).until).toBe(until);
  });

  it('opens when all who claimed it have said that they are through, each for itself', async () => {
    const lock = await recovering('bb17', 2_000, -1);
    await claims(lock, 'p-1');
    await claims(lock, 'p');
    const until = await claims(lock, 'p');
    expect(await says(lock, 'p', false)).toMatchObject({ until });
    expect(await says(lock, 'other', false)).toMatchObject({ until });
    const through = await says(lock, 'p-1', false);
    expect(through.until).toBe(through.at);
    await lock.takes('q.1');
  });

  it('is claimed also when its time is over, as long as nobody new was let in', async () => {
    const lock = await recovering('bb18', 2_000, -500);
    const { at, until } = await says(lock, 'q', false);
    expect(until).toBe(at);
    await claims(lock, 'p');
    const late = await recovering('bb19', 2_000, -500);
    await late.takes('q.1');
    const claimed = await says(late, 'p', true);
    expect(claimed.until).toBe(claimed.at);
  });

  it('is told to all processes by its number, by the first script that finds that it forgot', async () => {
    const lock = lua.lock('bb20');
    const heard: string[] = [];
    const listener = lua.client.duplicate();
    await listener.subscribe(`${lock.fenceKey.replace(/:\d+}.*$/, '')}}:c:~`);
    listener.on('message', (_channel, message: string) => heard.push(message));
    await lua.client.del(lock.fenceKey);
    await claims(lock, 'p');
    await claims(lock, 'q');
    const group = /:(\d+)}/.exec(lock.fenceKey)![1]!;
    await eventually(() => expect(heard).toEqual([expect.stringMatching(new RegExp(`^f \\S{30} ${group}$`))]));
    listener.disconnect();
  });
});

describe('A server that forgot, and has let nobody new in since,', () => {
  const recovering = { recoveryMs: 10_000, known: 'a'.repeat(16) + ':1700000000000' } as const;

  async function takenAndForgotten(key: string): Promise<LuaLock> {
    const lock = lua.lock(key);
    await lock.takes('p.1');
    await lua.client.del(lock.lockKey, lock.fenceKey);
    return lock;
  }

  it('counts a hold as released that is replaced by the next request of its process', async () => {
    const lock = await takenAndForgotten('bb9');
    expect(await lock.acquire('p.2', { ...recovering, replaces: 'p.1' })).toEqual([7, expect.any(Number), 10_000]);
  });

  it('counts a hold as released that was not brought back yet, also beside readers that were', async () => {
    const lock = await takenAndForgotten('bb10');
    const released = (): Promise<unknown> => lua.run(releaseCall(lock, { id: 'p.1', mayBeOver: true, floor: 0, abandoned: false, ...recovering }));
    expect(await released()).toBe(1);
    expect(await bringBack(lock, 'q.1', { mode: 'read', fence: 70 })).toBe(1);
    expect(await released()).toBe(1);
  });

  it('tells who releases a hold that it lost it, once somebody new may have been let in', async () => {
    const lock = await takenAndForgotten('bb11');
    await lock.memory(1);
    await lua.past((await lua.now()) + 2);
    await lock.takes('q.1');
    await lock.release('q.1');
    expect(await lua.run(releaseCall(lock, { id: 'p.1', mayBeOver: true, floor: 0, abandoned: false, ...recovering }))).toBe(0);
  });
});

/** Stands before a script and answers INFO and CLUSTER MYID as a node of a Cluster does that calls its mode `mode`. */
function asClusterNode(mode: string): string {
  const info = `'run_id:' .. string.rep('a', 40) .. '\\r\\n${mode}:cluster\\r\\n'`;
  const answer = `if name == 'INFO' then return ${info} elseif name == 'CLUSTER' then return string.rep('b', 40) end`;
  return `local server = redis local redis = { call = server.call, pcall = function(name, ...) ${answer} return server.pcall(name, ...) end } `;
}

describe('recall.lua', () => {
  it.each(['redis_mode', 'server_mode'])('names the node in the memory of a Cluster whose INFO says %s, as Redis and Valkey do', async (mode) => {
    const lock = lua.lock(`bb7:${mode}`);
    const { script, keys, args } = recallCall({ keys: [{ fenceKey: lock.fenceKey }] }, { process: 'p', recoveryMs: 0, groups: [{ floor: 0, holds: false }] });
    const [, , [[memory]]] = (await lua.client.eval(asClusterNode(mode) + script.source, keys.length, ...keys, ...args)) as [number, number, [[string]]];
    expect(memory).toMatch(/^aaaaaaaabbbbbbbb@\d{13}$/);
  });

  it('raises the last fence to what any process has seen, and begins a recovery when the server should have known it', async () => {
    const lock = lua.lock('bb5');
    await lock.memory();
    const seen = 2 ** 51;
    const recalled = async (floor: number, recoveryMs: number): Promise<unknown> =>
      ((await lua.run(recallCall({ keys: [{ fenceKey: lock.fenceKey }] }, { process: 'p', recoveryMs, groups: [{ floor: floor, holds: false }] }))) as number[])[1];
    expect(await recalled(seen, 0)).toBe(0);
    expect(await lock.lastFence()).toBe(seen);
    expect((await lock.takes('p.1')).fence).toBe(seen + 1);
    expect(await recalled(seen + 1, 5_000)).toBe(0);
    expect(await recalled(seen + 2, 5_000)).toBe(5_000);
  });

  it('keeps a server that forgot closed for the longest recoveryMs of those who come before it lets anybody in', async () => {
    const lock = lua.lock('bb12');
    const begun = await lua.now();
    const recall = async (recoveryMs: number): Promise<number[]> => (await lua.run(recallCall({ keys: [{ fenceKey: lock.fenceKey }] }, { process: 'p', recoveryMs, groups: [{ floor: 0, holds: false }] }))) as number[];
    const opensAt = async (recoveryMs: number): Promise<number> => {
      const [now, leftMs] = await recall(recoveryMs);
      return now! + leftMs!;
    };
    const first = await opensAt(5_000);
    expect(first).toBeGreaterThanOrEqual(begun + 5_000);
    expect(await opensAt(30_000)).toBe(first + 25_000);
    expect(await opensAt(1_000)).toBe(first + 25_000);
    expect(await lock.acquire('p.1', { recoveryMs: 1_000 })).toEqual([7, expect.any(Number), expect.any(Number)]);
  });

  it('does not close a server again that has let somebody in, for a process with a longer recoveryMs', async () => {
    const other = lua.lock('bb13');
    const shortly = recallCall({ keys: [{ fenceKey: other.fenceKey }] }, { process: 'p', recoveryMs: 1, groups: [{ floor: 0, holds: false }] });
    const [opened] = (await lua.run(shortly)) as number[];
    await lua.past(opened! + 2);
    await other.takes('p.1');
    expect(((await lua.run(recallCall({ keys: [{ fenceKey: other.fenceKey }] }, { process: 'p', recoveryMs: 30_000, groups: [{ floor: 0, holds: false }] }))) as number[])[1]).toBe(0);
  });
});
