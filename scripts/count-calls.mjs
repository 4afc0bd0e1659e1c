// Counts what one uncontended lock costs in the library as it was compiled, file by file, into the folder that HOLDFAST_DIST names:
// calls of our own functions and the files that they are in, reads of a clock, timers, promises, and bytes allocated, each per
// cycle of acquire and release. With SHOW=1 it also lists the functions, each with its calls per cycle.
//
//   node scripts/count-calls.mjs <port of a Redis> <withLock | locked | floor> <callers>
//   node scripts/count-calls.mjs <ports of masters that vote, with commas between> redlock <callers>
//
// It prints one line of JSON. The counts do not depend on the machine: a timer that comes due after the first cycle waits until all
// is counted, because its calls belong to nobody's cycle; and of the cycles of one caller the one with the fewest calls is told.
// Benchmarks and tests read them.
import { spawnSync } from 'node:child_process';
import { Session } from 'node:inspector/promises';
import os from 'node:os';
import { fileURLToPath, pathToFileURL } from 'node:url';
import v8 from 'node:v8';

const DIST = pathToFileURL(`${process.env.HOLDFAST_DIST}/`);
const WARM_UP_CYCLES = 3_000;
const CYCLES = 1_000;

const [port, way, callers = '1', inside] = process.argv.slice(2);
if (inside === undefined) {
  // A young generation that nothing is collected from while it is counted.
  const flags = ['--expose-gc', '--max-semi-space-size=512', '--min-semi-space-size=512', '--disable-warning=ExperimentalWarning'];
  const { status } = spawnSync(process.execPath, [...flags, fileURLToPath(import.meta.url), port, way, callers, 'inside'], { stdio: 'inherit' });
  process.exit(status ?? 1);
}

/** The callbacks of timers that came due since the first cycle; undefined before it and when all is counted. */
let held;
const { setTimeout: setNodeTimer, setInterval: setNodeInterval } = globalThis;
const holding = (callback) => (...args) => void (held === undefined ? callback(...args) : held.push(() => callback(...args)));
globalThis.setTimeout = (callback, ...rest) => setNodeTimer(holding(callback), ...rest);
globalThis.setInterval = (callback, ...rest) => setNodeInterval(holding(callback), ...rest);

/** Opens what is counted; returns one cycle, and how to close it. */
const ways = {
  async withLock() {
    const { LockModule, LockService } = await import(new URL('index.js', DIST));
    const { app } = await nest(LockModule, []);
    const locks = app.get(LockService);
    return { cycle: (key) => locks.withLock(key, nothing), close: () => app.close() };
  },
  async locked() {
    const { LockModule, Locked } = await import(new URL('index.js', DIST));
    class Orders {
      async pay(id) {}
    }
    const descriptor = Object.getOwnPropertyDescriptor(Orders.prototype, 'pay');
    Locked('order:<0>')(Orders.prototype, 'pay', descriptor);
    Object.defineProperty(Orders.prototype, 'pay', descriptor);
    const { app } = await nest(LockModule, [Orders]);
    const orders = app.get(Orders);
    return { cycle: (key) => orders.pay(key), close: () => app.close() };
  },
  async redlock() {
    const { LockModule, LockService } = await import(new URL('index.js', DIST));
    const { app } = await nest(LockModule, [], { redis: port.split(',').map(urlOf) });
    const locks = app.get(LockService);
    return { cycle: (key) => locks.withLock(key, nothing), close: () => app.close() };
  },
  async floor() {
    const { Redis } = await import('ioredis');
    const redis = new Redis({ port: Number(port), host: '127.0.0.1' });
    const take = await redis.script('LOAD', `return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])`);
    const giveBack = await redis.script('LOAD', `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`);
    let sequence = 0;
    const cycle = async (key) => {
      const id = `process.${++sequence}`;
      await redis.evalsha(take, 1, `floor:${key}`, id, 30_000);
      await nothing();
      await redis.evalsha(giveBack, 1, `floor:${key}`, id);
    };
    return { cycle, close: async () => redis.disconnect() };
  },
};

function urlOf(port) {
  return `redis://127.0.0.1:${port}`;
}

async function nest(LockModule, providers, where = { redis: urlOf(port) }) {
  await import('reflect-metadata');
  const { NestFactory } = await import('@nestjs/core');
  class Application {}
  const module = { module: Application, imports: [LockModule.forRoot(where)], providers };
  return { app: await NestFactory.createApplicationContext(module, { logger: ['error'] }) };
}

async function nothing() {}

async function run(cycle, cycles) {
  const each = cycles / Number(callers);
  const calling = Array.from({ length: Number(callers) }, async (_, caller) => {
    for (let turn = 0; turn < each; turn++) await cycle(`order:${caller}`);
  });
  await Promise.all(calling);
}

async function countCalls(cycle) {
  const session = new Session();
  session.connect();
  await session.post('Profiler.enable');
  await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });
  // One caller's cycles are counted one by one, and the least counts: a cycle in which nothing came late.
  const [looks, cycles] = callers === '1' ? [CYCLES / 5, 1] : [1, CYCLES];
  let least;
  for (let look = 0; look < looks; look++) {
    await session.post('Profiler.takePreciseCoverage'); // counts begin anew
    await run(cycle, cycles);
    const { result } = await session.post('Profiler.takePreciseCoverage');
    const counts = result.filter(({ url }) => url.startsWith(DIST.href)).flatMap(({ url, functions }) =>
      functions.map(({ functionName, ranges }) => [url.slice(DIST.href.length), functionName, Math.round(ranges[0].count / cycles)]).filter(([, , count]) => count > 0));
    const calls = counts.reduce((sum, [, , count]) => sum + count, 0);
    if (least === undefined || calls < least.calls) least = { calls, counts };
  }
  session.disconnect();
  const { calls, counts } = least;
  if (process.env.SHOW) for (const [file, name, count] of counts.sort((a, b) => b[2] - a[2])) console.error(String(count).padStart(5), file, name);
  return { calls, functions: counts.length, files: new Set(counts.map(([file]) => file)).size };
}

async function countReads(cycle) {
  const counts = { clockReads: 0, timersSet: 0, timersCleared: 0, promises: 0 };
  const replaced = [[performance, 'now', 'clockReads'], [Date, 'now', 'clockReads'], [os, 'uptime', 'clockReads'], [globalThis, 'setTimeout', 'timersSet'], [globalThis, 'clearTimeout', 'timersCleared']];
  const originals = replaced.map(([owner, name, what]) => {
    const original = owner[name];
    owner[name] = function (...args) {
      counts[what] += 1;
      return Reflect.apply(original, this, args);
    };
    return () => (owner[name] = original);
  });
  const stop = v8.promiseHooks.onInit(() => (counts.promises += 1));
  await run(cycle, CYCLES);
  stop();
  for (const restore of originals) restore();
  return Object.fromEntries(Object.entries(counts).map(([what, count]) => [what, count / CYCLES]));
}

async function countBytes(cycle) {
  globalThis.gc();
  const before = process.memoryUsage().heapUsed;
  await run(cycle, CYCLES);
  return { bytes: (process.memoryUsage().heapUsed - before) / CYCLES };
}

const { cycle, close } = await ways[way]();
held = [];
await run(cycle, WARM_UP_CYCLES);
const counts = { ...(await countBytes(cycle)), ...(await countReads(cycle)), ...(way === 'floor' ? {} : await countCalls(cycle)) };
console.log(JSON.stringify(Object.fromEntries(Object.entries(counts).map(([what, count]) => [what, Math.round(count * 100) / 100]))));
const due = held;
held = undefined;
for (const callback of due) callback();
await close();
