/** release.lua, downgrade.lua, force-release.lua and inspect.lua on a real server: every code they return. */
import { describe, expect, it } from '@jest/globals';
import { acquireCall, type BuiltCall, releaseCall } from '../../lib/stores/wire/lua.generated.js';
import { RedisKeys, UNKNOWN_MEMORY } from '../../lib/stores/wire/redis-keys.js';
import { LuaInterpreter } from '../simulation/lua-interpreter.js';
import { library } from '../simulation/lua-library.js';
import type { LuaFunction } from '../simulation/lua-values.js';
import { RedisData } from '../simulation/redis-data.js';
import { eventually } from '../support/eventually.js';
import { acquireArguments, type AcquireArguments, LuaServer } from '../support/lua-server.js';
import { forAll } from '../support/started.js';

const lua = forAll(() => LuaServer.start());

describe('force-release.lua', () => {
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

/**
 * What scripts read of a lock that a thousand hold: counted in the interpreter of the simulation, as the fields that they take out of
 * texts. The number must not grow with that of the holders.
 */
let fieldsRead = 0;

const countingLibrary = library as Record<string, LuaFunction>;

for (const name of ['string.match', 'string.gmatch']) {
  const original = countingLibrary[name]!;
  const counted = (found: ReturnType<LuaFunction>): ReturnType<LuaFunction> => {
    fieldsRead += found.length;
    return found;
  };
  countingLibrary[name] = (...args) => {
    const [next] = original(...args);
    if (name === 'string.match') return counted(original(...args));
    return [() => counted((next as LuaFunction)())];
  };
}

const NOW_MS = 1_795_000_000_000;
const { lockKey, queueKey, fenceKey } = new RedisKeys('lock').spotOf('k');
const on = { lockKey, queueKey, fenceKey };

/** A server with a lock that so many hold, each in this way. */
function serverWith(count: number, how: AcquireArguments): { ask(call: BuiltCall): number; code(reply: unknown): unknown } {
  const lua = new LuaInterpreter();
  const data = new RedisData(() => 'a'.repeat(40));
  const run = ({ script, keys, args }: BuiltCall): unknown => {
    const context = { nowUs: NOW_MS * 1_000, dirty: false, publish: () => 0, listeners: () => 0 };
    return lua.run(script.source, keys, args.map(String), (command) => data.run(command, context));
  };
  run(acquireCall(on, acquireArguments('p.0', how)));
  const context = { nowUs: NOW_MS * 1_000, dirty: false, publish: () => 0, listeners: () => 0 };
  const [, mode, line] = /^(.)0. (.*)$/.exec(String(data.run(['GET', lockKey], context)))!;
  const lines = Array.from({ length: count }, (_, n) => line!.replace('p.0', `p.${n}`));
  data.run(['SET', lockKey, `${mode}01 ${lines.join('\n')}`, 'PX', '60000'], context);
  let reply: unknown;
  return {
    ask: (call) => {
      fieldsRead = 0;
      reply = run(call);
      return fieldsRead;
    },
    code: () => (Array.isArray(reply) ? reply[0] : reply),
  };
}

const OWNER: AcquireArguments = { owner: 'saga:1' };
const READER: AcquireArguments = { mode: 'r' };

describe.each([
  { act: 'a further hold of its owner', code: 1, present: OWNER, asks: OWNER },
  { act: 'the hold beyond the most that an owner can have', code: 6, present: OWNER, asks: OWNER, most: 1_000 },
  { act: 'a stranger that does not wait', code: 3, present: OWNER, asks: { queue: 0 } },
  { act: 'a further permit', code: 1, present: { permits: 5_000 }, asks: { permits: 5_000 } },
  { act: 'another number of permits', code: 8, present: { permits: 5_000 }, asks: { permits: 4 } },
  { act: 'a permit where none is free', code: 3, present: { permits: 1_000 }, asks: { permits: 1_000, queue: 0 }, most: 1_000 },
  { act: 'a further reader', code: 1, present: READER, asks: READER },
  { act: 'a writer that does not wait', code: 3, present: READER, asks: { queue: 0 } },
] as readonly { act: string; code: number; present: AcquireArguments; asks: AcquireArguments; most?: number }[])('$act', ({ code, present, asks, most = 900 }) => {
  it(`is answered (${code}) without reading the holders, however many there are`, () => {
    const many = serverWith(most, present);
    const read = many.ask(acquireCall(on, acquireArguments('q.1', asks)));
    expect(many.code(undefined)).toBe(code);
    // A grant to the only holder of a lock is read as a whole.
    expect(read).toBeLessThan(60);
  });
});

describe('a release beside a thousand holders', () => {
  it('reads its own line alone', () => {
    const many = serverWith(1_000, OWNER);
    const read = many.ask(releaseCall(on, { id: 'p.500', floor: 0, recoveryMs: 0, known: '-'.repeat(30), mayBeOver: false, abandoned: false }));
    expect(many.code(undefined)).toBe(1);
    expect(read).toBeLessThan(60);
  });
});

/** In every place where an id can be. */
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
