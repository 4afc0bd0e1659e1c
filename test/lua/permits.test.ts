/** What the scripts keep of a lock with permits: its record, who is let in, who is told, and what a server that forgot believes. */
import { afterEach, describe, expect, it } from '@jest/globals';
import type { Redis } from 'ioredis';
import { acquire, addAcquire, bringBackCall, type BringBackArgs, type ScriptArgument } from '../../lib/stores/wire/lua.generated.js';
import { eventually } from '../support/eventually.js';
import { acquireArguments, type AcquireArguments, LuaServer, type LuaLock } from '../support/lua-server.js';
import { forAll } from '../support/started.js';

const listeners: Redis[] = [];
const lua = forAll(() => LuaServer.start());
afterEach(async () => {
  for (const listener of listeners.splice(0)) await listener.quit();
});

async function listens(process: string): Promise<string[]> {
  const listener = lua.server.client();
  listeners.push(listener);
  const heard: string[] = [];
  listener.on('message', (_channel: string, text: string) => heard.push(text));
  await listener.subscribe(`{lock}:c:${process}`);
  return heard;
}

describe('A lock with permits', () => {
  it('has a record like any other, with the number of permits where an owner would stand', async () => {
    const lock = lua.lock('record');
    await lock.acquire('p.1', { permits: 2, label: 'Mail.send' });
    expect(await lua.client.get(lock.lockKey)).toMatch(/^p00 \d{13} p\.1 \d+ 1 0 2 Mail\.send$/);
    await lock.acquire('p.2', { permits: 2 });
    expect(await lua.client.get(lock.lockKey)).toMatch(/^p01 \d{13} p\.1 \d+ 1 0 2 Mail\.send\n\d{13} p\.2 \d+ 1 0 2 -$/);
    await lock.release('p.1');
    await lock.release('p.2');
    expect(await lua.client.exists(lock.lockKey)).toBe(0);
  });

  it('does not take a number of permits for an owner of that name, nor an owner for a number', async () => {
    const [owned, permitted] = [lua.lock('owned'), lua.lock('permitted')];
    await owned.acquire('p.1', { owner: '2', minHoldMs: 1 });
    expect(((await owned.acquire('q.1', { permits: 2 })) as number[])[0]).toBe(8);
    await permitted.acquire('p.1', { permits: 2 });
    expect(((await permitted.acquire('q.1', { owner: '2' })) as number[])[0]).toBe(8);
  });

  it('tells one holder of each process that somebody waits', async () => {
    const lock = lua.lock('told');
    const [p, q] = [await listens('p'), await listens('q')];
    for (const id of ['p.1', 'p.2', 'q.1']) await lock.acquire(id, { permits: 3 });
    await lock.acquire('r.1', { permits: 3 });
    await eventually(() => expect([p, q].map((heard) => heard.filter((text) => text.startsWith('c ')))).toEqual([['c p.1 told'], ['c q.1 told']]));
  });

  it('gives a permit that becomes free to the first who would hear of it, and else to the first of all', async () => {
    const lock = lua.lock('deaf');
    for (const id of ['p.1', 'p.2']) await lock.acquire(id, { permits: 2 });
    for (const id of ['gone.1', 'gone.2', 'live.1']) await lock.acquire(id, { permits: 2, needsListener: true });
    await listens('live');
    await lock.release('p.1');
    expect(await lock.holders()).toEqual(['p.2', 'live.1']);
    await lock.release('p.2');
    expect(await lock.holders()).toEqual(['live.1', 'gone.1']);
  });
});

describe('Requests of one command for one lock', () => {
  it('are answered by what those before them left, whether that was a refusal or a grant', async () => {
    const lock = lua.lock('bundled');
    await lock.acquire('p.1', { permits: 3 });
    await lock.acquire('p.2', { permits: 3 });
    const [keys, args]: [string[], ScriptArgument[]] = [[], []];
    const asked: [string, AcquireArguments][] = [
      ['q.1', { permits: 2 }], ['q.2', { permits: 2 }], ['q.3', { permits: 3, queue: 0 }], ['q.4', { permits: 3, queue: 0 }], ['q.5', { permits: 4 }], ['q.6', { permits: 3 }],
      ['q.7', { permits: 3, queue: 0 }], ['q.8', { permits: 3, queue: 0, replaces: 'p.1' }], ['q.9', { permits: 2, replaces: 'p.2' }],
    ];
    for (const [id, how] of asked) addAcquire(keys, args, lock, acquireArguments(id, how));
    const replies = (await lua.run({ script: acquire, keys, args })) as unknown as number[][];
    expect(replies.map(([code]) => code)).toEqual([8, 8, 1, 3, 8, 2, 3, 3, 8]);
    expect(await lock.holders()).toEqual(['q.3', 'q.6']);
  });
});

describe('A server that forgot permits', () => {
  const lease = { mode: 'permit', owner: '2', leaseMs: 5_000, fences: 1, minHoldMs: 0, graceMs: 0, recoveryMs: 60_000, label: undefined } as const;

  async function bringBack(lock: LuaLock, id: string, how: Partial<BringBackArgs> & { readonly fence: number }): Promise<unknown> {
    const notAfter = (await lua.now()) + 1_000;
    const [, code] = (await lua.run(bringBackCall(lock, { ...lease, id, notAfter, ...how }))) as number[];
    return code;
  }

  it('gets each of them back beside the others, with their number', async () => {
    const lock = lua.lock('back');
    expect(await bringBack(lock, 'p.1', { fence: 70 })).toBe(1);
    expect(await bringBack(lock, 'q.1', { fence: 60 })).toBe(1);
    expect(await lock.inspect()).toEqual(['p', 2, 'p.1', 70, '2', expect.any(Number), '-', 0, 'q.1', 60, '2', expect.any(Number), '-', 0]);
  });

  it('believes a holder beside records that a failover brought back, which name others who have ended, and lets in nobody new', async () => {
    const lock = lua.lock('stale');
    for (const [id, fence] of [['stale.1', 60], ['stale.2', 70]] as const) expect(await bringBack(lock, id, { fence })).toBe(1);
    expect(await bringBack(lock, 'live.1', { fence: 80 })).toBe(1);
    expect(await lock.holders()).toEqual(['stale.1', 'stale.2', 'live.1']);
    await lock.release('stale.1');
    expect(((await lock.acquire('new.1', { permits: 2, queue: 0, recoveryMs: 60_000 })) as number[])[0]).toBe(7);
  });

  it('brings none back beside the ticket that it went to, which has its fence, when the network delivers a request twice', async () => {
    const lock = lua.lock('ticket');
    expect(await bringBack(lock, 'p.=ticket', { fence: 70 })).toBe(1);
    expect(await bringBack(lock, 'p.1', { fence: 70 })).toBe(0);
  });

  it('brings none back beyond their number once it grants again', async () => {
    const lock = lua.lock('late');
    for (const id of ['p.1', 'p.2']) await lock.acquire(id, { permits: 2 });
    expect(await bringBack(lock, 'late.1', { fence: 70, recoveryMs: 0, knownBy: 'another' })).toBe(0);
    await lock.release('p.1');
    expect(await bringBack(lock, 'late.1', { fence: 70, recoveryMs: 0, knownBy: 'another' })).toBe(1);
  });

  it('gives the lock to the newer fence where the numbers differ, or one has no permit', async () => {
    const lock = lua.lock('numbers');
    expect(await bringBack(lock, 'old.1', { fence: 70 })).toBe(1);
    expect(await bringBack(lock, 'new.1', { fence: 80, owner: '3' })).toBe(1);
    expect(await bringBack(lock, 'old.1', { fence: 70 })).toBe(0);
    expect(await bringBack(lock, 'alone.1', { fence: 90, mode: 'write', owner: undefined })).toBe(1);
    expect(await lock.holders()).toEqual(['alone.1']);
  });
});
