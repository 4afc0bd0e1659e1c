import { describe, expect, it, jest } from '@jest/globals';
import { LockStoreError } from '../../../lib/core/port/errors.js';
import type { HeldLease, RenewOutcome, RenewRequest } from '../../../lib/core/port/lock-store.js';
import { BringingBack, type BringingBackParts } from '../../../lib/stores/redis/bringing-back.js';
import { Trust } from '../../../lib/stores/redis/trust.js';
import { RedisKeys } from '../../../lib/stores/wire/redis-keys.js';
import { trustOf } from '../../../lib/stores/wire/server-clock.js';
import { FakeClock } from '../../support/fake-clock.js';
import { gate } from '../../support/locks.js';

/** Renews one lease while the memory of the server is known or not, and tells what was sent, in order. */
async function sentFor(minReplicas: number, known: string | undefined): Promise<string[]> {
  const sent: string[] = [];
  const parts = {
    clock: new FakeClock(),
    node: 'a:6379',
    maxLeaseMs: 60_000,
    recoveryMs: 1_000,
    timeoutMs: 2_000,
    keys: { groupOf: () => 0, spotOf: () => ({ group: 0 }) },
    trust: { sourceOf: () => 0, clock: { before: () => 1 } },
    memories: { knownOf: () => known, isOutdated: () => false, connection: 0 },
    renewals: { renew: async (requests: readonly RenewRequest[]) => (sent.push('renewed'), requests.map(() => ({ kind: 'renewed', trustedUntil: 9_000, contended: false }))) },
    runner: { run: jest.fn(async () => { sent.push('brought back'); throw new LockStoreError('no answer'); }) },
  } as unknown as BringingBackParts;
  const held = { isHeld: true, memory: 'm1', mode: 'write', trustedUntil: 9_000, firstFence: 7, fences: 1, minHoldUntil: 0, label: '' } as unknown as HeldLease;
  await new BringingBack(parts).renew([{ key: 'k', id: 'p.1', leaseMs: 8_000, graceMs: 0, minReplicas, held }]);
  return sent;
}

describe('A renewal while the memory of its server is not known', () => {
  it('that waits for replicas is sent as a lease to bring back: a new master without replicas could have granted the lock before it answers', async () => {
    expect(await sentFor(1, undefined)).toEqual(['brought back']);
  });

  it('that waits for none, or comes when the memory is known, is sent as a renewal', async () => {
    expect(await sentFor(0, undefined)).toEqual(['renewed']);
    expect(await sentFor(1, 'm1')).toEqual(['renewed']);
  });
});

const keys = new RedisKeys('lock');
const SERVER = 1_795_236_000_000;
const MEMORY = 'm'.repeat(30);

interface Call {
  readonly key: string | undefined;
  readonly keys: readonly string[];
  readonly args: readonly string[];
  readonly timeoutMs: number;
}

const BACK = [1, 2_500, 0, MEMORY];

/** A server that does not know the leases by a renewal, and brings each back, or answers as told. */
function stage({ answer = (_call: Call): readonly (number | string)[] => [], isTimeKnown = true, recoveryMs = 400, found = (_request: RenewRequest): RenewOutcome => ({ kind: 'lost' }), isCluster = false, hold = undefined as Promise<void> | undefined } = {}) {
  const [calls, renewals, released, compared]: [Call[], string[][], unknown[], unknown[]] = [[], [], [], []];
  const clock = new FakeClock();
  const trust = new Trust((group) => (isCluster ? group : 0));
  if (isTimeKnown) trust.observe(0, { sentAt: 1_000, receivedAt: 1_000, serverNow: SERVER });
  const run = async (call: Call, decode: (reply: unknown, sentAt: number, receivedAt: number) => void) => {
    calls.push(call);
    await new Promise(setImmediate);
    await hold;
    const said = answer(call);
    return decode([SERVER, ...(said.length > 0 ? said : call.keys.filter((_, n) => n % 3 === 0).flatMap(() => BACK))], 1_000, 1_000);
  };
  const renew = async (requests: readonly RenewRequest[]): Promise<readonly RenewOutcome[]> => {
    renewals.push(requests.map(({ id, minReplicas }) => `${id} ${minReplicas}`));
    await new Promise(setImmediate);
    return requests.map(found);
  };
  const parts = {
    runner: { run }, keys, trust, clock, node: 'a:6379', maxLeaseMs: 60_000, recoveryMs, timeoutMs: 2_000,
    renewals: { renew },
    releases: { release: async (holder: unknown) => void released.push(holder) },
    memories: { knownOf: () => MEMORY, isOutdated: (_group: number, memory: string) => memory !== MEMORY, connection: 5 },
    recovery: { compare: (...given: unknown[]) => void compared.push(given) },
  } as unknown as BringingBackParts;
  return { calls, renewals, released, compared, clock, trust, renew: (...requests: readonly RenewRequest[]) => new BringingBack(parts).renew(requests) };
}

function lease(key: string, how: Partial<HeldLease> = {}, more: Partial<RenewRequest> = {}): RenewRequest {
  const held: HeldLease = {
    isHeld: true, isReleased: false, mode: 'write', firstFence: 7, fences: 2, owner: undefined, permits: undefined, label: undefined, minHoldUntil: 0, trustedUntil: 1_900, memory: MEMORY, ...how,
  };
  return { key, id: `p.${key}`, leaseMs: 3_000.5, minReplicas: 0, held, ...more };
}

const back = { kind: 'renewed', trustedUntil: trustOf(2_500, 1_000), contended: false, memory: MEMORY };

describe('A lease that a renewal does not find', () => {
  it('is brought back with all that is known of it, until its end at most', async () => {
    const { calls, renewals, compared, trust, renew } = stage();
    expect(await renew(lease('k', { label: 'me', owner: 'o', minHoldUntil: 1_020.5 }, { graceMs: 30 }))).toEqual([back]);
    const { lockKey, queueKey, fenceKey, group } = keys.spotOf('k');
    expect(renewals).toEqual([['p.k 0']]);
    expect(calls).toMatchObject([{ key: 'k', keys: [lockKey, queueKey, fenceKey], timeoutMs: 3_000.5 / 3, inOrder: true }]);
    expect(calls[0]!.args).toEqual(['p.k', `w ${SERVER + 891} 3000 7 2 21 30 60000 400 ${MEMORY} -`, expect.stringMatching(/^\S*o \S*me$/)]);
    expect(compared).toEqual([[group, MEMORY, 5]]);
    expect(trust.clock.before(0, 1_000, 1_000)).toBe(SERVER);
  });

  it('says its permits in place of an owner, and waits no longer for its answer than the timeout', async () => {
    const { calls, renew } = stage();
    await renew(lease('k', { permits: 3, trustedUntil: 90_000, minHoldUntil: 900 }, { leaseMs: 60_000 }));
    expect(calls[0]).toMatchObject({ timeoutMs: 2_000, args: ['p.k', `p ${SERVER + 1_980} 60000 7 2 0 0 60000 400 ${MEMORY} -`, expect.stringMatching(/^\S*3 -$/)] });
  });

  it('is not looked for where nothing is recovered, or nothing is known of it', async () => {
    const off = stage({ recoveryMs: 0 });
    expect([await off.renew(lease('k')), off.calls.length]).toEqual([[{ kind: 'lost' }], 0]);
    const unknown = stage();
    expect([await unknown.renew(lease('k', {}, { held: undefined })), unknown.calls.length, unknown.renewals.length]).toEqual([[{ kind: 'lost' }], 0, 1]);
  });

  it('is not brought back once it was released; if that was on its way, it is released again', async () => {
    const gone = stage();
    expect([await gone.renew(lease('k', { isHeld: false })), gone.calls]).toEqual([[{ kind: 'lost' }], []]);
    const late = stage();
    await late.renew(lease('k', { isReleased: true }), lease('j'));
    expect(late.released).toEqual([{ key: 'k', id: 'p.k' }]);
  });

  it('is what the server says, each by itself', async () => {
    const { calls, renew } = stage({ answer: () => [0, 0, 0, 0, 3, 'WRONGTYPE it is a list', 0, 0, 1, 2_500, 1, MEMORY] });
    const [one, two, three] = await renew(lease('a'), lease('b'), lease('c'));
    expect([one, three, calls[0]!.key]).toEqual([{ kind: 'lost' }, { ...back, contended: true }, undefined]);
    expect(two).toMatchObject({ kind: 'unknown', cause: { message: expect.stringMatching(/^Lock 'b': bring-back failed on a:6379: WRONGTYPE it is a list\./) } });
  });

  it('that came too late is sent once more, now that the time of the server is known, and no third time', async () => {
    const { calls, renew } = stage({ isTimeKnown: false, answer: ({ keys: asked }) => (asked.length === 6 ? [2, 0, 0, 0, ...BACK] : [2, 0, 0, 0]) });
    const [one, two] = await renew(lease('a'), lease('b'));
    expect([calls.map((call) => call.keys.length), calls.map((call) => call.args[1]!.split(' ')[1])]).toEqual([[6, 3], ['1', String(SERVER + 891)]]);
    expect(one).toMatchObject({ kind: 'unknown', cause: { message: expect.stringContaining('it came after the end of the lease') } });
    expect(two).toEqual(back);
  });

  it('may still come back for a while when nothing is answered', async () => {
    const { renew } = stage({ answer: () => { throw new Error('not connected'); } });
    const [one, two] = await renew(lease('a'), lease('b'));
    expect(two).toEqual(one);
    expect(one).toMatchObject({ kind: 'unknown', lateUntil: 3_000, cause: { message: expect.stringContaining('Locks: bring-back failed on a:6379: not connected') } });
  });

  it('goes with 59 others at most, sixteen commands at a time', async () => {
    const { calls, renew } = stage();
    expect(await renew(...Array.from({ length: 61 }, (_, n) => lease(`k${n}`)))).toHaveLength(61);
    expect(calls.map((call) => call.keys.length)).toEqual([180, 3]);
    const answers = gate<void>();
    const many = stage({ hold: answers.promise });
    const all = many.renew(...Array.from({ length: 18 * 60 }, (_, n) => lease(`k${n}`)));
    for (let n = 0; n < 5; n += 1) await new Promise(setImmediate);
    expect(many.calls).toHaveLength(16);
    answers.open();
    await all;
    expect(many.calls).toHaveLength(18);
  });

  it('goes to each master of a Cluster by itself, and waits for its answer as the shortest of its leases allows', async () => {
    const cluster = stage({ isCluster: true });
    expect(await cluster.renew(lease('a'), lease('b'), lease('a', {}, { id: 'p.2' }))).toEqual([back, back, back]);
    expect(cluster.calls.map((call) => call.keys.length)).toEqual([6, 3]);
    const { calls, renew } = stage();
    await renew(lease('a'), lease('b', {}, { leaseMs: 1_500 }), lease('c'));
    expect(calls.map(({ timeoutMs }) => timeoutMs)).toEqual([500]);
  });

  it('is counted by the replicas that have it, when it asks for them', async () => {
    const answers: RenewOutcome[] = [{ kind: 'lost' }, { kind: 'renewed', trustedUntil: 1_500, contended: true }];
    const { renewals, renew } = stage({ found: () => answers.shift()! });
    expect(await renew(lease('k', {}, { minReplicas: 1 }))).toEqual([{ kind: 'renewed', trustedUntil: 1_500, contended: true, memory: MEMORY }]);
    expect(renewals).toEqual([['p.k 1'], ['p.k 1']]);
    const lost = stage();
    expect(await lost.renew(lease('k', {}, { minReplicas: 1 }), lease('j'))).toEqual([{ kind: 'lost' }, back]);
  });
});

describe('A lease that another memory knew', () => {
  it('is brought back without a renewal, beside others that are renewed', async () => {
    const renewed: RenewOutcome = { kind: 'renewed', trustedUntil: 9_000, contended: false };
    const { calls, renewals, renew } = stage({ found: () => renewed });
    expect(await renew(lease('a', { memory: 'another' }), lease('b'), lease('c', { memory: undefined }))).toEqual([back, renewed, renewed]);
    expect([renewals, calls.map(({ key }) => key)]).toEqual([[['p.b 0', 'p.c 0']], ['a']]);
  });
});

describe('A lease whose slot is being moved', () => {
  const moving = (isMoving: (call: Call) => boolean) => ({
    answer: (call: Call) => {
      if (isMoving(call)) throw new Error('TRYAGAIN Multiple keys request during rehashing of slot');
      return [];
    },
  });

  it('is asked for alone when it was one of several', async () => {
    const { calls, renew } = stage(moving((call) => call.keys.length > 3));
    expect(await renew(lease('a'), lease('b'))).toEqual([back, back]);
    expect(calls.map(({ key }) => key)).toEqual([undefined, 'a', 'b']);
  });

  it('is renewed where it is, and else not known', async () => {
    const renewed: RenewOutcome = { kind: 'renewed', trustedUntil: 9_000, contended: false, memory: MEMORY };
    const there = stage({ ...moving(() => true), found: () => renewed });
    expect(await there.renew(lease('a', { memory: 'another' }, { minReplicas: 0 }))).toEqual([{ ...renewed, memory: undefined }]);
    const gone = stage(moving(() => true));
    const [outcome] = await gone.renew(lease('a', {}, { minReplicas: 2 }));
    expect(outcome).toMatchObject({ kind: 'unknown', lateUntil: 3_000, cause: { message: expect.stringMatching(/^Lock 'a': bring-back failed on a:6379: TRYAGAIN/) } });
    expect(gone.renewals).toEqual([['p.a 2'], ['p.a 0']]);
  });
});
