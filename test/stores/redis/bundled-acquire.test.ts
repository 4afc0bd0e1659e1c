/** What a request for a lock says to a Redis, and what becomes of each answer, without a server. */
import { describe, expect, it } from '@jest/globals';
import { LockStoreError } from '../../../lib/core/port/errors.js';
import type { AcquireOutcome, AcquireRequest, Grant, RenewOutcome } from '../../../lib/core/port/lock-store.js';
import { Acquiring, type AcquiringParts, type BundledAcquire } from '../../../lib/stores/redis/acquiring.js';
import { Places } from '../../../lib/stores/redis/places.js';
import { ToldHolds } from '../../../lib/stores/redis/told-holds.js';
import { Spots } from '../../../lib/stores/redis/spots.js';
import { Trust } from '../../../lib/stores/redis/trust.js';
import { acquire, type ScriptArgument } from '../../../lib/stores/wire/lua.generated.js';
import { RedisKeys } from '../../../lib/stores/wire/redis-keys.js';
import { marginOf } from '../../../lib/stores/wire/server-clock.js';
import { UnexpectedReplyError } from '../../../lib/stores/wire/unexpected-reply.js';
import type { PushedGrant } from '../../../lib/stores/wire/wake-channel.js';
import { acquireRequest } from '../../support/acquire-request.js';
import { FakeClock } from '../../support/fake-clock.js';

const keys = new RedisKeys('lock');
const SERVER = 1_795_236_000_000;
/** The server's clock when ours is 1000, in ms and as a fence. */
const NOW = SERVER + 1_000;
const FENCE = 1_000 * NOW;
const SOURCE = 9;
const spot = keys.spotOf('k');
const MEMORY = 'm'.repeat(30);

function stage({ isTimeKnown = true, renewed }: { isTimeKnown?: boolean; renewed?: RenewOutcome } = {}) {
  const [sent, compared, to]: [BundledAcquire[], unknown[], unknown[]] = [[], [], []];
  const clock = new FakeClock();
  const [places, trust] = [new Places(), new Trust(() => SOURCE)];
  if (isTimeKnown) trust.observe(0, { sentAt: 1_000, receivedAt: 1_000, serverNow: NOW });
  const bundles = { add: (script: unknown, source: number, one: BundledAcquire) => (to.push([script, source]), void sent.push(one)), underway: () => [{}, ...sent] };
  const memories = { of: () => MEMORY, madeBy: () => 'made by', connection: 5 };
  const recovery = { compare: (group: number, memory: string | undefined, connection: number) => void compared.push([group, memory, connection - 5].slice(0, connection === 5 ? 2 : 3)) };
  const parts = { bundles, spots: new Spots(keys, () => SOURCE), places, trust, renewals: { renew: async () => [renewed] }, clock, node: 'a:6379', maxLeaseMs: 60_000, recoveryMs: 400, memories, recovery, toldHolds: new ToldHolds(60_000) };
  const acquiring = new Acquiring(parts as unknown as AcquiringParts);
  const ask = (how: Partial<AcquireRequest> = {}) => {
    const outcome = acquiring.acquire(acquireRequest({ key: 'k', id: 'p.1', leaseMs: 1_500, notAfter: 61_000, ...how }));
    outcome.catch(() => undefined);
    return { outcome, one: sent.at(-1)! };
  };
  return { sent, to, compared, clock, places, trust, acquiring, ask };
}

/** The words of a request, at the time at which it is sent. */
function said(one: BundledAcquire): string {
  const [redisKeys, args]: [string[], ScriptArgument[]] = [[], []];
  one.addTo(redisKeys, args);
  expect(redisKeys).toEqual([spot.lockKey, spot.queueKey, spot.fenceKey]);
  expect(args).toHaveLength(1);
  return String(args[0]);
}

const grantOf = (fence = FENCE + 5, memory?: string) => [1, NOW, fence, 2, 1, NOW + 1_200, 1, ...(memory === undefined ? [] : [memory])];
const message = (fence = FENCE + 7): PushedGrant => ({ key: 'k', id: 'p.1', fence, fences: 1, mode: 'write', end: NOW + 1_500, lengthMs: 1_500, contended: true });

describe('A request for a lock', () => {
  it.each(['OK', '', 'version=2 groups=256 maxLeaseMs=60000'])('does not take a text that is no fence for a grant: %j', (text) => {
    const { ask, trust } = stage();
    expect(() => ask().one.answered(text, 1_000)).toThrow(UnexpectedReplyError);
    expect(trust.floors.of(spot.group)).toBe(0);
  });

  it('says what is wanted, until when the server may act, and what is known when it is sent', () => {
    const { ask, to, trust, acquiring } = stage();
    acquiring.needsListener = true;
    const { one } = ask({ leaseMs: 1_500.7, label: 'me', owner: 'o' });
    trust.floors.saw(spot.group, 77);
    const limit = Math.floor(NOW + 60_000 - 600);
    expect(to).toEqual([[acquire, SOURCE]]);
    expect(said(one)).toBe(`w111n ${limit} ${'77'.padStart(16, '0')} ${MEMORY} 2500 p.1 o me 1 0 0 60000 400 - -`);
    expect([one.key, one.lockKey, one.sharesLock, one.askedAt]).toEqual(['k', spot.lockKey, false, 1_000]);
  });

  it.each<[Partial<AcquireRequest>, string]>([
    [{ mode: 'read', queue: false }, 'r001n 1 0 0'],
    [{ fences: 3 }, 'w100n 3 0 0'],
    [{ minHoldMs: 20.5 }, 'w100n 1 20 0'],
    [{ minHoldMs: 0.5 }, 'w101n 1 0 0'],
    [{ graceMs: 30 }, 'w100n 1 0 30'],
    [{ permits: 4 }, 'p101n 1 0 0'],
    [{ replaces: 'p.0', handsOn: true }, 'w100p 1 0 0 p.0'],
  ])('says that it wants more than the plain: %j', (how, words) => {
    const [flags, , , , , , owner, , fences, minHoldMs, graceMs, , , replaces] = said(stage().ask(how).one).split(' ');
    expect([flags, fences, minHoldMs, graceMs, ...(replaces === '-' ? [] : [replaces])].join(' ')).toBe(words);
    expect(owner).toBe(how.permits === undefined ? '-' : String(how.permits));
  });

  it('shares a command with another of its lock only when it replaces something, and has the time that it was given', () => {
    const { ask } = stage();
    expect(ask({ replaces: 'p.0', askedAt: 900 }).one).toMatchObject({ sharesLock: true, askedAt: 900 });
  });

  it('that is under way is found by its id', () => {
    const { ask, acquiring } = stage();
    const { one } = ask();
    expect([acquiring.underway('p.1'), acquiring.underway('p.2')]).toEqual([one, undefined]);
  });
});

describe('An answer to a request for a lock', () => {
  it('that is only a fence is a grant of what was asked for: the fence is the time of the server as well', async () => {
    const { ask, compared, trust, places } = stage({ isTimeKnown: false });
    const { outcome, one } = ask({ leaseMs: 1_500.7 });
    said(one);
    one.answered(String(FENCE + 999), 1_000);
    const trustedUntil = 1_000 + 1_500 - marginOf(1_500);
    expect(await outcome).toEqual({ kind: 'granted', grant: { fence: FENCE + 999, fences: 1, mode: 'write', trustedUntil, contended: false, memory: MEMORY } });
    expect([trust.floors.of(spot.group), trust.clock.before(SOURCE, 1_000, 1_000), compared, places.count]).toEqual([FENCE + 999, NOW, [], 0]);
  });

  it.each([[undefined, MEMORY], [`n${MEMORY.slice(1)}`, `n${MEMORY.slice(1)}`]])('is a grant with all that the server says, by the memory that it names, or else the one it was asked for: %p', async (told, memory) => {
    const { ask, trust } = stage({ isTimeKnown: false });
    const { outcome, one } = ask();
    said(one);
    one.answered(grantOf(FENCE + 5, told), 1_000);
    expect(await outcome).toEqual({ kind: 'granted', grant: { fence: FENCE + 5, fences: 2, mode: 'write', trustedUntil: 1_000 + 1_200 - marginOf(1_200), contended: true, memory } });
    expect(trust.clock.before(SOURCE, 1_000, 1_000)).toBe(NOW);
  });

  it.each<[string, unknown[], object]>([
    ['a place', [2, NOW, 300, '-'], { kind: 'waiting', askAgainInMs: 300 }],
    ['the first place before a hold that is over', [2, NOW, 0, '-'], { kind: 'waiting', askAgainInMs: 0 }],
    ['a place behind others', [2, NOW, -1, '-'], { kind: 'waiting', askAgainInMs: undefined }],
    ['a refusal', [3, NOW, 7, '-'], { kind: 'busy', retryInMs: 7 }],
    ['the refusal of an upgrade', [4, NOW], { kind: 'upgrade' }],
    ['that there are too many holds', [6, NOW], { kind: 'full' }],
    ['that there are other permits', [8, NOW, 5], { kind: 'permits', permits: 5 }],
    ['that there are none', [8, NOW, 0], { kind: 'permits', permits: undefined }],
  ])('may be %s, also behind what was to be replaced and was lost', async (_what, reply, expected) => {
    for (const replacedLost of [false, true]) {
      const { outcome, one } = stage().ask();
      one.answered([Number(reply[0]) + (replacedLost ? 10 : 0), ...reply.slice(1)] as never, 1_000);
      expect(await outcome).toEqual({ ...expected, ...(replacedLost && { replacedLost: true }) });
    }
  });

  it('of a server that recovers is asked for again soon, at random within 50 ms: a claimed group opens as soon as what was claimed is back', async () => {
    for (let n = 0; n < 20; n += 1) {
      const recovering = stage().ask();
      recovering.one.answered([7, NOW, 300], 1_000);
      const told = (await recovering.outcome) as Extract<AcquireOutcome, { kind: 'recovering' }>;
      expect(Math.abs(told.retryInMs - 275)).toBeLessThanOrEqual(25);
      expect(told.cause.message).toMatch(/^Lock 'k': a:6379 was restarted, replaced or flushed, and grants nothing new for 300 ms more/);
    }
  });

  it('that it came too late is an error, unless it was only sent without a limit: then it is sent once more', async () => {
    const { one } = stage().ask();
    expect(() => one.answered([5, NOW], 1_000)).toThrow(LockStoreError);
    const { ask, sent, clock } = stage({ isTimeKnown: false });
    const asked = ask({ notAfter: 1_050 });
    expect(said(asked.one)).toMatch(/^w101n 0{12}1 /);
    clock.block(10);
    asked.one.answered([5, NOW + 10], 1_000);
    expect(sent).toHaveLength(2);
    expect([sent[1]!.askedAt, said(sent[1]!).split(' ')[1]]).toEqual([1_010, String(Math.floor(NOW + 10 + 40 - 0.4))]);
    sent[1]!.answered([4, NOW + 10], 1_010);
    expect(await asked.outcome).toEqual({ kind: 'upgrade' });
    const late = stage({ isTimeKnown: false });
    const tooLate = late.ask({ notAfter: 1_050 });
    late.clock.block(50);
    expect(() => tooLate.one.answered([5, NOW], 1_000)).toThrow(LockStoreError);
  });

  it('that comes after its caller got an error is ignored, and the place ends with the error', async () => {
    for (const hasPlace of [true, false]) {
      const { ask, places } = stage();
      if (hasPlace) places.add(acquireRequest({ key: 'k', id: 'p.1' }), spot.group, 0);
      const { outcome, one } = ask();
      expect(places.count).toBe(hasPlace ? 1 : 0);
      one.failed(new LockStoreError('no answer'));
      await expect(outcome).rejects.toThrow('no answer');
      one.answered([2, NOW, 300, '-'], 1_000);
      expect(places.count).toBe(0);
    }
  });
});

describe('A place in the queue', () => {
  it('has the fence that was seen when it was asked for as its floor, and is found by its id', async () => {
    const { ask, places, trust } = stage();
    trust.floors.saw(spot.group, 50);
    const { outcome, one } = ask();
    said(one);
    trust.floors.saw(spot.group, 60);
    one.answered([2, NOW, 300, '-'], 1_000);
    await outcome;
    expect(places.get('p.1')).toMatchObject({ floor: 50, group: spot.group });
  });

  it('whose grant came as a message before its answer is the grant', async () => {
    const { ask, places } = stage();
    const { outcome, one } = ask();
    one.messageCame(message());
    one.answered([2, NOW, 300, '-'], 1_000);
    expect(await outcome).toMatchObject({ kind: 'granted', grant: { fence: FENCE + 7, contended: true, memory: 'made by' } });
    expect(places.count).toBe(0);
  });

  it('whose message is not enough is asked for again, now, and replaces nothing this time', async () => {
    const { ask, sent, places, clock } = stage({ isTimeKnown: false });
    const { outcome, one } = ask({ replaces: 'p.0', notAfter: 90_000 });
    one.messageCame(message(FENCE + 1_000 * 90_000_000));
    clock.block(3);
    one.answered([2, NOW, 300, '-'], 1_000);
    expect(sent).toHaveLength(2);
    expect(sent[1]).toMatchObject({ askedAt: 1_003, sharesLock: false });
    sent[1]!.answered([4, NOW], 1_003);
    expect(await outcome).toEqual({ kind: 'upgrade' });
    expect(places.count).toBe(0);
  });

  it('that is asked for again keeps its floor, and has its grant when the message comes before the answer, unless it was released', async () => {
    for (const [hasMessage, isReleased] of [[false, false], [true, false], [true, true]]) {
      const { ask, places } = stage();
      places.add(acquireRequest({ key: 'k', id: 'p.1' }), spot.group, 3);
      const { outcome, one } = ask();
      if (hasMessage) places.get('p.1')!.messageCame(message());
      if (isReleased) places.drop('p.1');
      one.answered([2, NOW, 300, '-'], 1_000);
      expect(await outcome).toMatchObject({ kind: hasMessage && !isReleased ? 'granted' : 'waiting' });
      expect(places.get('p.1')?.floor).toBe(hasMessage ? undefined : 3);
    }
  });

  it('that is asked for again is kept while it waits, and ends with every other answer', async () => {
    for (const [reply, count] of [[[2, NOW, 300, '-'], 1], [grantOf(), 0], [[3, NOW, 7, '-'], 0]] as const) {
      const { ask, places } = stage();
      places.add(acquireRequest({ key: 'k', id: 'p.1' }), spot.group, 0);
      const { outcome, one } = ask();
      one.answered([...reply], 1_000);
      await outcome;
      expect(places.count).toBe(count);
    }
  });

  it('that was released meanwhile is not made anew by a late answer', async () => {
    const { ask, places } = stage();
    places.add(acquireRequest({ key: 'k', id: 'p.1' }), spot.group, 0);
    const { outcome, one } = ask();
    places.drop('p.1');
    one.answered([2, NOW, 300, '-'], 1_000);
    expect([await outcome, places.count]).toEqual([{ kind: 'waiting', askAgainInMs: 300 }, 0]);
  });

  it('that was granted a fence which is not above its floor is asked for anew, in place of that grant', async () => {
    const { ask, sent, places } = stage();
    places.add(acquireRequest({ key: 'k', id: 'p.1' }), spot.group, FENCE + 5);
    const { outcome, one } = ask();
    one.answered(grantOf(FENCE + 5), 1_000);
    expect(sent).toHaveLength(2);
    expect(said(sent[1]!)).toMatch(/ p\.1 -$/);
    sent[1]!.answered(grantOf(FENCE + 6), 1_000);
    expect(await outcome).toMatchObject({ kind: 'granted', grant: { fence: FENCE + 6 } });
    expect(places.count).toBe(0);
  });
});

describe('A grant that replicas must have', () => {
  const granted = async (renewed: RenewOutcome, reply: string | (string | number)[] = String(FENCE), minReplicas = 2) => {
    const on = stage({ renewed });
    const { outcome, one } = on.ask({ minReplicas });
    said(one);
    one.answered(reply, 1_000);
    return { ...on, outcome };
  };

  it('is one also behind what was to be replaced and was lost, and for a single replica', async () => {
    const [, ...rest] = grantOf();
    const { outcome } = await granted({ kind: 'renewed', trustedUntil: 2_222, contended: false }, [11, ...rest], 1);
    expect(await outcome).toMatchObject({ kind: 'granted', replacedLost: true, grant: { fence: FENCE + 5, trustedUntil: 2_222 } });
  });

  it('is one when a renewal says so, and is trusted as that is', async () => {
    const { outcome, compared } = await granted({ kind: 'renewed', trustedUntil: 2_222, contended: true });
    expect(await outcome).toMatchObject({ kind: 'granted', grant: { fence: FENCE, trustedUntil: 2_222, contended: true, memory: MEMORY } satisfies Partial<Grant> });
    expect(compared).toEqual([[spot.group, MEMORY]]);
  });

  it('is an error when they do not say so, or when it was gone before', async () => {
    const unknown = await granted({ kind: 'unknown', cause: new LockStoreError('only 1 of 2 replicas') });
    await expect(unknown.outcome).rejects.toThrow('only 1 of 2 replicas');
    const gone = await granted({ kind: 'lost' });
    await expect(gone.outcome).rejects.toThrow(`Lock 'k': the grant was gone before 2 replicas had acknowledged it. It is safe to try again.`);
    expect([unknown.compared, gone.compared]).toEqual([[], []]);
  });
});
