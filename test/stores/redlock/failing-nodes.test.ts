/** Redlock nodes that are dead, frozen, out of reach or wrong: what they cost, and what is told of them. */
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { delay, systemClock } from '../../../lib/core/port/clock.js';
import type { AcquireOutcome, LockStore } from '../../../lib/core/port/lock-store.js';
import type { RedlockStore } from '../../../lib/stores/redlock/redlock-store.js';
import { leastRule } from '../../../lib/stores/wire/access-rule.js';
import { eventually } from '../../support/eventually.js';
import { within } from '../../support/in-time.js';
import { startFlakyProxy, type FlakyProxy } from '../../support/flaky-proxy.js';
import { startMasters, type RedisServer } from '../../support/redis-server.js';
import { admitAll, closeRedlocks, makeRedlock, openRedlock, untilUsable } from '../../support/redlock-store.js';

let masters: [RedisServer, RedisServer, RedisServer, RedisServer, RedisServer];
let proxies: FlakyProxy[] = [];
beforeEach(async () => {
  masters = (await startMasters(5)) as typeof masters;
  await admitAll(masters);
});
afterEach(async () => {
  await closeRedlocks();
  await Promise.all(proxies.map((proxy) => proxy.stop()));
  proxies = [];
  await Promise.all(masters.map((master) => master.stop()));
});

let requests = 0;
const newId = (): string => `p.${++requests}`;
function ask(store: LockStore, key: string, id: string, leaseMs = 3_000, notAfter = systemClock.now() + 2_000, queue = false): Promise<AcquireOutcome> {
  const usual = { mode: 'write', fences: 1, minHoldMs: 0, minReplicas: 0 } as const;
  return store.acquire({ key, id, leaseMs, queue, ...usual, notAfter });
}
const renew = async (store: LockStore, key: string, id: string, leaseMs = 3_000) => (await store.renew([{ key, id, leaseMs, minReplicas: 0 }]))[0]!;

/** How long it took, in ms. */
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

  it('that is there at boot but does not serve joins when it does, without a new connection', async () => {
    const sick = masters[2];
    await sick.command('CONFIG', 'SET', 'min-replicas-to-write', '1');
    const store = await openRedlock(masters, 'p');
    const id = newId();
    expect((await ask(store, 'order:1', id)).kind).toBe('granted');
    expect(await standing()).toBe(4);
    await store.release({ key: 'order:1', id });
    await sick.command('CONFIG', 'SET', 'min-replicas-to-write', '0');
    await eventually(async () => {
      const again = newId();
      await ask(store, 'order:1', again);
      const stands = await standing();
      await store.release({ key: 'order:1', id: again });
      expect(stands).toBe(5);
    });
  });

  it('that is frozen costs a refused request its time once at most, and is asked again when it answers', async () => {
    const store = await openRedlock(masters, 'p');
    const [holder, other] = [newId(), newId()];
    await ask(store, 'order:1', holder);
    await masters[0].pause();
    await within(1_500, async () => {
      for (let turn = 0; turn < 10; turn++) expect((await ask(store, 'order:1', other)).kind).toBe('busy');
    });
    await masters[0].resume();
    await store.release({ key: 'order:1', id: holder });
    const again = newId();
    await eventually(async () => {
      await ask(store, 'order:1', again);
      expect(await standing()).toBe(5);
      await store.release({ key: 'order:1', id: again });
    });
  });

  it.each(faults)('%s: three of five refuse with an error that names each of them, within a node\'s time, and service resumes', async (_, fault) => {
    const store = await openRedlock(masters, 'p', { maxLeaseMs: 1_000 });
    const gone = masters.slice(0, 3);
    for (const master of gone) await fault(master);
    const result = await within(1_000, () => ask(store, 'order:1', newId(), 900).catch((error: unknown) => error));
    expect(result).toMatchObject({ code: 'LOCK_STORE', retryable: true, key: 'order:1' });
    expect((result as { nodes: { node: string }[] }).nodes.map(({ node }) => node)).toEqual(masters.map(({ port }) => `127.0.0.1:${port}`));
    for (const master of gone) await (master.exitCode === undefined ? master.resume() : master.start());
    await untilUsable(store, 1_000 + 2_000);
    await eventually(async () => expect(await standing()).toBe(0));
  });

  it.each(faults)('%s: a lease that only three of five granted outlives the loss of one of them, though others wait for it', async (_, fault) => {
    const [store, other] = [await openRedlock(masters, 'p'), await openRedlock(masters, 'q')];
    const late = masters.slice(3);
    await Promise.all(late.map((master) => master.pause()));
    const [id, waiting] = [newId(), newId()];
    const notAfter = systemClock.now() + 500;
    expect((await ask(store, 'order:1', id, 3_000, notAfter)).kind).toBe('granted');
    await delay(systemClock, notAfter - systemClock.now() + 100); // what the frozen ones read then comes too late
    await Promise.all(late.map((master) => master.resume()));
    for (const master of late) expect(await master.command('KEYS', '{lock:*}:l:*')).toEqual([]);
    // The others vote for whoever waits, and are asked again and again.
    const giveUpAt = systemClock.now() + 2_000;
    let isRenewed = false;
    const wait = async (): Promise<void> => {
      while (!isRenewed && systemClock.now() < giveUpAt) {
        const outcome = await ask(other, 'order:1', waiting, 3_000, giveUpAt, true);
        if (outcome.kind !== 'busy') throw new Error(outcome.kind);
        await delay(systemClock, outcome.retryInMs);
      }
    };
    const waits = wait().catch((error: unknown) => error);
    await fault(masters[0]);
    await eventually(async () => expect((await renew(store, 'order:1', id)).kind).toBe('renewed'), 2_000);
    isRenewed = true;
    expect(await waits).toBeUndefined();
    expect(await store.release({ key: 'order:1', id })).toBe('released');
  });

  it('lets a holder whose quorum is gone know that its renewal is in doubt, and does not revive the lease later', async () => {
    const store = await openRedlock(masters, 'p');
    const id = newId();
    await ask(store, 'order:1', id, 600);
    const frozen = masters.slice(0, 3);
    await Promise.all(frozen.map((master) => master.pause()));
    const outcome = await renew(store, 'order:1', id, 600);
    expect(outcome).toMatchObject({ kind: 'unknown', cause: { code: 'LOCK_STORE', retryable: true } });
    await delay(systemClock, 700);
    await Promise.all(frozen.map((master) => master.resume()));
    await eventually(async () => expect((await renew(store, 'order:1', id, 600)).kind).toBe('lost'));
    await eventually(async () => expect((await ask(store, 'order:1', newId(), 600)).kind).toBe('granted'));
  });
});

describe('A network that fails', () => {
  async function behindProxies(): Promise<RedlockStore> {
    proxies = await Promise.all(masters.map(({ port }) => startFlakyProxy(port)));
    const store = makeRedlock(proxies.map(({ url }) => url), 'p', { commandTimeoutMs: 400 });
    await store.open();
    return store;
  }

  it('and swallows the replies of a majority: the grant in doubt is taken back everywhere', async () => {
    const store = await behindProxies();
    for (const proxy of proxies.slice(0, 3)) proxy.dropReplies(true);
    const error = await ask(store, 'order:1', newId(), 20_000).catch((error: unknown) => error);
    expect(error).toMatchObject({ code: 'LOCK_STORE', retryable: true });
    expect(await standing()).toBeLessThanOrEqual(3);
    for (const proxy of proxies) proxy.dropReplies(false);
    await eventually(async () => expect(await standing()).toBe(0));
    await untilUsable(store, 2_000);
  });

  it('and swallows the replies to a release: told as unknown, and released all the same', async () => {
    const store = await behindProxies();
    const id = newId();
    await ask(store, 'order:1', id, 20_000);
    for (const proxy of proxies.slice(0, 3)) proxy.dropReplies(true);
    await expect(store.release({ key: 'order:1', id })).rejects.toMatchObject({ code: 'LOCK_STORE', retryable: true });
    for (const proxy of proxies) proxy.dropReplies(false);
    await eventually(async () => expect(await standing()).toBe(0));
  });

  it('and cuts off one holder alone: it is in doubt, the next one waits for the end of its lease', async () => {
    const cutOff = await behindProxies();
    const other = await openRedlock(masters, 'q');
    const outcome = await ask(cutOff, 'order:1', newId(), 1_000);
    if (outcome.kind !== 'granted') throw new Error('expected a grant');
    await Promise.all(proxies.map((proxy) => proxy.cut()));
    const next = newId();
    await eventually(async () => expect((await ask(other, 'order:1', next)).kind).toBe('granted'));
    expect(systemClock.now()).toBeGreaterThan(outcome.grant.trustedUntil);
    await Promise.all(proxies.map((proxy) => proxy.heal()));
    await untilUsable(cutOff, 2_000);
  });

  it('and is slow: two clients that split the votes get the lock one after the other', async () => {
    const slow = await behindProxies();
    proxies.forEach((proxy, n) => proxy.delay(n < 3 ? 15 : 0));
    const fast = await openRedlock(masters, 'q');
    const getsIn = async (store: LockStore): Promise<number> => {
      const id = newId();
      for (let turn = 0; turn < 100; turn++) {
        const outcome = await ask(store, 'order:1', id).catch(() => undefined);
        if (outcome?.kind === 'granted') {
          await store.release({ key: 'order:1', id });
          return outcome.grant.fence;
        }
        await delay(systemClock, outcome?.kind === 'busy' ? outcome.retryInMs : 50);
      }
      throw new Error('never got in');
    };
    const fences = await Promise.all([slow, fast, slow, fast, slow, fast].map(getsIn));
    expect(new Set(fences).size).toBe(6);
    await eventually(async () => expect(await standing()).toBe(0));
  });
});

describe('At boot', () => {
  it.each([0, 1, 2, 4])('%i nodes are refused: they have no majority worth the name', (count) => {
    expect(() => makeRedlock(masters.slice(0, count).map(({ url }) => url), 'p')).toThrow(/odd number of at least 3/);
  });

  it('a Cluster is no node', () => {
    const cluster = { cluster: [{ host: '127.0.0.1', port: masters[0].port }] };
    expect(() => makeRedlock([cluster, masters[1].url, masters[2].url] as string[], 'p')).toThrow(/not a Cluster/);
  });

  it('one server given twice is refused', async () => {
    const door = await startFlakyProxy(masters[0].port);
    proxies.push(door);
    const urls = [masters[0].url, masters[1].url, `redis://127.0.0.1:${door.port}`];
    await expect(makeRedlock(urls, 'p').open()).rejects.toMatchObject({ code: 'LOCK_STORE', retryable: false, message: expect.stringMatching(/are one server/) });
  });

  it('two of five may be down: that is told, and they join when they are there', async () => {
    const down = masters.slice(0, 2);
    for (const master of down) await master.kill();
    const told: string[] = [];
    const store = await openRedlock(masters, 'p', { maxLeaseMs: 500, report: ({ message }) => told.push(message) });
    expect(told.join()).toContain(`127.0.0.1:${down[0]!.port}`);
    expect((await ask(store, 'order:1', newId(), 400)).kind).toBe('granted');
    for (const master of down) await master.start();
    await eventually(async () => {
      const id = newId();
      await ask(store, 'order:2', id, 400);
      expect(((await down[0]!.command('KEYS', '*:l:order:2')) as string[]).length).toBe(1);
    });
  });

  it('three of five down: it fails in time, with the reason of each', async () => {
    for (const master of masters.slice(0, 3)) await master.kill();
    const store = makeRedlock(masters.map(({ url }) => url), 'p', { bootTimeoutMs: 700 });
    const result = await within(2_000, () => store.open().catch((error: unknown) => error));
    expect(result).toMatchObject({ code: 'LOCK_STORE', nodes: expect.arrayContaining([{ node: `127.0.0.1:${masters[0].port}`, reason: expect.stringMatching(/ECONNREFUSED/) }]) });
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

  it('processes with different maxLeaseMs are refused: a node would vote before what it forgot has ended', async () => {
    await openRedlock(masters, 'p', { maxLeaseMs: 60_000 });
    await expect(openRedlock(masters, 'q', { maxLeaseMs: 1_000 })).rejects.toMatchObject({ code: 'LOCK_STORE', retryable: false, message: expect.stringMatching(/maxLeaseMs=60000/) });
  });

  it('a node that may not ask who its server is, is told with the missing right', async () => {
    await masters[4].command('ACL', 'SETUSER', 'default', '-info');
    const opening = makeRedlock(masters.map(({ url }) => url), 'p').open();
    await expect(opening).rejects.toMatchObject({ code: 'LOCK_STORE', retryable: false, message: expect.stringMatching(/\+info/) });
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

describe('What a Redlock cannot do', () => {
  it('is refused: replicas cannot be counted', async () => {
    const store = await openRedlock(masters, 'p');
    expect(store.capabilities).toEqual({ queue: false, replicas: false, permits: false, maxLeaseMs: 60_000 });
    const request = { key: 'order:1', id: newId(), mode: 'write', leaseMs: 500, queue: false, fences: 1, minHoldMs: 0, notAfter: Infinity } as const;
    await expect(store.acquire({ ...request, minReplicas: 1 })).rejects.toMatchObject({ code: 'LOCK_STORE', retryable: false });
    expect(await store.heartbeat([{ key: 'order:1', id: 'p.0' }])).toEqual([{ kind: 'gone' }]);
  });
});
