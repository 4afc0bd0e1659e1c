/**
 * Each library as a careful application uses it around a read and a write: the lock is renewed while the work goes on, and before it
 * writes, the work asks for what the library offers: has the lock been lost?
 */
import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';
import { LockService } from '../../lib/lock.service.js';
import { requirePeer, type Contender, type Guard, type LockUnderTest } from './contender.js';
import { openStore, single } from './holdfast.js';

/** The default of the module. */
const RECOVERY_MS = 1_000;
/** More tries than any run makes: nobody shall give up. */
const TRIES = 1_000_000_000;

type Guarding = NonNullable<LockUnderTest['guard']>;

function guarding(name: string, open: (redis: Redis, port: number) => Guarding | Promise<Guarding>): Contender {
  return {
    name,
    sends: [],
    sendsBesides: 0,
    async open(port) {
      const redis = new Redis({ port, host: '127.0.0.1' }).on('error', () => {});
      const guard = await open(redis, port);
      return { guard, withLock: (key, work) => guard(key, 30_000, async () => work()), close: async () => redis.disconnect() };
    },
  };
}

function holdfast(name: string, fenced: boolean): Contender {
  return guarding(name, async (_, port) => {
    const process = `bench-${randomUUID().slice(0, 8)}`;
    const locks = new LockService({ waitMs: 600_000, store: await openStore(single(port), process, RECOVERY_MS), process });
    await locks.open();
    return (key, leaseMs, work) =>
      locks.withLock(key, { leaseMs }, (lease) => work({ fence: fenced ? lease.fence : undefined, isLost: () => lease.remainingMs === 0 }));
  });
}

export const holdfastFenced = holdfast('Holdfast, writes with the fence', true);
export const holdfastUnfenced = holdfast('Holdfast, writes without it', false);

export const redlock5Guard = guarding('redlock 5', (redis) => {
  const redlock = new (requirePeer('redlock5').default)([redis], { retryCount: -1 });
  redlock.on('error', () => {});
  return (key, leaseMs, work) =>
    redlock.using([key], leaseMs, { automaticExtensionThreshold: Math.round(leaseMs / 3) }, (signal: AbortSignal) => work({ isLost: () => signal.aborted }));
});

export const redisSemaphoreGuard = guarding('redis-semaphore', (redis) => {
  const { Mutex } = requirePeer('redis-semaphore');
  return async (key, leaseMs, work) => {
    let lost = false;
    const mutex = new Mutex(redis, key, { lockTimeout: leaseMs, acquireTimeout: 3_600_000, onLockLost: () => (lost = true) });
    await mutex.acquire();
    try {
      await work({ isLost: () => lost || !mutex.isAcquired });
    } finally {
      await mutex.release();
    }
  };
});

export const redlockUniversalGuard = guarding('redlock-universal', (redis) => {
  const { createLock, IoredisAdapter } = requirePeer('redlock-universal');
  const adapter = new IoredisAdapter(redis);
  return (key, leaseMs, work) =>
    createLock({ adapter, key, ttl: leaseMs, retryAttempts: TRIES }).using((signal: AbortSignal) => work({ isLost: () => signal.aborted }));
});

export const nodeRedissonGuard = guarding('node-redisson', (_, port) => {
  const { Redisson } = requirePeer('node-redisson');
  const unknown: Guard = { isLost: () => false };
  let redisson: any;
  return async (key, leaseMs, work) => {
    redisson ??= new Redisson({ redis: { options: { port, host: '127.0.0.1' } }, lockWatchdogTimeout: BigInt(leaseMs) });
    const lock = redisson.getLock(key);
    await lock.lock();
    try {
      await work(unknown);
    } finally {
      await lock.unlock();
    }
  };
});
