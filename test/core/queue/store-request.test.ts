/** One request for a lock: what it says to the store, how often, and what becomes of what it was granted when nobody wants it any more. */
import { describe, expect, it } from '@jest/globals';
import { LockStoreError } from '../../../lib/core/port/errors.js';
import type { AcquireOutcome, HeartbeatOutcome, RenewOutcome } from '../../../lib/core/port/lock-store.js';
import { alone, Fleet, gate } from '../../support/locks.js';
import { answering } from '../../support/answering.js';

const failure = (retryable = true): LockStoreError => new LockStoreError('not connected', { retryable });
const codeOf = (call: Promise<unknown>): Promise<unknown> => call.then(() => 'granted', (error: { code: string }) => error.code);

/** A process that waits for a lock which another has, with wakes that never come. */
async function waiter(waitMs = 60_000) {
  const fleet = new Fleet();
  const other = await fleet.process().locks.acquire('k');
  const { locks, wire } = fleet.process();
  wire.lostWakes.add('granted').add('ask');
  const asked = answering(wire);
  const waiting = locks.acquire('k', { waitMs });
  await fleet.clock.settle();
  return { fleet, other, locks, wire, asked, waiting, id: asked[0]!.id };
}

describe('A request', () => {
  it('tells its caller that it waits as soon as the store fails', async () => {
    const { fleet, locks, wire } = alone();
    wire.cut = true;
    const told: string[] = [];
    locks.events.subscribe(({ type }) => told.push(type));
    const waiting = locks.acquire('k');
    await fleet.clock.settle();
    expect(told).toEqual(['waiting']);
    wire.cut = false;
    await (await fleet.clock.runUntil(waiting)).release();
  });

  it('is made once more, and not twice at a time, however many messages come while the store is being asked', async () => {
    const { fleet, other, wire, waiting, id } = await waiter();
    wire.lostWakes.clear();
    const answer = gate();
    const asked = answering(wire, (_, ask) => answer.promise.then(ask));
    for (let n = 0; n < 3; n++) fleet.wake({ kind: 'ask', key: 'k', id });
    await fleet.clock.settle();
    expect(asked).toHaveLength(1);
    answer.open();
    await fleet.clock.settle();
    expect(asked).toHaveLength(2);
    await other.release();
    await (await fleet.clock.runUntil(waiting)).release();
  });

  it('is answered with one question after the data of the store were replaced', async () => {
    const { fleet, locks, wire } = alone();
    wire.reconnect('replaced');
    const lease = await fleet.clock.runUntil(locks.acquire('k'), 1_000);
    expect(wire.sent.acquire).toBe(1);
    await lease.release();
  });

  it('is made again after the pause that a store names while it recovers; who does not wait is told at once, and others in the end', async () => {
    const { fleet, locks, wire } = alone();
    const asked = answering(wire, async (n, ask) => (n === 1 ? ask() : { kind: 'recovering', retryInMs: 300, cause: failure() }));
    const since = fleet.clock.now();
    const lease = await fleet.clock.runUntil(locks.acquire('k'));
    expect([fleet.clock.now() - since, asked.length]).toEqual([300, 2]);
    await lease.release();
    await expect(locks.tryAcquire('k')).rejects.toMatchObject({ code: 'LOCK_STORE', message: expect.stringContaining('not connected') });
    expect(wire.sent.release).toBe(1);
    expect(await fleet.clock.runUntil(codeOf(locks.acquire('k', { waitMs: 200 })))).toBe('LOCK_STORE');
  });
});

describe('A wait that is over', () => {
  it('is told as a busy lock when the store had little time, or had answered before, and as a failure while it fails', async () => {
    const cases: readonly { waitMs: number; code: string; answer: (n: number, ask: () => Promise<AcquireOutcome>, fleet: Fleet) => Promise<AcquireOutcome> }[] = [
      { waitMs: 60, code: 'LOCK_TIMEOUT', answer: () => new Promise(() => {}) },
      { waitMs: 400, code: 'LOCK_TIMEOUT', answer: (n, ask) => (n === 0 ? Promise.reject(failure()) : ask()) },
      { waitMs: 400, code: 'LOCK_STORE', answer: () => Promise.reject(failure()) },
      { waitMs: 400, code: 'LOCK_STORE', answer: () => new Promise(() => {}) },
    ];
    for (const { waitMs, code, answer } of cases) {
      const fleet = new Fleet();
      const other = await fleet.process().locks.acquire('k');
      const { locks, wire } = fleet.process();
      answering(wire, (n, ask) => answer(n, ask, fleet));
      expect(await fleet.clock.runUntil(codeOf(locks.acquire('k', { waitMs })))).toBe(code);
      await other.release();
    }
  });

  it('is told as a busy lock when the store had made it wait, though it does not answer a later question', async () => {
    const { fleet, wire, waiting, id, other } = await waiter(1_200);
    wire.lostWakes.clear();
    answering(wire, () => new Promise(() => {}));
    fleet.wake({ kind: 'ask', key: 'k', id });
    expect(await fleet.clock.runUntil(codeOf(waiting))).toBe('LOCK_TIMEOUT');
    await other.release();
  });

  it.each([
    { how: 'does not answer a renewal', renew: (): Promise<readonly RenewOutcome[]> => new Promise(() => {}) },
    { how: 'has lost it when the renewal comes', renew: async (): Promise<readonly RenewOutcome[]> => [{ kind: 'lost' }] },
  ])('is told as a failure of the store, which granted so late that too little was left, and $how', async ({ renew }) => {
    const { fleet, locks, wire } = alone();
    wire.slowMs = 600;
    wire.renew = renew;
    expect(await fleet.clock.runUntil(codeOf(locks.acquire('k', { leaseMs: 1_000, waitMs: 700 })))).toBe('LOCK_STORE');
    expect(await fleet.clock.runUntil(codeOf(locks.tryAcquire('free', { leaseMs: 1_000 })))).toBe('LOCK_STORE');
  });

  it.each([
    { failing: [1, 2], code: 'LOCK_STORE' },
    { failing: [1], code: 'LOCK_TIMEOUT' },
  ])('is told as a failure while the heartbeats fail (of two: $failing), and the place is kept', async ({ failing, code }) => {
    const { fleet, wire, asked, waiting, other } = await waiter(1_900);
    let beats = 0;
    const { heartbeat } = wire;
    wire.heartbeat = async (waiters) => (failing.includes((beats += 1)) ? waiters.map((): HeartbeatOutcome => ({ kind: 'unknown', cause: failure() })) : heartbeat.call(wire, waiters));
    expect([await fleet.clock.runUntil(codeOf(waiting)), beats, asked.length]).toEqual([code, 2, 1]);
    await other.release();
  });
});

describe('A grant that a message brings', () => {
  it('is asked for when the machine slept in the ten seconds before, and else taken as it is', async () => {
    for (const [agoMs, questions] of [[2_000, 1], [12_000, 0]] as const) {
      const { fleet, other, wire, asked, waiting } = await waiter();
      wire.lostWakes.clear();
      fleet.clock.sleepMachine(5_000);
      await fleet.clock.advance(agoMs);
      const { length } = asked;
      await other.release();
      const lease = await fleet.clock.runUntil(waiting);
      expect([asked.length - length, await lease.verify()]).toEqual([questions, true]);
      await lease.release();
    }
  });
});
