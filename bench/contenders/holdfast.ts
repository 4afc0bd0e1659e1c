/**
 * Holdfast as an application has it: LockService over the Redis store, with all defaults unless a question says otherwise.
 */
import { randomUUID } from 'node:crypto';
import { systemClock } from '../../lib/core/port/clock.js';
import type { LockDefaults } from '../../lib/core/port/lock-options.js';
import { LockService } from '../../lib/lock.service.js';
import { RedisStore } from '../../lib/stores/redis/redis-store.js';
import { connectTo } from '../../lib/stores/wire/connect-to.js';
import type { RedisTarget } from '../../lib/stores/wire/redis-target.js';
import { BENCH_CLIENT } from '../harness/bench-client.js';
import type { Contender } from './contender.js';

export async function openStore(connection: RedisTarget, process = `bench-${randomUUID().slice(0, 8)}`, recoveryMs = 1_000): Promise<RedisStore> {
  const report = ({ message }: { message: string }): void => console.error(message);
  return new RedisStore({ connection: await connectTo(connection, BENCH_CLIENT), prefix: 'lock', process, maxLeaseMs: 60_000, commandTimeoutMs: 2_000, bootTimeoutMs: 10_000, recoveryMs, clock: systemClock, report });
}

export const single = (port: number): RedisTarget => ({ port, host: '127.0.0.1' });
/** Over any of its nodes, which names the others. */
const cluster = (port: number): RedisTarget => ({ cluster: [{ port, host: '127.0.0.1' }] });

export const holdfastOnCluster = (): Contender => holdfast('Holdfast on a Cluster', {}, cluster);

/** So many hold a lock at a time, and not one. */
export function holdfastPermits(permits: number): Contender {
  return {
    ...holdfast(),
    async open(port) {
      const process = `bench-${randomUUID().slice(0, 8)}`;
      const locks = new LockService({ waitMs: 600_000, store: await openStore(single(port), process), process });
      await locks.open();
      return { withLock: (key, work) => locks.withLock(key, { permits }, work), close: () => locks.close() };
    },
  };
}

export function holdfast(name = 'Holdfast', defaults: LockDefaults = {}, connection = single): Contender {
  return {
    name,
    sends: ['evalsha', 'eval'],
    sendsBesides: 0,
    async open(port) {
      const process = `bench-${randomUUID().slice(0, 8)}`;
      const locks = new LockService({ waitMs: 600_000, ...defaults, store: await openStore(connection(port), process), process });
      await locks.open();
      let onLoss: { unsubscribe(): void } | undefined;
      return {
        withLock: (key, work) => locks.withLock(key, work),
        withMode: (mode, key, work) => locks.withLock(key, { mode }, work),
        async hold(key, leaseMs, onLost) {
          onLoss ??= locks.events.subscribe(({ type }) => type === 'lost' && onLost());
          const lease = await locks.acquire(key, { leaseMs });
          return async () => void (await lease.release());
        },
        close: () => locks.close(),
      };
    },
  };
}
