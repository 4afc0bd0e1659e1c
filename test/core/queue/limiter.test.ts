import { describe, expect, it } from '@jest/globals';
import { pause } from '../../../lib/core/port/clock.js';
import { LockStoreError } from '../../../lib/core/port/errors.js';
import { Limiter } from '../../../lib/core/queue/store-request.js';
import { storeFailure } from '../../../lib/stores/wire/store-failure.js';
import { alone, gate } from '../../support/locks.js';

const MOST = 2_000;
/** Of a slot group of a Cluster. */
const MOST_OF_A_GROUP = 8;
const CROWD = 2_100;

describe('A crowd that asks the store in one moment', () => {
  it('is sent in order, so many at a time, the next with each answer', () => {
    const limiter = new Limiter(MOST);
    const sent: number[] = [];
    for (let n = 0; n < CROWD; n++) {
      const send = (): void => void (limiter.inFlight += sent.push(n) > 0 ? 1 : 0);
      if (limiter.inFlight < limiter.most) send();
      else limiter.add({ send });
    }
    expect(sent).toHaveLength(MOST);
    const sentAfter = Array.from({ length: CROWD }, () => (limiter.inFlight -= 1, limiter.sendNext(), sent.length));
    expect(sentAfter).toEqual(Array.from({ length: CROWD }, (_, answers) => Math.min(CROWD, MOST + answers + 1)));
    expect(sent).toEqual(Array.from({ length: CROWD }, (_, n) => n));
  });

  it('is granted all it wants, and who gave up before its turn costs no command', async () => {
    const { fleet, locks, wire } = alone();
    wire.slowMs = 100;
    const impatient = new AbortController();
    const crowd = Array.from({ length: CROWD }, (_, n) => locks.acquire(`k:${n}`, { leaseMs: 60_000, waitMs: 1_000 }));
    const gaveUp = expect(locks.acquire('late', { signal: impatient.signal })).rejects.toThrow('no longer');
    await fleet.clock.settle();
    expect(wire.sent.acquire).toBe(MOST);
    impatient.abort(new Error('no longer'));
    const leases = await fleet.clock.runUntil(Promise.all(crowd));
    await gaveUp;
    expect(wire.sent).toMatchObject({ acquire: CROWD, release: 0 });
    await fleet.clock.runUntil(Promise.all(leases.map((lease) => lease.release())));
    expect(fleet.clock.pendingTimers).toBe(0);
  });

  it('is told that the store is silent when it did not even come to ask it', async () => {
    const { fleet, locks, wire } = alone();
    wire.slowMs = 10_000;
    const refusals = Array.from({ length: MOST + 1 }, (_, n) => locks.acquire(`k:${n}`, { waitMs: 1_000 }).catch((error: unknown) => error));
    const last = (await fleet.clock.runUntil(Promise.all(refusals))).at(-1);
    expect(last).toBeInstanceOf(LockStoreError);
    expect(wire.sent.acquire).toBe(MOST);
  });

  it('does not keep a lock that is handed over with a request: that one passes the line', async () => {
    const { fleet, locks, wire } = alone({ handOn: 1 });
    const works = gate();
    const order: string[] = [];
    const first = locks.withLock('k', () => works.promise).then(() => order.push('released'));
    await fleet.clock.settle();
    const follower = locks.withLock('k', { waitMs: Infinity }, async () => order.push('follower'));
    wire.slowMs = 100;
    const crowd = Array.from({ length: CROWD }, (_, n) => locks.withLock(`k:${n}`, async () => order.push('crowd')));
    await fleet.clock.settle();
    expect(wire.sent).toMatchObject({ acquire: MOST + 1, release: 0 });
    works.open();
    await fleet.clock.settle();
    expect(wire.sent).toMatchObject({ acquire: MOST + 2, release: 0 });
    await fleet.clock.runUntil(Promise.all([first, follower, ...crowd]));
    expect(order.indexOf('follower')).toBeLessThan(MOST + 2);
    expect(order).toHaveLength(CROWD + 2);
  });

  it('holds up nobody who asks another master of a Cluster when one does not answer', async () => {
    const { fleet, locks, wire } = alone({}, (key) => (key.startsWith('silent') ? 0 : 1));
    const asked: string[] = [];
    const { acquire } = wire;
    wire.acquire = (request) => {
      asked.push(request.key);
      return request.key.startsWith('silent') ? new Promise(() => {}) : acquire.call(wire, request);
    };
    const crowd = Array.from({ length: CROWD }, (_, n) => expect(locks.acquire(`silent:${n}`, { waitMs: 1_000 })).rejects.toThrow(LockStoreError));
    await fleet.clock.settle();
    expect(asked).toHaveLength(MOST_OF_A_GROUP);
    const since = fleet.clock.now();
    const served = await fleet.clock.runUntil(Promise.all(Array.from({ length: 20 }, (_, n) => locks.acquire(`other:${n}`))));
    expect(fleet.clock.now()).toBe(since);
    await fleet.clock.runUntil(Promise.all([...crowd, ...served.map((lease) => lease.release())]));
  });
});

describe('A store that does not answer', () => {
  it.each([0, 300])('is told as one that began nothing, and not as an unknown outcome as well (waitMs: %d)', async (waitMs) => {
    const { fleet, locks, wire } = alone();
    wire.acquire = async ({ key }) => {
      throw storeFailure(new Error('read ECONNRESET'), { what: 'acquire', key }, { node: '127.0.0.1:6379' });
    };
    const error: LockStoreError = await fleet.clock.runUntil(locks.acquire('k', { waitMs }).then(() => undefined, (reason) => reason));
    expect(error.message).toMatch(/^Lock 'k' could not be acquired .*, because the store failed: 127\.0\.0\.1:6379: read ECONNRESET\. The work did not begin.* safe to try again\.$/);
    expect(error.message).not.toContain('not known');
    expect(error.retryable).toBe(true);
  });

  it.each([[0, 800], [100, 100], [300, 300], [1_500, 1_500]])('is told as such, not as a busy lock, to a call with waitMs %i after %i ms', async (waitMs, afterMs) => {
    const { locks, fleet, wire } = alone();
    wire.acquire = () => new Promise<never>(() => {});
    const since = fleet.clock.now();
    await expect(fleet.clock.runUntil(locks.acquire('k', { waitMs }))).rejects.toMatchObject({ code: 'LOCK_STORE' });
    expect(fleet.clock.now() - since).toBe(afterMs);
  });

  it.each([0, 300].flatMap((waitMs) => [{ waitMs, renew: true }, { waitMs, renew: false }]))('from the second of two locks on keeps its caller no longer than a second beyond its waitMs ($waitMs ms, renew $renew)', async ({ waitMs, renew }) => {
    for (const answered of [1, 2]) {
      const { fleet, locks, wire } = alone();
      const { acquire } = wire;
      wire.renew = () => new Promise<never>(() => {});
      wire.release = () => new Promise<never>(() => {});
      wire.acquire = (request) => {
        if (wire.sent.acquire === answered) return new Promise<never>(() => {});
        // The last answer comes when the time is nearly over.
        wire.slowMs = wire.sent.acquire === 1 ? (waitMs || 800) - 20 : 0;
        return acquire.call(wire, request);
      };
      const since = fleet.clock.now();
      await fleet.clock.runUntil(locks.acquire(['one', 'two'], { waitMs, renew, leaseMs: 5_000 }).catch(() => 'refused'));
      expect(fleet.clock.now() - since).toBeLessThanOrEqual(waitMs + 1_000);
    }
  });

  it('in the time of so short a lease is told as such, not as a busy lock', async () => {
    const { fleet, locks, wire } = alone();
    const { acquire } = wire;
    wire.acquire = async (request) => acquire.call(wire, request).finally(() => pause(fleet.clock, 120));
    const callers = Array.from({ length: 50 }, () => locks.acquire('k', { leaseMs: 100, waitMs: 1_000 }));
    const refused = callers.map((caller) => expect(caller).rejects.toMatchObject({ code: 'LOCK_STORE', message: expect.stringContaining('longer lease') }));
    await fleet.clock.runUntil(Promise.all(refused));
  });
});
