/**
 * One process of several that ask for locks through the store's port of the built package, each request with an id and a
 * place of its own, so that no queue inside a process hides them. Driven by messages from engine.test.ts.
 */
import { answerCalls, given, load } from '../support/answer-calls.mjs';

const { url, name } = given;
const { RedisStore } = await load('stores/redis/redis-store.js');
const { connectTo } = await load('stores/wire/connect-to.js');
const { systemClock } = await load('core/port/clock.js');

const HEARTBEAT_MS = 700;
/** The store sends as many in one command. */
const HEARTBEAT_BATCH = 100;
const usual = { mode: 'write', leaseMs: 30_000, queue: true, fences: 1, minHoldMs: 0, minReplicas: 0 };

const store = new RedisStore({
  connection: await connectTo(url, process.env.HOLDFAST_TEST_CLIENT ?? 'ioredis'),
  prefix: 'lock',
  process: name,
  maxLeaseMs: 60_000,
  recoveryMs: 0,
  commandTimeoutMs: 10_000,
  bootTimeoutMs: 5_000,
  clock: systemClock,
  report: () => {},
});
await store.open();

/** The same for all processes of a machine, in ms. */
const now = () => Number(process.hrtime.bigint()) / 1e6;
const fromLocal = now() - performance.now();

let sequence = 0;
let heartbeats = 0;
const newId = () => `${name}.${(sequence++).toString(36)}`;
/** By id, those who wait: told of a grant, or that they should ask again. */
const waiting = new Map();
store.onWake((wake) => waiting.get(wake.id)?.tell(wake.kind === 'granted' ? wake.grant : undefined));
setInterval(() => {
  const places = [...waiting].map(([id, { key }]) => ({ key, id }));
  heartbeats += Math.ceil(places.length / HEARTBEAT_BATCH);
  void store.heartbeat(places).then((outcomes) =>
    outcomes.forEach((outcome, at) => outcome.kind !== 'waiting' && waiting.get(places[at].id)?.tell(outcome.grant)),
  );
}, HEARTBEAT_MS);

const ask = (key, id, how = {}) => store.acquire({ ...usual, ...how, key, id, notAfter: performance.now() + 10_000 });

/** Waits until it is granted; `queued` is called once it has a place. */
async function getsIn(key, id, how, queued = () => {}) {
  for (;;) {
    const outcome = await ask(key, id, how);
    if (outcome.kind === 'granted') return outcome.grant;
    queued();
    const grant = await new Promise((tell) => waiting.set(id, { key, tell }));
    waiting.delete(id);
    if (grant) return grant;
  }
}

const held = new Map();
/** Those who take part in a line, by key. */
const lines = new Map();

const verbs = {
  async hold({ key, how }) {
    const id = newId();
    held.set(key, id);
    return getsIn(key, id, how);
  },
  release: ({ key }) => store.release({ key, id: held.get(key) }),
  /** Resolves when all of them have a place. Each holds for nothing when its turn comes. */
  async line({ key, count }) {
    const places = Array.from({ length: count }, () => {
      const id = newId();
      let served;
      const place = new Promise((queued) => {
        served = getsIn(key, id, {}, queued).then(() => store.release({ key, id }));
      });
      return { place, served };
    });
    await Promise.all(places.map(({ place }) => place));
    lines.set(key, places.map(({ served }) => served));
  },
  /** Resolves when all in line had their turn, with how many heartbeats this process has sent. */
  async served({ key }) {
    await Promise.all(lines.get(key));
    return heartbeats;
  },
  /** Callers that take turns until the time is over; tells when each turn began. */
  async turns({ key, callers, forMs }) {
    const began = [];
    const until = now() + forMs;
    await Promise.all(Array.from({ length: callers }, async () => {
      while (now() < until) {
        const id = newId();
        await getsIn(key, id, { leaseMs: 2_000 });
        began.push(now());
        await store.release({ key, id });
      }
    }));
    return began;
  },
  /** Workers that read and write by turns; gives all that happened, for the judge of histories. */
  async crowd({ key, workers, turns, writers }) {
    const history = [];
    const happened = (kind, id, more = {}) => history.push({ at: now(), key, id, kind, ...more });
    await Promise.all(Array.from({ length: workers }, async () => {
      for (let turn = 0; turn < turns; turn++) {
        const id = newId();
        const mode = Math.random() < writers ? 'write' : 'read';
        happened('asked', id, { mode });
        const { fence, fences, trustedUntil } = await getsIn(key, id, { mode }, () => happened('queued', id));
        happened('granted', id, { mode, fence, fences, trustedUntil: trustedUntil + fromLocal });
        await new Promise((resolve) => setTimeout(resolve, Math.random() * 4));
        if (mode === 'write' && Math.random() < 0.3) {
          happened('downgraded', id);
          await store.downgrade({ key, id });
          await new Promise((resolve) => setTimeout(resolve, 1));
        }
        happened('released', id);
        await store.release({ key, id });
      }
    }));
    return history;
  },
  async take({ keys }) {
    await Promise.all(keys.map((key) => verbs.hold({ key })));
  },
  async drop({ keys }) {
    await Promise.all(keys.map((key) => verbs.release({ key })));
  },
  /** Takes places behind the holders of these keys. */
  async queue({ keys }) {
    await Promise.all(keys.map(async (key) => {
      held.set(key, newId());
      await ask(key, held.get(key));
    }));
  },
};

process.on('disconnect', () => process.exit(0));
answerCalls(verbs);
