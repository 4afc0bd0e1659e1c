/**
 * One process of a fleet: a Nest application with the built package, driven by messages from a test (worker.ts).
 * It ends by itself when it was told to close, and when the test has gone.
 */
import 'reflect-metadata';
import { Injectable, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { Redis } from 'ioredis';
import { Locked, LockModule, LockService } from 'nestjs-holdfast';

let guarded;

/** Reads, waits for a turn of the event loop, writes: loses updates unless somebody makes it wait its turn. */
class Counter {
  async increment(name) {
    const value = Number(await guarded.get(name));
    await new Promise((resolve) => setImmediate(resolve));
    await guarded.set(name, value + 1);
  }
}
Injectable()(Counter);
const descriptor = Object.getOwnPropertyDescriptor(Counter.prototype, 'increment');
Locked('counter:<0>', { waitMs: 60_000 })(Counter.prototype, 'increment', descriptor);
Object.defineProperty(Counter.prototype, 'increment', descriptor);

class App {}
const options = JSON.parse(process.argv[2]);
Module({ imports: [LockModule.forRoot(options)], providers: [Counter] })(App);

const leases = new Map();
/** What all processes of this machine measure time with, in ms. */
const now = () => Number(process.hrtime.bigint()) / 1e6;
const LOOKS_EVERY_MS = 2;
const LOADED_EVERY_MS = 50;
let leadership;

/** Leads until the term is over, and tells the test when the term began, until when it was trusted, when it was told over, and when it ended. */
async function serve(term) {
  const told = { fence: term.fence, from: now() };
  process.send({ term: { ...told } });
  const look = setInterval(() => leadership.isLeader && (told.until = now()), LOOKS_EVERY_MS);
  told.until = now();
  if (!term.signal.aborted) await new Promise((resolve) => term.signal.addEventListener('abort', resolve));
  told.toldAt = now();
  clearInterval(look);
  if (process.connected) process.send({ term: { ...told, endedAt: now() } });
}

/** What else an application does: takes locks that the others want as well, again and again. */
async function work() {
  for (;;) {
    await new Promise((resolve) => setTimeout(resolve, LOADED_EVERY_MS).unref());
    await locks.withLock(`load:${Math.floor(Math.random() * 5)}`, async () => {});
  }
}

const verbs = {
  async hold({ name, key, options }) {
    const lease = await locks.acquire(key, options);
    leases.set(name, lease);
    return { fences: Object.fromEntries(lease.fences), mode: lease.mode };
  },
  release: ({ name }) => leases.get(name).release(),
  look({ name }) {
    const lease = leases.get(name);
    let held = true;
    try {
      lease.assertHeld();
    } catch {
      held = false;
    }
    return { held, aborted: lease.signal.aborted, remainingMs: lease.remainingMs };
  },
  verify: ({ name }) => leases.get(name).verify(),
  async increments({ counter, times, at }) {
    guarded = new Redis(at);
    for (let n = 0; n < times; n++) await app.get(Counter).increment(counter);
    await guarded.quit();
  },
  /** Moves 1 from one account to the other, again and again, taking both locks in the order given. */
  async transfers({ from, to, times, at }) {
    const accounts = new Redis(at);
    for (let n = 0; n < times; n++) {
      await locks.withLock([`account:${from}`, `account:${to}`], { waitMs: 60_000 }, async () => {
        const [a, b] = (await accounts.mget(from, to)).map(Number);
        await accounts.mset(from, a - 1, to, b + 1);
      });
    }
    await accounts.quit();
  },
  lead({ role, options, loaded }) {
    leadership = locks.lead(role, serve, options);
    // The shutdown refuses it, and then it is over.
    if (loaded) work().catch(() => {});
  },
  isLeader: () => leadership.isLeader,
  /** Blocks the event loop, and looks before anything else can run whether it leads. */
  block({ ms }) {
    const until = now() + ms;
    while (now() < until);
    return leadership.isLeader;
  },
  inspect: ({ key }) => locks.inspect(key),
  async close() {
    await app.close();
    process.disconnect();
  },
};

process.on('message', async ({ call, verb, args }) => {
  try {
    const result = await verbs[verb](args);
    if (process.connected) process.send({ call, result });
  } catch (error) {
    if (process.connected) process.send({ call, error: { name: error.name, code: error.code, key: error.key, message: error.message } });
  }
});
process.on('unhandledRejection', (error) => {
  console.error('unhandled rejection', error);
  process.exit(70);
});

const app = await NestFactory.createApplicationContext(App, { logger: ['error'], abortOnError: false });
// Not Nest's own hooks: they end the process with the signal, and it has to end by itself.
process.once('SIGTERM', () => verbs.close());
const locks = app.get(LockService);
process.send({ ready: true });
