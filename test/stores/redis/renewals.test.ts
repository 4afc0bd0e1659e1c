import { describe, expect, it } from '@jest/globals';
import { LockStoreError } from '../../../lib/core/port/errors.js';
import type { HeldLease, RenewOutcome, RenewRequest } from '../../../lib/core/port/lock-store.js';
import type { Recovery } from '../../../lib/stores/redis/recovery.js';
import { Renewals } from '../../../lib/stores/redis/renewals.js';
import { type RemoteRedis, Trust } from '../../../lib/stores/redis/remote-redis.js';
import { RedisKeys, SLOT_GROUPS, UNKNOWN_MEMORY } from '../../../lib/stores/wire/redis-keys.js';
import { trustOf } from '../../../lib/stores/wire/server-clock.js';
import { FakeClock } from '../../support/fake-clock.js';
import { gate } from '../../support/locks.js';

const ONE_SERVER = { commands: { serving: () => 'server' } };

function renewalsOf(server: object, recovery: object = {}): Renewals {
  return new Renewals(server as RemoteRedis, recovery as Recovery);
}

/** Renews one lease while the memory of the server is known or not, and tells what was sent, in order. */
async function sentFor(minReplicas: number, known: string): Promise<string[]> {
  const sent: string[] = [];
  const server = {
    clock: new FakeClock(),
    maxLeaseMs: 60_000,
    recoveryMs: 1_000,
    timeoutMs: 2_000,
    connections: ONE_SERVER,
    keys: { groupOf: () => 0, shardOf: () => 0, spotOf: () => ({ group: 0 }), lock: () => 'l' },
    trust: { clock: { lowerBound: () => 1 } },
    memories: { known: [known], isOutdated: () => false, connection: 0 },
    runner: {
      run: async ({ script: { name } }: Call) => { sent.push(name); throw new LockStoreError('no answer'); },
      runAcknowledged: async ({ script: { name } }: Call, replicas: number) => { sent.push(`${name} ${replicas}`); throw new LockStoreError('no answer'); },
    },
  };
  const held: HeldLease = { state: 'held', memory: 'm1', mode: 'write', trustedUntil: 9_000, grant: { fence: 7, fences: 1 }, minHoldUntil: 0, options: {} };
  await renewalsOf(server).renew({ key: 'k', id: 'p.1', leaseMs: 8_000, graceMs: 0, minReplicas, held });
  return sent;
}

describe('A renewal while the memory of its server is not known', () => {
  it('that waits for replicas is sent as a lease to bring back: a new master without replicas could have granted the lock before it answers', async () => {
    expect(await sentFor(1, UNKNOWN_MEMORY)).toEqual(['bring-back']);
  });

  it('that waits for none, or comes when the memory is known, is sent as a renewal', async () => {
    expect(await sentFor(0, UNKNOWN_MEMORY)).toEqual(['renew']);
    expect(await sentFor(1, 'm1')).toEqual(['renew 1']);
  });
});

const HALF_MOVED = new LockStoreError('TRYAGAIN Multiple keys request during rehashing of slot');
const SERVER = 1_795_236_000_000;
const MEMORY = 'm'.repeat(30);

interface Call {
  readonly script: { readonly name: string };
  readonly key: string | undefined;
  readonly keys: readonly string[];
  readonly args: readonly string[];
  readonly timeoutMs: number;
}

const BACK = [1, 2_500, 0, MEMORY];

/** A server that does not know the leases by a renewal, or answers as told, and brings each back. */
function stage({ answer = (_call: Call): readonly (readonly (number | string)[])[] => [], isTimeKnown = true, recoveryMs = 400, found = (): number => -1, isCluster = false, hold = undefined as Promise<void> | undefined } = {}) {
  const [calls, renewals, compared]: [Call[], string[][], unknown[]] = [[], [], []];
  const [clock, trust] = [new FakeClock(), new Trust()];
  if (isTimeKnown) trust.clock.observe(0, { sentAt: 1_000, receivedAt: 1_000, serverNow: SERVER });
  const renewed = async (call: Call, replicas: number): Promise<unknown[]> => {
    const ids = call.args.filter((_, n) => n % 2 === 1).flatMap((run) => run.split(' '));
    renewals.push(ids.map((id) => `${id} ${replicas}`));
    await new Promise(setImmediate);
    return [SERVER, ids.map((_, n) => [n + 1, found(), 1])];
  };
  const run = async (call: Call, decode: (reply: unknown, sentAt: number, receivedAt: number) => unknown): Promise<unknown> => {
    if (call.script.name === 'renew') return decode(await renewed(call, 0), 1_000, 1_000);
    calls.push(call);
    await new Promise(setImmediate);
    await hold;
    const said = answer(call);
    return decode([SERVER, said.length > 0 ? said : call.keys.filter((_, n) => n % 3 === 0).map(() => BACK)], 1_000, 1_000);
  };
  const runAcknowledged = async (call: Call, replicas: number, decode: (reply: unknown, sentAt: number) => unknown): Promise<unknown> =>
    decode([await renewed(call, replicas), replicas], 1_000);
  const server = {
    runner: { run, runAcknowledged, failureOf: (error: Error) => new LockStoreError(error.message) },
    keys: new RedisKeys('lock', (group) => (isCluster ? group : 0)), trust, clock, maxLeaseMs: 60_000, recoveryMs, timeoutMs: 2_000, connections: ONE_SERVER,
    memories: { known: Array(SLOT_GROUPS).fill(MEMORY), isOutdated: (_group: number, memory: string) => memory !== MEMORY, connection: 5 },
  };
  const recovery = { compare: (...given: unknown[]) => void compared.push(given) };
  const sent = renewalsOf(server, recovery);
  const renew = (...requests: readonly RenewRequest[]): Promise<RenewOutcome[]> => Promise.all(requests.map((request) => sent.renew(request)));
  return { calls, renewals, compared, clock, trust, renew };
}

function lease(key: string, how: Partial<HeldLease> = {}, more: Partial<RenewRequest> = {}): RenewRequest {
  const held: HeldLease = {
    state: 'held', mode: 'write', grant: { fence: 7, fences: 2 }, options: {}, minHoldUntil: 0, trustedUntil: 1_900, memory: MEMORY, ...how,
  };
  return { key, id: `p.${key}`, leaseMs: 3_000.5, minReplicas: 0, held, ...more };
}

describe('A lease of a half-moved slot that is not there', () => {
  it('is looked for once, and again after the pause of its next renewal', async () => {
    const on = stage({ isCluster: true, answer: () => { throw HALF_MOVED; } });
    expect([await on.renew(lease('k')), on.renewals.length, on.calls.length]).toEqual([[expect.objectContaining({ kind: 'unknown', cause: HALF_MOVED })], 2, 1]);
  });
});

const back = { kind: 'renewed', trustedUntil: trustOf(2_500, 1_000), contended: false, memory: MEMORY };

describe('A lease that a renewal does not find', () => {
  it('that came too late is told so, in a command with others that came in time', async () => {
    const { renew } = stage({ answer: () => [[2], BACK] });
    const [one, two] = await renew(lease('a'), lease('b'));
    expect(one).toMatchObject({ kind: 'unknown', cause: { message: expect.stringContaining('it reached the server too late') } });
    expect(two).toEqual(back);
  });

  it.each([false, true])('goes with 59 others at most, four commands to a server at a time, of a Cluster too (%s), and is renewed with 249 others at most, so that a server that gets little CPU answers each in time', async (isCluster) => {
    const { calls, renewals, renew } = stage();
    expect(await renew(...Array.from({ length: 251 }, (_, n) => lease(`k${n}`)))).toHaveLength(251);
    expect([renewals.map(({ length }) => length), calls.map((call) => call.keys.length)]).toEqual([[250, 1], [180, 180, 180, 180, 33]]);
    const answers = gate<void>();
    const many = stage({ hold: answers.promise, isCluster });
    const all = many.renew(...Array.from({ length: 18 * 60 }, (_, n) => lease(`k${n}`, { memory: 'another' })));
    for (let n = 0; n < 5; n += 1) await new Promise(setImmediate);
    expect(many.calls).toHaveLength(4);
    answers.open();
    await all;
    if (!isCluster) expect(many.calls).toHaveLength(18);
  });

  it('is counted by the replicas that have it, when it asks for them', async () => {
    const left = [-1, 600];
    const { renewals, renew } = stage({ found: () => left.shift()! });
    expect(await renew(lease('k', {}, { minReplicas: 1 }))).toEqual([{ kind: 'renewed', trustedUntil: trustOf(600, 1_000), contended: true, memory: MEMORY }]);
    expect(renewals).toEqual([['p.k 1'], ['p.k 1']]);
    const lost = stage();
    expect(await lost.renew(lease('k', {}, { minReplicas: 1 }), lease('j'))).toEqual([{ kind: 'lost' }, back]);
  });
});
