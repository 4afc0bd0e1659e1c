/**
 * The peers, each by its own shortest way to take and give back, and with the settings its documentation advises.
 * `waitMs` is the pause between two tries of those that poll: their documented default unless a question says otherwise.
 */
import { Redis } from 'ioredis';
import { requirePeer, type Contender, type LockUnderTest } from './contender.js';

const LEASE_MS = 30_000;
/** More tries than any run makes: nobody shall give up. */
const TRIES = 1_000_000_000;

type Opens = (redis: Redis, port: number, waitMs: number | undefined) => Promise<LockUnderTest> | LockUnderTest;

function peer(name: string, sends: readonly string[], open: Opens, sendsBesides = 0): (waitMs?: number) => Contender {
  return (waitMs) => ({
    name: waitMs === undefined ? name : `${name}, polling every ${waitMs} ms`,
    sends,
    sendsBesides,
    async open(port) {
      const redis = new Redis({ port, host: '127.0.0.1' });
      const lock = await open(redis, port, waitMs);
      return {
        ...lock,
        async close() {
          await lock.close();
          redis.disconnect();
        },
      };
    },
  });
}

/** For those that renew only while a routine runs inside the lock: the routine lasts until the release. */
async function heldInside(onLost: () => void, using: (routine: (signal: any) => Promise<void>) => Promise<void>): Promise<() => Promise<void>> {
  let end = (): void => {};
  const ended = new Promise<void>((resolve) => (end = resolve));
  let done: Promise<void> = Promise.resolve();
  await new Promise<void>((resolve, reject) => {
    done = using(async (signal) => {
      signal.addEventListener('abort', onLost);
      resolve();
      await ended;
    });
    done.catch(reject);
  });
  return () => {
    end();
    return done;
  };
}

const nothingMore = async (): Promise<void> => {};

export const redlock4 = peer('redlock 4', ['eval', 'evalsha'], (redis, _, waitMs) => {
  const Redlock = requirePeer('redlock');
  const redlock = new Redlock([redis], { retryCount: -1, ...(waitMs !== undefined && { retryDelay: waitMs, retryJitter: waitMs }) });
  return {
    async withLock(key, work) {
      const lock = await redlock.lock(`redlock4:${key}`, LEASE_MS);
      await work();
      await lock.unlock();
    },
    close: nothingMore,
  };
});

export const redlock5 = peer('redlock 5', ['eval', 'evalsha'], (redis, _, waitMs) => {
  const Redlock = requirePeer('redlock5').default;
  const redlock = new Redlock([redis], { retryCount: -1, ...(waitMs !== undefined && { retryDelay: waitMs, retryJitter: waitMs }) });
  return {
    async withLock(key, work) {
      const lock = await redlock.acquire([`redlock5:${key}`], LEASE_MS);
      await work();
      await lock.release();
    },
    async hold(key, leaseMs, onLost) {
      // Settings of their own, so that they also hold for short leases: it refuses a threshold near the lease's length.
      return heldInside(onLost, (routine) => redlock.using([`redlock5:${key}`], leaseMs, { automaticExtensionThreshold: Math.round(leaseMs / 3) }, routine));
    },
    close: nothingMore,
  };
});

export const redisSemaphore = peer('redis-semaphore', ['set', 'evalsha', 'eval'], (redis, _, waitMs) => {
  const { Mutex } = requirePeer('redis-semaphore');
  const waiting = { acquireTimeout: 3_600_000, ...(waitMs !== undefined && { retryInterval: waitMs }) };
  return {
    async withLock(key, work) {
      const mutex = new Mutex(redis, key, { lockTimeout: LEASE_MS, ...waiting });
      await mutex.acquire();
      await work();
      await mutex.release();
    },
    async hold(key, leaseMs, onLockLost) {
      const mutex = new Mutex(redis, key, { lockTimeout: leaseMs, onLockLost, ...waiting });
      await mutex.acquire();
      return () => mutex.release();
    },
    close: nothingMore,
  };
});

/** So many hold a lock at a time, and not one; with the documented pause between two tries. */
export const redisSemaphorePermits = (permits: number): Contender =>
  peer('redis-semaphore, Semaphore', ['evalsha', 'eval', 'zrem'], (redis) => {
    const { Semaphore } = requirePeer('redis-semaphore');
    return {
      async withLock(key, work) {
        const semaphore = new Semaphore(redis, key, permits, { lockTimeout: LEASE_MS, acquireTimeout: 3_600_000 });
        await semaphore.acquire();
        await work();
        await semaphore.release();
      },
      close: nothingMore,
    };
  })();

export const redlockUniversal = peer('redlock-universal', ['set', 'evalsha', 'eval'], (redis, _, waitMs) => {
  const { createLock, IoredisAdapter } = requirePeer('redlock-universal');
  const adapter = new IoredisAdapter(redis);
  const locks = new Map<string, any>();
  const lockOf = (key: string, ttl = LEASE_MS): any => {
    // 'lean' is the mode its documentation calls the fastest; a lock object is made once a key, as it advises.
    const settings = { adapter, key: `universal:${key}`, ttl, performance: 'lean', retryAttempts: TRIES, ...(waitMs !== undefined && { retryDelay: waitMs }) };
    if (!locks.has(key)) locks.set(key, createLock(settings));
    return locks.get(key);
  };
  return {
    async withLock(key, work) {
      const lock = lockOf(key);
      const handle = await lock.acquire();
      await work();
      await lock.release(handle);
    },
    async hold(key, leaseMs, onLost) {
      return heldInside(onLost, (routine) => lockOf(key, leaseMs).using(routine));
    },
    close: nothingMore,
  };
});

export const murlock = peer('murlock', ['eval'], async (_, port, waitMs) => {
  const { MurLockService } = requirePeer('murlock');
  const { AsyncStorageManager } = requirePeer('murlock/dist/als/als-manager.js');
  const { AsyncStorageService } = requirePeer('murlock/dist/als/als.service.js');
  const { AsyncLocalStorage } = await import('node:async_hooks');
  const redisOptions = { url: `redis://127.0.0.1:${port}` };
  // It has no default wait; 1000 is what its documentation shows, with the blocking mode for callers that must get their turn.
  const options = { redisOptions: { ...redisOptions, socket: {} }, wait: waitMs ?? 1000, maxAttempts: 3, blocking: true, logLevel: 'none', ignoreUnlockFail: false };
  const service = new MurLockService(options, new AsyncStorageService(new AsyncStorageManager(new AsyncLocalStorage())));
  service.log = () => {};
  await service.onModuleInit();
  return {
    withLock: (key, work) => service.runWithLock(`murlock:${key}`, LEASE_MS, async () => work()),
    close: () => service.onApplicationShutdown(),
  };
});

/** Deletes a latch key after every unlock, and its unlock script deletes too: counted by `sendsBesides`. */
export const nodeRedisson = peer(
  'node-redisson',
  ['evalsha', 'eval', 'subscribe', 'unsubscribe'],
  (_, port) => {
    const { Redisson } = requirePeer('node-redisson');
    const redisson = (lockWatchdogTimeout: bigint): any => new Redisson({ redis: { options: { port, host: '127.0.0.1' } }, lockWatchdogTimeout });
    const open = redisson(BigInt(LEASE_MS));
    const others: any[] = [];
    return {
      async withLock(key, work) {
        const lock = open.getLock(`redisson:${key}`);
        await lock.lock();
        await work();
        await lock.unlock();
      },
      async hold(key, leaseMs) {
        const other = others[0] ?? redisson(BigInt(leaseMs));
        if (others.length === 0) others.push(other);
        const lock = other.getLock(`redisson:${key}`);
        await lock.lock();
        return () => lock.unlock();
      },
      close: async () => void (await Promise.all([open, ...others].map((each) => each.quit()))),
    };
  },
  1,
);

export const redisKit = peer('@redis-kit/lock', ['eval', 'evalsha'], async (_, port, waitMs) => {
  const { createClient } = requirePeer('redis');
  const { Redlock } = requirePeer('@redis-kit/lock');
  const client = createClient({ url: `redis://127.0.0.1:${port}` });
  await client.connect();
  const redlock = new Redlock([client], { maxRetryAttempts: TRIES, ...(waitMs !== undefined && { retryDelayMs: waitMs, retryJitterMs: waitMs }) });
  return {
    async withLock(key, work) {
      const lock = await redlock.acquire(`kit:${key}`, LEASE_MS);
      await work();
      await lock.release();
    },
    async hold(key, leaseMs) {
      const lock = await redlock.acquire(`kit:${key}`, leaseMs);
      lock.startAutoExtension(Math.round(leaseMs / 3));
      return () => lock.release();
    },
    close: async () => client.destroy(),
  };
});

export const peers = [redlock4, redlock5, redisSemaphore, redlockUniversal, murlock, nodeRedisson, redisKit] as const;
