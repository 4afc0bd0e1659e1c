/** Releases of one Redis, without a server: what they say to it, and what becomes of the places of their ids. */
import { describe, expect, it } from '@jest/globals';
import { LockStoreError } from '../../../lib/core/port/errors.js';
import type { AcquireOutcome, ReleaseRequest, Reply } from '../../../lib/core/port/lock-store.js';
import type { Recovery } from '../../../lib/stores/redis/recovery.js';
import type { Renewals } from '../../../lib/stores/redis/renewals.js';
import { type BundledAcquire, BundledRelease, Requests } from '../../../lib/stores/redis/requests.js';
import { type RemoteRedis, Trust } from '../../../lib/stores/redis/remote-redis.js';
import { release } from '../../../lib/stores/wire/lua.generated.js';
import { RedisKeys, SLOT_GROUPS } from '../../../lib/stores/wire/redis-keys.js';
import type { ScriptRunner } from '../../../lib/stores/wire/script-runner.js';
import type { PushedGrant } from '../../../lib/stores/wire/wake-channel.js';
import { acquireRequest } from '../../support/acquire-request.js';
import { FakeClock } from '../../support/fake-clock.js';

const keys = new RedisKeys('lock', () => 9);
const spot = keys.spotOf('k');

function stage() {
  const sent: BundledRelease[] = [];
  const trust = new Trust();
  const bundles = { add: (one: BundledRelease) => void sent.push(one) };
  const memories = { known: Array.from({ length: SLOT_GROUPS }, (_, group) => `memory ${group}`) };
  const server = { bundles, keys, trust, memories, recoveryMs: 400 } as unknown as RemoteRedis;
  const requests = new Requests(server, {} as Renewals, {} as Recovery);
  const give = (more: Partial<ReleaseRequest> = {}) => requests.release({ key: 'k', id: 'p.1', ...more });
  return { sent, trust, give, requests, server };
}

/** What this release says to the server, at the time at which it is sent. */
const said = (one: BundledRelease): unknown[] => [one.spot.redisKeys, one.text()];

describe('A release', () => {
  it('says which id is to go, and the fence and the memory that are known when it is sent', () => {
    const { sent, trust, give } = stage();
    void give({ askedAt: 55 });
    trust.floors.saw(spot.group, 77);
    expect(sent[0]).toMatchObject({ script: release, spot: { ...spot, shard: 9 }, askedAt: 55 });
    expect(said(sent[0]!)).toEqual([[spot.lockKey, spot.queueKey, spot.fenceKey], `10 p.1 77 400 memory ${spot.group} -`]);
  });

  it.each([
    [{ askedAt: 55, trustedUntil: 56 }, 0],
    [{ askedAt: 55, trustedUntil: 56, memory: `memory ${spot.group}` }, 0],
    [{ askedAt: 55, trustedUntil: 56, memory: 'an earlier one' }, 1],
    [{ askedAt: 55, trustedUntil: 55 }, 1],
    [{ trustedUntil: 1_000_000 }, 1],
    [{ askedAt: 55 }, 1],
  ])('says that the lease may have ended before, unless it was asked for while its holder could trust it, and the memory knows it: %j', (how, told) => {
    const { sent, give } = stage();
    void give(how);
    expect(said(sent[0]!)).toEqual([expect.anything(), `${told}0 p.1 0 400 memory ${spot.group} -`]);
  });

  it('that leaves a mark is looked at closely, though its lease cannot have ended', () => {
    const { server } = stage();
    expect(said(new BundledRelease(server, { key: 'k', id: 'p.1', askedAt: 55, trustedUntil: 56, mark: 'w,0,50' }, spot))).toEqual([expect.anything(), `10 p.1 0 400 memory ${spot.group} w,0,50`]);
  });

  it('is told once to whoever asked, and not again by an answer that comes after a failure', () => {
    const { sent, requests } = stage();
    const told: unknown[] = [];
    void requests.release({ key: 'k', id: 'p.1' }, (reply) => told.push(reply));
    const failure = new LockStoreError('no answer');
    sent[0]!.failed(failure, { failureOf: () => failure } as unknown as ScriptRunner);
    sent[0]!.answered(1);
    expect(told).toEqual([failure]);
  });
});

const message: PushedGrant = { key: 'k', id: 'p.1', fence: 7, fences: 1, mode: 'write', end: 1, lengthMs: 1_000, contended: false };
/** The answer that gives a place, for which nothing is told of who has the lock. */
const WAITING = [2, 1, -1, '-'];

/** A request that has a place since the fence 5, and asks again when 9 was seen. */
function askedAgain() {
  const sent: BundledAcquire[] = [];
  const [trust, told] = [new Trust(), [] as unknown[]] as const;
  const bundles = { add: (one: BundledAcquire) => void sent.push(one), underway: () => sent };
  const toldHolds = { size: 0, note: () => {}, delete: () => false };
  const memories = { known: Array(SLOT_GROUPS).fill('memory'), madeBy: () => 'memory' };
  const server = { bundles, keys, trust, memories, toldHolds, channel: { check: () => {} }, clock: new FakeClock({ now: 0 }), recoveryMs: 400, process: 'p' } as unknown as RemoteRedis;
  const requests = new Requests(server, {} as Renewals, {} as Recovery);
  requests.wake = (wake) => void told.push(wake.kind);
  const done = (reply: Reply<AcquireOutcome>): unknown => told.push(reply instanceof LockStoreError ? reply : reply.kind);
  const ask = (): BundledAcquire => {
    void requests.acquire(acquireRequest({ key: 'k', id: 'p.1' }), done);
    sent.at(-1)!.text();
    return sent.at(-1)!;
  };
  trust.floors.saw(spot.group, 5);
  ask().answered(WAITING);
  trust.floors.saw(spot.group, 9);
  return { again: ask(), ask, requests, told };
}

describe('A place that is asked for again', () => {
  it('keeps the floor of the first time: whatever was granted since must be above it', () => expect(askedAgain().again.floor).toBe(5));

  it('forgets the message that came before: it was for the place of then, and would be believed again at every answer', () => {
    const { requests, ask, told } = askedAgain();
    requests.granted(message);
    const last = ask();
    last.answered(WAITING);
    expect(told).toEqual(['waiting', 'waiting']);
    expect(requests.places.get('p.1')).toBe(last);
  });
});
