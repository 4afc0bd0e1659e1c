/**
 * Lists all locks of a prefix without blocking a server or filling the memory of this process: it runs SCAN page by page on every
 * master, and inspects each lock found. A lock that is taken or freed meanwhile may be missed or listed twice, as with SCAN; a lock
 * that is taken the whole time is listed, unless it is damaged.
 */
import type { LockState } from '../../core/port/lock-state.js';
import type { DamagedLocks } from '../wire/damaged-locks.js';
import type { Connections } from '../wire/connections.js';
import { KEYS_PER_SCAN, type RedisKeys } from '../wire/redis-keys.js';
import type { ScriptRunner } from '../wire/script-runner.js';
import { storeFailure } from '../wire/store-failure.js';

export async function* listLocks(
  runner: ScriptRunner,
  connections: Connections,
  keys: RedisKeys,
  startsWith: string,
  inspect: (key: string) => Promise<LockState>,
  damaged: DamagedLocks,
): AsyncGenerator<LockState, void, undefined> {
  const pattern = keys.lockPattern(startsWith);
  const masters = connections.masters();
  if (masters.length === 0) throw storeFailure(new Error('not connected'), { what: 'list', key: undefined, node: connections.node });
  for (const node of masters) {
    let cursor = '0';
    do {
      const [next, page] = await runner.command<[string, string[]]>('list', () => node.call('scan', cursor, 'MATCH', pattern, 'COUNT', KEYS_PER_SCAN));
      cursor = next;
      const states = await damaged.without(keys.keysAmong(page, startsWith).map(inspect));
      for (const state of states) if (state.mode !== null || state.waiters.length > 0) yield state;
    } while (cursor !== '0');
  }
}
