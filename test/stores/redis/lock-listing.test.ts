/** A walk over all locks of a prefix, page by page and master by master, without a server. */
import { describe, expect, it } from '@jest/globals';
import type { LockState } from '../../../lib/core/port/lock-state.js';
import { listLocks } from '../../../lib/stores/redis/lock-listing.js';
import type { Connections, Sender } from '../../../lib/stores/wire/connections.js';
import { DamagedLocks } from '../../../lib/stores/wire/damaged-locks.js';
import { RedisKeys } from '../../../lib/stores/wire/redis-keys.js';
import type { ScriptRunner } from '../../../lib/stores/wire/script-runner.js';
import { FakeClock } from '../../support/fake-clock.js';

const keys = new RedisKeys('lock');

/** Lists the locks of masters whose pages are given, each as the keys of its locks. A key that begins with `free` is of nobody. */
async function walk(pages: readonly (readonly (readonly string[])[])[], startsWith = '') {
  const [scanned, listed]: [unknown[][], string[]] = [[], []];
  const masters = pages.map((ofMaster) => ({
    call: async (...command: unknown[]) => {
      scanned.push(command);
      const at = Number(command[1]);
      return [String((at + 1) % ofMaster.length), ofMaster[at]!.map((key) => keys.lock(key))];
    },
  }));
  const runner = { command: (_what: string, send: (client: Sender) => Promise<unknown>) => send(masters[0] as unknown as Sender) };
  const inspect = async (key: string) => ({ key, mode: key.startsWith('taken') ? 'write' : null, waiters: key.startsWith('wanted') ? [{}] : [] }) as unknown as LockState;
  const connections = { node: 'a:6379', masters: () => masters } as unknown as Connections;
  const locks = listLocks(runner as unknown as ScriptRunner, connections, keys, startsWith, inspect, new DamagedLocks(() => {}, new FakeClock()));
  for await (const { key } of locks) listed.push(key);
  return { scanned, listed };
}

describe('A walk over all locks', () => {
  it('goes through every page of every master, and lists what is held or waited for', async () => {
    const { scanned, listed } = await walk([[['taken:a', 'free:a'], [], ['wanted:b']], [['taken:c']]]);
    expect(listed).toEqual(['taken:a', 'wanted:b', 'taken:c']);
    const page = (cursor: string) => ['scan', cursor, 'MATCH', '{lock:[0-9]*}:l:*', 'COUNT', 500];
    expect(scanned).toEqual([page('0'), page('1'), page('2'), page('0')]);
  });

  it('lists only those whose keys begin as asked, whatever the server finds', async () => {
    const { scanned, listed } = await walk([[['taken:a', 'taken:b']]], 'taken:b');
    expect(listed).toEqual(['taken:b']);
    expect(scanned[0]![3]).toBe(keys.lockPattern('taken:b'));
  });
});
