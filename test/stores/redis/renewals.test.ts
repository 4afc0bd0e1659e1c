/** Which renewals of a Redis go together, what they say, and what becomes of their answers, without a server. */
import { describe, expect, it } from '@jest/globals';
import type { RenewOutcome, RenewRequest } from '../../../lib/core/port/lock-store.js';
import { Renewals, type RenewalsParts } from '../../../lib/stores/redis/renewals.js';
import { Trust } from '../../../lib/stores/redis/trust.js';
import { RedisKeys } from '../../../lib/stores/wire/redis-keys.js';
import { trustOf } from '../../../lib/stores/wire/server-clock.js';
import { gate } from '../../support/locks.js';

const keys = new RedisKeys('lock');
const SERVER = 1_795_236_000_000;
const SENT_AT = 1_000;

interface Call {
  readonly key: string | undefined;
  readonly keys: readonly string[];
  readonly args: readonly unknown[];
  readonly timeoutMs: number;
}

type Answer = (call: Call) => readonly (number | string)[];

/** A server that renews all, or answers as told: the news of a lease are its position, what is left of it, and whether others wait. */
function stage({ isCluster = false, timeoutMs = 2_000, acknowledged = 1, answer = (() => []) as Answer, hold = undefined as Promise<void> | undefined } = {}) {
  const [calls, replicas]: [Call[], number[]] = [[], []];
  const trust = new Trust((group) => (isCluster ? group : 0));
  const ask = async (call: Call): Promise<unknown> => {
    calls.push(call);
    await hold;
    return [SERVER, ...answer(call)];
  };
  const runner = {
    run: async (call: Call, decode: (reply: unknown, sentAt: number, receivedAt: number) => unknown) => decode(await ask(call), SENT_AT, SENT_AT),
    runAcknowledged: async (call: Call, wanted: number, decode: (reply: unknown, acknowledged: number, sentAt: number) => unknown) => {
      replicas.push(wanted);
      return decode(await ask(call), acknowledged, SENT_AT);
    },
  };
  const memories = { knownOf: (group: number) => `memory of ${group}` };
  const renewals = new Renewals({ runner, keys, trust, memories, timeoutMs, node: 'a:6379', maxLeaseMs: 60_000 } as unknown as RenewalsParts);
  const renew = (...requests: readonly (Partial<RenewRequest> & { key: string })[]) =>
    renewals.renew(requests.map((how) => ({ id: `p.${how.key}`, leaseMs: 6_000, minReplicas: 0, ...how }) as RenewRequest));
  return { calls, replicas, trust, renew };
}

const renewed = (key: string, leftMs = 6_000, contended = false): RenewOutcome => ({
  kind: 'renewed', trustedUntil: trustOf(leftMs, SENT_AT), contended, memory: `memory of ${keys.groupOf(key)}`,
});
const refusing = (message: string, isRefused: (call: Call) => boolean): Answer => (call) => {
  if (isRefused(call)) throw new Error(message);
  return [];
};

describe('Renewals', () => {
  it('go in one command, which says how long the leases are, and each has its own outcome', async () => {
    const { calls, trust, renew } = stage({ answer: () => [2, 300, 1, 3, -1, 0, 4, 'WRONGTYPE it is a list', 0] });
    const outcomes = await renew({ key: 'a' }, { key: 'b', leaseMs: 5_000 }, { key: 'c' }, { key: 'd' });
    expect(outcomes.slice(0, 3)).toEqual([renewed('a'), renewed('b', 300, true), { kind: 'lost' }]);
    expect(outcomes[3]).toMatchObject({ kind: 'unknown', cause: { message: expect.stringMatching(/^Lock 'd': renew failed on a:6379: WRONGTYPE it is a list\. .*\{lock:\d+\}:l:d'/) } });
    const locks = ['a', 'b', 'c', 'd'].map((key) => keys.lock(key));
    expect(calls).toMatchObject([{ key: undefined, keys: locks, args: [60_000, 6_000, 'p.a', 5_000, 'p.b', 6_000, 'p.c p.d'], timeoutMs: 5_000 / 3 }]);
    expect(trust.clock.before(0, SENT_AT, SENT_AT)).toBe(SERVER);
  });

  it('of unlike lengths, of other masters, and more than 250 go apart', async () => {
    const { calls, renew } = stage({ timeoutMs: 500 });
    await renew({ key: 'a', leaseMs: 1_000 }, { key: 'b', leaseMs: 60_000 });
    expect(calls.map(({ key, timeoutMs }) => [key, timeoutMs])).toEqual([['a', 1_000 / 3], ['b', 500]]);
    const cluster = stage({ isCluster: true });
    expect(await cluster.renew({ key: 'a' }, { key: 'b' }, { key: 'a', id: 'p.2' })).toEqual([renewed('a'), renewed('b'), renewed('a')]);
    expect(cluster.calls.map((call) => call.keys.length)).toEqual([2, 1]);
    expect(cluster.trust.clock.trustedUntil(keys.groupOf('b'), SERVER + 100, 100, SENT_AT)).toBeDefined();
    const many = stage();
    expect(await many.renew(...Array.from({ length: 251 }, (_, n) => ({ key: `k${n}` })))).toHaveLength(251);
    expect(many.calls.map((call) => call.keys.length)).toEqual([250, 1]);
  });

  it('of hundreds of commands are out sixteen at a time', async () => {
    const answers = gate<void>();
    const { calls, renew } = stage({ hold: answers.promise });
    const all = renew(...Array.from({ length: 20 * 250 }, (_, n) => ({ key: `k${n}` })));
    await new Promise(setImmediate);
    expect(calls).toHaveLength(16);
    answers.open();
    await all;
    expect(calls).toHaveLength(20);
  });

  it('without an answer leave the outcome unknown', async () => {
    const { renew } = stage({ answer: refusing('not connected', () => true) });
    const [one, two] = await renew({ key: 'a' }, { key: 'b' });
    expect(two).toEqual(one);
    expect(one).toMatchObject({ kind: 'unknown', cause: { message: expect.stringContaining('renew failed on a:6379: not connected') } });
  });

  it('of a slot that is being moved are sent again lock by lock, and only what fails then is not known', async () => {
    const isOne = (key: string, call: Call): boolean => call.key === key;
    const { calls, renew } = stage({ answer: refusing('TRYAGAIN Multiple keys request during rehashing of slot', (call) => call.keys.length > 1 || isOne('b', call)) });
    const [one, two] = await renew({ key: 'a' }, { key: 'b' });
    expect([calls.length, one]).toEqual([3, renewed('a')]);
    expect(two).toMatchObject({ kind: 'unknown', cause: { message: expect.stringMatching(/^Lock 'b': renew failed on a:6379: TRYAGAIN/) } });
  });
});

describe('A renewal', () => {
  it('of a lease that ends just now is one, and not a loss', async () => {
    const { renew } = stage({ answer: () => [1, 0, 0] });
    expect(await renew({ key: 'a' })).toEqual([renewed('a', 0)]);
  });

  it('that a single replica must acknowledge waits for that', async () => {
    const { replicas, renew } = stage({ acknowledged: 0 });
    expect(await renew({ key: 'a', minReplicas: 1 })).toMatchObject([{ kind: 'unknown', cause: { message: expect.stringContaining(`Lock 'a': renew failed on a:6379: only 0 of 1 replicas acknowledged`) } }]);
    expect(replicas).toEqual([1]);
  });
});

describe('Renewals that replicas must acknowledge', () => {
  it('go apart from the others, and are renewed when enough of them have', async () => {
    const { calls, replicas, renew } = stage({ acknowledged: 2, answer: ({ keys: asked }) => (asked.length === 2 ? [2, -1, 0] : []) });
    const [one, two, three] = await renew({ key: 'a', minReplicas: 2 }, { key: 'b' }, { key: 'c', minReplicas: 2 });
    expect([one, two, three]).toEqual([{ kind: 'renewed', trustedUntil: trustOf(6_000, SENT_AT), contended: false }, renewed('b'), { kind: 'lost' }]);
    expect([calls.map((call) => call.keys.length).sort(), replicas]).toEqual([[1, 2], [2]]);
  });

  it('are not known when too few have; what the server does not know is lost all the same', async () => {
    const { renew } = stage({ acknowledged: 1, answer: () => [2, -1, 0] });
    const [one, two] = await renew({ key: 'a', minReplicas: 2 }, { key: 'b', minReplicas: 2 });
    expect(one).toMatchObject({ kind: 'unknown', cause: { message: expect.stringContaining('only 1 of 2 replicas acknowledged') } });
    expect(two).toEqual({ kind: 'lost' });
  });
});
