/**
 * One process of a recovery run (recovery.test.ts): it holds leases, or waits for those that another holds, or has nothing to do, while
 * the store forgets. It records what it trusted and when. All times are of a clock that the processes of a machine share, in ms.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { answerCalls, load } from '../support/answer-calls.mjs';

const { LockService } = await load('lock.service.js');
const { RedisStore } = await load('stores/redis/redis-store.js');
const { connectTo } = await load('stores/wire/connect-to.js');
const { systemClock } = await load('core/port/clock.js');

const TAKEN_AT_ONCE = 100;
const now = () => Number(process.hrtime.bigint()) / 1e6;

let store, locks;
let stop = new AbortController();
/** By key: what this process was granted, with the time of the grant, of its loss or release, and of its coming back. */
let holds = new Map();
let waiting = [];

function watched(key, lease) {
  const hold = { key, lease, grantedAt: now(), endedAt: undefined, isLost: false, backAt: undefined };
  lease.signal.addEventListener('abort', () => {
    hold.endedAt ??= now();
    hold.isLost = true;
    hold.reason = String(lease.signal.reason?.message);
  });
  holds.set(key, hold);
  return hold;
}

/** A lease has come back when a renewal tells of another memory than the one that knew it before. */
function noteWhatComesBack() {
  const renew = store.renew.bind(store);
  store.renew = async (request) => {
    const known = request.held?.memory;
    const outcome = await renew(request);
    const hold = holds.get(request.key);
    if (hold !== undefined && outcome.kind === 'renewed' && outcome.memory !== undefined && outcome.memory !== known) hold.backAt = now();
    return outcome;
  };
}

async function inParallel(keys, act) {
  const left = [...keys];
  await Promise.all(Array.from({ length: TAKEN_AT_ONCE }, async () => {
    for (let key = left.shift(); key !== undefined; key = left.shift()) await act(key);
  }));
}

/** Whether the store still has the lease. It is asked again where it does not answer, as while a Sentinel moves the master. */
async function isKnown(lease) {
  while (!lease.signal.aborted) {
    const known = await lease.verify().catch(() => undefined);
    if (known !== undefined) return known;
    await sleep(100);
  }
  return false;
}

const verbs = {
  async open({ name, redis, client, prefix, recoveryMs, leaseMs }) {
    store = new RedisStore({
      connection: await connectTo(redis, client), prefix, process: name, maxLeaseMs: 60_000, recoveryMs,
      commandTimeoutMs: 2_000, bootTimeoutMs: 30_000, clock: systemClock, report: () => {},
    });
    noteWhatComesBack();
    locks = new LockService({ store, process: name, leaseMs, waitMs: Infinity, shutdownGraceMs: 0 });
    await locks.open();
  },
  hold: ({ keys }) => inParallel(keys, async (key) => watched(key, await locks.acquire(key))),
  /** Asks for all of them; resolves when it waits for each. */
  async wait({ keys }) {
    let queued = 0;
    const all = new Promise((resolve) => {
      const events = locks.events.subscribe(({ type }) => {
        if (type !== 'waiting' || ++queued < keys.length) return;
        events.unsubscribe();
        resolve();
      });
    });
    waiting = keys.map((key) => locks.acquire(key, { signal: stop.signal }).then((lease) => watched(key, lease), () => undefined));
    await all;
  },
  /** How many leases have neither come back nor been lost since then, of those with these keys. */
  unsettled: ({ keys }) => keys.filter((key) => holds.get(key) !== undefined && !holds.get(key).isLost && holds.get(key).backAt === undefined),
  /** Whether the store still has each lease; gives the keys of those that it has not. */
  async missing({ keys }) {
    const missing = [];
    await inParallel(keys, async (key) => {
      if (!(await isKnown(holds.get(key).lease))) missing.push(key);
    });
    return missing;
  },
  report: () => [...holds.values()].map(({ key, grantedAt, endedAt, isLost, backAt, reason }) => ({ key, grantedAt, endedAt, isLost, backAt, reason })),
  /** Waits no more, and gives back what it holds. */
  async giveBack() {
    stop.abort();
    await Promise.all(waiting);
    for (const hold of holds.values()) hold.endedAt ??= now();
    await inParallel(holds.keys(), (key) => holds.get(key).lease.release());
    holds = new Map();
    waiting = [];
    stop = new AbortController();
  },
  now,
};

process.on('disconnect', () => process.exit(0));
answerCalls(verbs);
