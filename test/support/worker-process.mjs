/**
 * One process of a fleet: a Nest application with the built package, driven by messages from a test (worker.ts).
 * It ends by itself when it was told to close, and when the test has gone.
 */
import 'reflect-metadata';
import { Injectable, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { Redis } from 'ioredis';
import { answerCalls, given, load } from './answer-calls.mjs';

const { Locked, LockModule, LockService } = await load();

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
Module({ imports: [LockModule.forRoot({ client: process.env.HOLDFAST_TEST_CLIENT ?? 'ioredis', ...given })], providers: [Counter] })(App);

const leases = new Map();
const verbs = {
  async hold({ name, key, options }) {
    const lease = await locks.acquire(key, options);
    leases.set(name, lease);
    return { fences: Object.fromEntries(lease.fences), mode: lease.mode };
  },
  /** Locks each key once, all at the same time, and exits behind the last result, while the answers to the releases are on their way. */
  async exits({ keys }) {
    // From now on the server knows the script of a release: before that a call waits for the answer.
    for (const key of keys) await locks.withLock(key, () => {});
    await Promise.all(keys.map((key) => locks.withLock(key, { awaitRelease: false, leaseMs: 60_000 }, () => {})));
    process.exit(0);
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
  inspect: ({ key }) => locks.inspect(key),
  async close() {
    await app.close();
    process.disconnect();
  },
};

const app = await NestFactory.createApplicationContext(App, { logger: ['error'], abortOnError: false });
// Not Nest's own hooks: they end the process with the signal, and it has to end by itself.
process.once('SIGTERM', () => verbs.close());
const locks = app.get(LockService);
answerCalls(verbs);
