/** Redlock nodes that are dead, frozen or wrong, on real servers: what they cost, and what the boot says of them. `simulated-nodes` has the rest. */
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { systemClock } from '../../../lib/core/port/clock.js';
import type { AcquireOutcome, LockStore } from '../../../lib/core/port/lock-store.js';
import { leastRule } from '../../../lib/stores/wire/boot-probe.js';
import { eventually } from '../../support/eventually.js';
import { within } from '../../support/in-time.js';
import { startMasters, type RedisServer } from '../../support/redis-server.js';
import { admitAll, closeRedlocks, makeRedlock, openRedlock } from '../../support/redlock-store.js';

let masters: [RedisServer, RedisServer, RedisServer, RedisServer, RedisServer];
beforeEach(async () => {
  masters = (await startMasters(5)) as typeof masters;
  await admitAll(masters);
});
afterEach(async () => {
  await closeRedlocks();
  await Promise.all(masters.map((master) => master.stop()));
});

let requests = 0;
const newId = (): string => `p.${++requests}`;
function ask(store: LockStore, key: string, id: string): Promise<AcquireOutcome> {
  const usual = { mode: 'write', leaseMs: 3_000, queue: false, fences: 1, minHoldMs: 0, minReplicas: 0 } as const;
  return store.acquire({ key, id, ...usual, notAfter: systemClock.now() + 2_000 });
}
const renew = async (store: LockStore, key: string, id: string, leaseMs = 3_000) => (await store.renew([{ key, id, leaseMs, minReplicas: 0 }]))[0]!;

/** Locks that stand on any node, also such that no quorum knows of. */
async function standing(): Promise<number> {
  return (await Promise.all(masters.map((master) => master.command('KEYS', '{lock:*}:l:*') as Promise<string[]>))).flat().length;
}

describe('A dead or frozen node', () => {
  const faults: readonly [string, (node: RedisServer) => Promise<void>][] = [
    ['dead', (node) => node.kill()],
    ['frozen', (node) => node.pause()],
  ];

  it.each(faults)('%s: two of five cost nobody their time, neither in a grant nor in a renewal or release', async (_, fault) => {
    const store = await openRedlock(masters, 'p');
    await fault(masters[0]);
    await fault(masters[3]);
    // Thirty acts; a node's time is 200 ms for this lease.
    await within(2_000, async () => {
      for (let turn = 0; turn < 10; turn++) {
        const id = newId();
        expect((await ask(store, 'order:1', id)).kind).toBe('granted');
        expect((await renew(store, 'order:1', id)).kind).toBe('renewed');
        expect(await store.release({ key: 'order:1', id })).toBe('released');
      }
    });
  });
});

describe('At boot', () => {
  it('a Cluster is no node', () => {
    const cluster = { cluster: [{ host: '127.0.0.1', port: masters[0].port }] };
    expect(() => makeRedlock([cluster, masters[1].url, masters[2].url] as string[], 'p')).toThrow(/not a Cluster/);
  });

  it('nodes learn the scripts of votes, so that nothing overtakes the first vote', async () => {
    const store = await openRedlock(masters, 'p');
    const sources = async (): Promise<number> => {
      const stats = await Promise.all(masters.map((master) => master.command('INFO', 'commandstats')));
      return stats.reduce<number>((sum, text) => sum + Number(/cmdstat_eval:calls=(\d+)/.exec(String(text))?.[1]), 0);
    };
    const before = await sources();
    const id = newId();
    expect((await ask(store, 'order:1', id)).kind).toBe('granted');
    expect(await store.release({ key: 'order:1', id })).toBe('released');
    await eventually(async () => expect(await standing()).toBe(0));
    expect(await sources()).toBe(before);
  });

  it('the least access rule is enough, and a node on which the user may not ask who the server is says so', async () => {
    const rule = leastRule('lock').split(' ');
    const urls = masters.map(({ port }) => `redis://locker:secret@127.0.0.1:${port}`);
    const allow = (master: RedisServer, rights: readonly string[]) => master.command('ACL', 'SETUSER', 'locker', 'reset', 'resetchannels', 'on', '>secret', ...rights);
    for (const master of masters) await allow(master, rule);
    await makeRedlock(urls, 'p').open();
    await allow(masters[4], rule.filter((each) => each !== '+info'));
    const refused = { code: 'LOCK_STORE', retryable: false, message: expect.stringContaining('missing: +info.') };
    await expect(makeRedlock(urls, 'q').open()).rejects.toMatchObject(refused);
  });
});

describe('A request that is made again', () => {
  it('stands on the nodes under a new name, so that a late release of the first attempt cannot touch it', async () => {
    const store = await openRedlock(masters, 'p');
    const ref = { key: 'order:1', id: newId() };
    const nameOnNode = async (): Promise<string> => {
      const [lockKey] = (await masters[0].command('KEYS', '*:l:order:1')) as string[];
      return String(await masters[0].command('GET', lockKey!)).split(' ')[2]!;
    };
    await ask(store, ref.key, ref.id);
    const first = await nameOnNode();
    await store.release(ref);
    await eventually(async () => expect(await standing()).toBe(0));
    await ask(store, ref.key, ref.id);
    expect(first.startsWith(`${ref.id}/`)).toBe(true);
    expect(await nameOnNode()).not.toBe(first);
    expect((await store.inspect(ref.key)).holders).toMatchObject([{ id: ref.id }]);
  });
});
