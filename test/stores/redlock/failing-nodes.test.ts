/** Redlock nodes that are wrong, may not say who they are, or are asked again, on real servers: what the boot says of them. `simulated-nodes` has the rest. */
import { describe, expect, it } from '@jest/globals';
import { systemClock } from '../../../lib/core/port/clock.js';
import type { AcquireOutcome, LockStore } from '../../../lib/core/port/lock-store.js';
import { leastRule } from '../../../lib/stores/wire/boot-probe.js';
import { eventually } from '../../support/eventually.js';
import type { RedisServer } from '../../support/redis-server.js';
import { makeRedlock, openRedlock, startVoters } from '../../support/redlock-store.js';
import { forEachTest } from '../../support/started.js';

const masters = forEachTest(() => startVoters(5), () => undefined);

let requests = 0;
const newId = (): string => `p.${++requests}`;
function ask(store: LockStore, key: string, id: string): Promise<AcquireOutcome> {
  const usual = { mode: 'write', leaseMs: 3_000, queue: false, fences: 1, minHoldMs: 0, minReplicas: 0 } as const;
  return store.acquire({ key, id, ...usual, notAfter: systemClock.now() + 2_000 });
}

/** Locks that stand on any node, also such that no quorum knows of. */
async function standing(): Promise<number> {
  return (await Promise.all(masters.map((master) => master.command('KEYS', '{lock:*}:l:*') as Promise<string[]>))).flat().length;
}

describe('At boot', () => {
  it('a Cluster is no node', () => {
    const cluster = { cluster: [{ host: '127.0.0.1', port: masters[0]!.port }] };
    expect(() => makeRedlock([cluster, masters[1]!.url, masters[2]!.url] as string[], 'p')).toThrow(/not a Cluster/);
  });

  it('the least access rule is enough, and a node on which the user may not ask who the server is says so', async () => {
    const rule = leastRule('lock').split(' ');
    const urls = masters.map(({ port }) => `redis://locker:secret@127.0.0.1:${port}`);
    const allow = (master: RedisServer, rights: readonly string[]) => master.command('ACL', 'SETUSER', 'locker', 'reset', 'resetchannels', 'on', '>secret', ...rights);
    for (const master of masters) await allow(master, rule);
    await makeRedlock(urls, 'p').open();
    await allow(masters[4]!, rule.filter((each) => each !== '+info'));
    const refused = { code: 'LOCK_STORE', retryable: false, message: expect.stringContaining('missing: +info.') };
    await expect(makeRedlock(urls, 'q').open()).rejects.toMatchObject(refused);
  });
});

describe('A request that is made again', () => {
  it('stands on the nodes under a new name, so that a late release of the first attempt cannot touch it', async () => {
    const store = await openRedlock(masters, 'p');
    const ref = { key: 'order:1', id: newId() };
    const nameOnNode = async (): Promise<string> => {
      const [lockKey] = (await masters[0]!.command('KEYS', '*:l:order:1')) as string[];
      return String(await masters[0]!.command('GET', lockKey!)).split(' ')[2]!;
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
