/**
 * One process of a fleet: a Nest application with the built package, driven by messages from a test (worker.ts).
 * It ends by itself when it was told to close, and when the test has gone.
 */
import 'reflect-metadata';
import { Injectable } from '@nestjs/common';
import { Redis } from 'ioredis';
import { load, serve } from './answer-calls.mjs';

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

const die = () => process.kill(process.pid, 'SIGKILL');

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
    for (let n = 0; n < times; n++) await counters.increment(counter);
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
  /** Takes one job of a BullMQ queue, adopts its ticket and is killed: `while` it works under the hold, or `after` it has handed it back. */
  async job({ queue, port, dies }) {
    const { Worker } = await import('bullmq');
    const attempt = async ({ data: { ticket } }) => {
      const fails = async () => {
        if (dies === 'while') die();
        throw new Error('the provider failed');
      };
      await locks.withAdopted(ticket, { onError: 'handBack', withinMs: 30_000, leaseMs: 2_000 }, fails).catch(die);
    };
    new Worker(queue, attempt, { connection: { host: '127.0.0.1', port }, lockDuration: 500, stalledInterval: 100 });
  },
};

let locks;
let counters;
await serve(LockModule, [Counter], (app) => {
  locks = app.get(LockService);
  counters = app.get(Counter);
  return verbs;
});
