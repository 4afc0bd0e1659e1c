/**
 * Looks at the locks from outside of any application. It does not open the store as an application does: nothing is probed,
 * subscribed to or written, and the server is only asked.
 */
import type { Finding } from '../core/port/lock-events.js';
import { systemClock } from '../core/port/clock.js';
import type { LockStore } from '../core/port/lock-store.js';
import { connectTo } from '../stores/wire/connect-to.js';
import { RedisStore } from '../stores/redis/redis-store.js';
import type { Target } from './arguments.js';
import { COMMAND_TIMEOUT_MS, reached, REACHED_WITHIN_MS } from './reached.js';
import { RedlockLook } from './redlock-look.js';
import { serversOf } from './servers.js';

/** The part of a store that the commands need. */
export type Look = Pick<LockStore, 'inspect' | 'list' | 'forceRelease' | 'close'>;

/** Options of a store that this process does not use, because it holds no locks. */
const UNUSED = { process: 'holdfast', maxLeaseMs: 60_000, bootTimeoutMs: REACHED_WITHIN_MS };
/** Should it be the first to find that the server forgot: those who hold locks get the usual time to say so. */
const RECOVERY_MS = 1_000;

/** Connects. `report` receives messages for the operator. Rejects with LockStoreError when the store does not answer in time. */
export async function lookAt(target: Target, report: (message: string) => void): Promise<Look> {
  const servers = await serversOf(target);
  const connects = await Promise.all(servers.map((server) => connectTo(server)));
  const [first, ...others] = connects;
  const { prefix } = target;
  const options = { ...UNUSED, report: ({ message }: Finding) => report(message), prefix, commandTimeoutMs: COMMAND_TIMEOUT_MS, clock: systemClock };
  const look: Look = others.length > 0 ? new RedlockLook(connects, options) : new RedisStore({ ...options, recoveryMs: RECOVERY_MS, connection: first! });
  try {
    await reached(() => look.inspect('nestjs-holdfast:cli'));
    return look;
  } catch (error) {
    await look.close();
    throw error;
  }
}
