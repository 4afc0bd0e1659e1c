/**
 * What scripts read of a lock that a thousand hold: counted in the interpreter of the simulation, as the fields that they take out of
 * texts. The number must not grow with that of the holders.
 */
import { describe, expect, it } from '@jest/globals';
import { acquireCall, releaseCall, type BuiltCall } from '../../lib/stores/wire/lua.generated.js';
import { RedisKeys } from '../../lib/stores/wire/redis-keys.js';
import { LuaInterpreter } from '../simulation/lua-interpreter.js';
import { library } from '../simulation/lua-library.js';
import type { LuaFunction } from '../simulation/lua-values.js';
import { RedisData } from '../simulation/redis-data.js';
import { acquireArguments, type AcquireArguments } from '../support/lua-server.js';

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
