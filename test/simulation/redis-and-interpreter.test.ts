/**
 * The interpreter and its small Redis against a real one: random calls of every script on both, and after each the same
 * answer, the same messages, the same keys, the same expiry. On the real server TIME tells what the simulated clock says.
 */
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import type { Redis } from 'ioredis';
import type { LuaScript } from '../../lib/stores/redis/lua.generated.js';
import { startRedis, type RedisServer } from '../support/redis-server.js';
import { LuaInterpreter, ServerError } from './lua-interpreter.js';
import { Random } from './random.js';
import { RedisData, type Undo } from './redis-data.js';
import { ScriptCalls } from './script-calls.js';

const RUNS = 120;
const CALLS = 60;

/** Shadows `redis` for the script behind it, on the same line: TIME is the last argument, and PUBLISH is also noted. */
const FROZEN = `local at, server = table.remove(ARGV), redis
local function asked(via, name, ...)
  if name == 'TIME' then return { string.match(at, '%d+'), string.match(at, '%d+$') } end
  if name == 'PUBLISH' then server.pcall('RPUSH', 'said', table.concat({ ... }, ' ')) end
  return via(name, ...)
end
local redis = { call = function(...) return asked(server.call, ...) end, pcall = function(...) return asked(server.pcall, ...) end }
`.replaceAll('\n', ' ');

/** Answers that all must have been given in some run. */
const CODES = [
  ...['plain', 1, 2, 3, 4, 5].map((code) => `acquire ${code}`),
  ...[0, 1, 2, 3, 4, 5].map((code) => `vote ${code}`),
  ...['release', 'fenced-write', 'downgrade', 'force-release', 'raise-fence', 'admit'].flatMap((name) => [`${name} 0`, `${name} 1`]),
  'acquire OOM',
];

const answered = new Set<string>();
const lua = new LuaInterpreter();
let server: RedisServer;
let real: Redis;
let runId = '';
beforeAll(async () => {
  server = await startRedis();
  real = server.client();
  runId = /run_id:(\w+)/.exec(await real.info('server'))?.[1] ?? '';
}, 60_000);
afterAll(() => server.stop());

/** One run on both: a clock, the keys of three locks, and the ids that have been asked for. */
class Pair {
  private readonly data = new RedisData(() => runId);
  private nowUs = 1_790_000_000_000_000;
  private said: string[] = [];
  private readonly calls: ScriptCalls;
  private readonly log: string[] = [];

  constructor(private readonly random: Random) {
    this.calls = new ScriptCalls(random, this.data, runId);
  }

  async runAll(): Promise<void> {
    await real.config('SET', 'maxmemory', '0');
    await real.flushall();
    try {
      for (let call = 0; call < CALLS; call++) await this.step();
    } finally {
      await real.config('SET', 'maxmemory', '0');
    }
  }

  private async step(): Promise<void> {
    const { random } = this;
    this.nowUs += random.pick([0, 1, 999, 20_000, 700_000, 1_501_000, 2_501_000, 31_000_000]);
    if (random.chance(0.02)) this.nowUs -= 500_000;
    if (random.chance(0.05)) {
      const full = this.data.refuses === 'nothing';
      this.data.refuses = full ? 'oom' : 'nothing';
      await real.config('SET', 'maxmemory', full ? '1' : '0');
    }
    await this.expire();
    const [script, keys, args] = this.calls.at(this.nowUs);
    await this.compare(script, keys, args.map(String));
  }

  private async compare(script: LuaScript, keys: readonly string[], args: readonly string[]): Promise<void> {
    const { nowUs } = this;
    const mine = this.runHere(script, keys, args);
    const before = await this.realTime();
    const at = `${Math.floor(nowUs / 1e6)} ${nowUs % 1e6}`;
    const theirs = await real.eval(FROZEN + script.source, keys.length, ...keys, ...args, at).catch((error: Error) => error.message.split(' ')[0]);
    const after = await this.realTime();
    answered.add(`${script.name} ${codeOf(mine.reply)}`);
    this.log.push(`${at} ${this.data.refuses} ${script.name} ${keys.join(' ')} | ${args.join(' ')} -> ${JSON.stringify(mine.reply)}`);
    const where = this.log.slice(-12).join('\n');
    expect({ reply: mine.reply, where }).toEqual({ reply: theirs, where });
    if (this.data.refuses === 'nothing') expect({ said: this.said, where }).toEqual({ said: await real.lrange('said', 0, -1), where });
    expect({ keys: this.keysHere(), where }).toEqual({ keys: await this.keysThere(), where });
    for (const [key, old] of mine.wrote) {
      const set = this.data.peek(key, this.nowMs)?.expiresAt !== old?.expiresAt;
      if (set) await this.compareExpiry(key, before, after);
    }
    this.said = [];
    await real.del('said');
  }

  private runHere(script: LuaScript, keys: readonly string[], args: readonly string[]): { reply: unknown; wrote: Undo } {
    const publish = (channel: string, message: string): number => this.said.push(`${channel} ${message}`) * 0;
    const context = { nowUs: this.nowUs, dirty: false, publish };
    try {
      const reply = lua.run(script.source, keys, args, (command) => this.data.run(command, context));
      return { reply, wrote: this.data.takeUndo() };
    } catch (error) {
      if (!(error instanceof ServerError)) throw error;
      return { reply: error.message.split(' ')[0], wrote: this.data.takeUndo() };
    }
  }

  /** What has expired by the simulated clock is gone there as well; else nothing ever expires there. */
  private async expire(): Promise<void> {
    this.data.collect(this.nowMs);
    const there = new Set(this.keysHere().map(([key]) => key));
    for (const key of await real.keys('{*')) if (!there.has(key)) await real.del(key);
  }

  private async compareExpiry(key: string, before: number, after: number): Promise<void> {
    const entry = this.data.peek(key, this.nowMs);
    if (entry === undefined) return;
    const there = Number(await real.call('PEXPIRETIME', key));
    await real.persist(key);
    if (entry.expiresAt === Infinity) return expect(there).toBe(-1);
    const leftMs = entry.expiresAt - this.nowMs;
    expect(there).toBeGreaterThanOrEqual(before + leftMs);
    expect(there).toBeLessThanOrEqual(after + leftMs);
  }

  private keysHere(): [string, unknown][] {
    const dumped = this.data.keys(this.nowMs).map((key): [string, unknown] => {
      const value = this.data.peek(key, this.nowMs)?.value;
      return [key, value instanceof Map ? Object.fromEntries(value) : value];
    });
    return dumped.sort(([one], [other]) => (one < other ? -1 : 1));
  }

  private async keysThere(): Promise<[string, unknown][]> {
    const keys = (await real.keys('{*')).sort();
    return Promise.all(keys.map(async (key): Promise<[string, unknown]> => [key, (await real.type(key)) === 'hash' ? await real.hgetall(key) : await real.get(key)]));
  }

  private async realTime(): Promise<number> {
    const [seconds, micros] = await real.time();
    return Number(seconds) * 1000 + Math.floor(Number(micros) / 1000);
  }

  private get nowMs(): number {
    return Math.floor(this.nowUs / 1000);
  }
}

function codeOf(reply: unknown): unknown {
  if (Array.isArray(reply)) return reply[0];
  return typeof reply === 'string' && /^\d{16}$/.test(reply) ? 'plain' : reply;
}

it('the interpreter answers and writes what a real Redis does, for every script', async () => {
  for (let seed = 1; seed <= RUNS; seed++) await new Pair(new Random(seed)).runAll();
  expect(CODES.filter((code) => !answered.has(code))).toEqual([]);
}, 120_000);
