/** Redlock stores for tests, with the usual options; `closeRedlocks` ends all that were opened. */
import { RedlockStore, type RedlockStoreOptions } from '../../lib/stores/redlock/redlock-store.js';
import { acquireRequest } from './acquire-request.js';
import { eventually } from './eventually.js';
import { startMasters, type Masters, type RedisServer } from './redis-server.js';
import { connectBy } from './test-client.js';
import { USUAL_OPTIONS } from './store-options.js';
import { wholeNode } from '../simulation/whole-node.js';

const opened = new Set<RedlockStore>();

export function makeRedlock(urls: readonly string[], process: string, options: Partial<RedlockStoreOptions> = {}): RedlockStore {
  const store = new RedlockStore({ ...USUAL_OPTIONS, nodes: urls.map((url) => connectBy(url)), process, ...options });
  opened.add(store);
  return store;
}

export async function openRedlock(masters: readonly RedisServer[], process: string, options: Partial<RedlockStoreOptions> = {}): Promise<RedlockStore> {
  const store = makeRedlock(masters.map(({ url }) => url), process, options);
  await store.open();
  return store;
}

/** Lets new masters vote at once, as they would after a quarantine: they have granted nothing yet. */
export async function admitAll(masters: readonly RedisServer[], prefix = 'lock'): Promise<void> {
  for (const master of masters) {
    const runId = /run_id:(\w+)/.exec(String(await master.command('INFO', 'server')))?.[1] ?? '';
    await master.command('MSET', ...wholeNode(prefix, runId, Date.now()).flat());
  }
}

/** Masters that may vote at once. When they are stopped, the stores that were opened here are closed before. */
export async function startVoters(count: number): Promise<Masters> {
  const masters = await startMasters(count);
  await admitAll(masters);
  const stop = async (): Promise<void> => {
    await closeRedlocks();
    await masters.stop();
  };
  return Object.assign([...masters], { stop, [Symbol.asyncDispose]: stop });
}

/** Whether a master votes, as its data tell. One that lost them does not say so before a process has looked at it. */
export async function votes(master: RedisServer, prefix = 'lock'): Promise<boolean> {
  return /^\d+ \S+$/.test(String(await master.command('GET', `{${prefix}:0}:f`)));
}

export async function closeRedlocks(): Promise<void> {
  for (const store of opened) await store.close();
  opened.clear();
}

/** Until a lock can be had: not before every node that forgot may vote again. */
export async function untilUsable(store: RedlockStore, withinMs: number): Promise<void> {
  let attempt = 0;
  await eventually(async () => {
    const holder = { key: 'usable?', id: `usable.${++attempt}` };
    const outcome = await store.acquire(acquireRequest({ ...holder, leaseMs: 500, queue: false, notAfter: performance.now() + 1_000 }));
    if (outcome.kind !== 'granted') throw new Error(`not usable yet: ${outcome.kind}`);
    await store.release(holder);
  }, withinMs);
}
