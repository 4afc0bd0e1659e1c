/**
 * Those that lock by a majority of several masters, each with its documented defaults and as many tries as it takes. An error
 * while a node is down is taken for "try again", and one at the release for "done": a caller shall neither stop nor count twice.
 */
import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';
import { systemClock } from '../../lib/core/port/clock.js';
import type { LockDefaults } from '../../lib/core/port/lock-options.js';
import { LockService } from '../../lib/lock.service.js';
import { RedlockStore } from '../../lib/stores/redlock/redlock-store.js';
import { connectTo } from '../../lib/stores/wire/connect-to.js';
import { BENCH_CLIENT } from '../harness/bench-client.js';
import { requirePeer, type Contender } from './contender.js';

const LEASE_MS = 30_000;
const TRIES = 1_000_000_000;
const PAUSE_AFTER_ERROR_MS = 50;

export const holdfastOnRedlock = (name = 'Holdfast on a Redlock', defaults: LockDefaults = {}): Contender => ({
  name,
  sends: ['evalsha', 'eval'],
  sendsBesides: 0,
  async open(_, ports) {
    const process = `bench-${randomUUID().slice(0, 8)}`;
    const nodes = await Promise.all(ports.map((port) => connectTo({ port, host: '127.0.0.1' }, BENCH_CLIENT)));
    const times = { maxLeaseMs: 60_000, commandTimeoutMs: 2_000, bootTimeoutMs: 10_000, clock: systemClock };
    const store = new RedlockStore({ nodes, prefix: 'lock', process, ...times, report: (message) => console.error(message) });
    const locks = new LockService({ waitMs: 600_000, ...defaults, store, process });
    await locks.open();
    return { withLock: (key, work) => locks.withLock(key, work), close: () => locks.close() };
  },
});

type Acquires = (key: string) => Promise<() => Promise<unknown>>;

function overNodes(name: string, sends: readonly string[], open: (nodes: readonly Redis[]) => Acquires): Contender {
  return {
    name,
    sends,
    sendsBesides: 0,
    async open(_, ports) {
      const nodes = ports.map((port) => new Redis({ port, host: '127.0.0.1' }).on('error', () => {}));
      const acquire = open(nodes);
      const acquired = async (key: string): Promise<() => Promise<unknown>> => {
        for (;;) {
          const release = await acquire(key).catch(() => undefined);
          if (release !== undefined) return release;
          await new Promise((resolve) => setTimeout(resolve, PAUSE_AFTER_ERROR_MS));
        }
      };
      return {
        async withLock(key, work) {
          const release = await acquired(key);
          await work();
          await release().catch(() => {});
        },
        close: async () => nodes.forEach((node) => node.disconnect()),
      };
    },
  };
}

export const redlock4OnNodes = overNodes('redlock 4', ['eval', 'evalsha'], (nodes) => {
  const redlock = new (requirePeer('redlock'))(nodes, { retryCount: -1 });
  return async (key) => {
    const lock = await redlock.lock(`redlock4:${key}`, LEASE_MS);
    return () => lock.unlock();
  };
});

export const redlock5OnNodes = overNodes('redlock 5', ['eval', 'evalsha'], (nodes) => {
  // It takes the votes of a lost attempt back only after its last try: with endless tries a split vote would last a whole lease.
  const redlock = new (requirePeer('redlock5').default)(nodes);
  redlock.on('error', () => {});
  return async (key) => {
    const lock = await redlock.acquire([`redlock5:${key}`], LEASE_MS);
    return () => lock.release();
  };
});

export const redisSemaphoreOnNodes = overNodes('redis-semaphore', ['set', 'evalsha', 'eval'], (nodes) => {
  const { RedlockMutex } = requirePeer('redis-semaphore');
  return async (key) => {
    const mutex = new RedlockMutex(nodes, key, { lockTimeout: LEASE_MS, acquireTimeout: 3_600_000 });
    await mutex.acquire();
    return () => mutex.release();
  };
});

export const redlockUniversalOnNodes = overNodes('redlock-universal', ['set', 'evalsha', 'eval'], (nodes) => {
  const { createRedlock, IoredisAdapter } = requirePeer('redlock-universal');
  const adapters = nodes.map((node) => new IoredisAdapter(node));
  const locks = new Map<string, any>();
  return async (key) => {
    let lock = locks.get(key);
    if (lock === undefined) locks.set(key, (lock = createRedlock({ adapters, key: `universal:${key}`, ttl: LEASE_MS, retryAttempts: TRIES })));
    const handle = await lock.acquire();
    return () => lock.release(handle);
  };
});
