/** One request for a lock: what it says to the store, how often, and what becomes of what it was granted when nobody wants it any more. */
import { describe, expect, it } from '@jest/globals';
import { LockStoreError } from '../../../lib/core/port/errors.js';
import type { AcquireOutcome, HeartbeatOutcome, RenewOutcome } from '../../../lib/core/port/lock-store.js';
import { Fleet, gate, type Wire } from '../../support/locks.js';
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
  it('says to the store what its caller asked for, and wants a place in the queue if that waits at all', async () => {
    const fleet = new Fleet();
    const { locks, wire } = fleet.process();
    const asked = answering(wire);
    await (await locks.acquire('k', { owner: 'o', label: 'l', waitMs: 1 })).release();
    await (await locks.tryAcquire('k'))?.release();
    expect(asked).toMatchObject([{ owner: 'o', label: 'l', queue: true }, { owner: undefined, queue: false }]);
  });

  it('that is refused without a place costs one command', async () => {
    const fleet = new Fleet();
    const other = await fleet.process().locks.acquire('k');
    const { locks, wire } = fleet.process();
    expect(await locks.tryAcquire('k')).toBeNull();
    await fleet.clock.advance(100);
    expect(wire.commands).toBe(1);
    await other.release();
  });

  it('tells its caller that it waits as soon as the store fails', async () => {
    const fleet = new Fleet();
    const { locks, wire } = fleet.process();
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
    const fleet = new Fleet();
    const { locks, wire } = fleet.process();
    wire.reconnect('replaced');
    const lease = await fleet.clock.runUntil(locks.acquire('k'), 1_000);
    expect(wire.sent.acquire).toBe(1);
    await lease.release();
  });

  it('tells what the store says: that an owner has too many holds', async () => {
    const fleet = new Fleet();
    const { locks, wire } = fleet.process();
    answering(wire, async () => ({ kind: 'full' }));
    await expect(locks.acquire('k', { owner: 'me' })).rejects.toThrow(/me/);
  });

  it('is made again after the pause that a store names while it recovers; who does not wait is told at once, and others in the end', async () => {
    const fleet = new Fleet();
    const { locks, wire } = fleet.process();
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
    const fleet = new Fleet();
    const { locks, wire } = fleet.process();
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

describe('A grant that a heartbeat brings', () => {
  it('is taken without a further question', async () => {
    const { fleet, other, asked, waiting } = await waiter();
    await other.release();
    await (await fleet.clock.runUntil(waiting)).release();
    expect(asked).toHaveLength(1);
  });

  it('is taken without a further question also when a try before the place had failed', async () => {
    const fleet = new Fleet();
    const other = await fleet.process().locks.acquire('k');
    const { locks, wire } = fleet.process();
    wire.lostWakes.add('granted').add('ask');
    const asked = answering(wire, (n, ask) => (n === 0 ? Promise.reject(failure()) : ask()));
    const waiting = locks.acquire('k');
    await fleet.clock.advance(100);
    await other.release();
    await (await fleet.clock.runUntil(waiting)).release();
    expect(asked).toHaveLength(2);
  });

  it('is asked for when the heartbeat before it had failed', async () => {
    const { fleet, other, wire, asked, waiting } = await waiter();
    const { heartbeat } = wire;
    wire.heartbeat = async (waiters) => waiters.map(() => ({ kind: 'unknown', cause: failure() }));
    await fleet.clock.advance(800);
    wire.heartbeat = heartbeat;
    await other.release();
    const lease = await fleet.clock.runUntil(waiting);
    expect([asked.length, await lease.verify()]).toEqual([2, true]);
    await lease.release();
  });

  it('is asked for when a try had failed, though a heartbeat in between had found the place', async () => {
    const { fleet, other, wire, waiting, id } = await waiter();
    wire.lostWakes.delete('ask');
    const failed = answering(wire, () => Promise.reject(failure()));
    const { heartbeat } = wire;
    const beats: ((outcome: HeartbeatOutcome) => void)[] = [];
    wire.heartbeat = () => new Promise((resolve) => beats.push((outcome) => resolve([outcome])));
    await fleet.clock.advance(1_500);
    let began = false;
    void waiting.then(() => (began = true));
    fleet.wake({ kind: 'ask', key: 'k', id });
    await fleet.clock.settle();
    expect([failed.length, beats.length]).toEqual([1, 2]);
    const now = fleet.clock.now();
    beats[0]!({ kind: 'waiting', askAgainInMs: 10_000 });
    beats[1]!({ kind: 'granted', grant: { fence: 10 ** 17, fences: 1, mode: 'write', trustedUntil: now + 5_000, contended: false } });
    await fleet.clock.settle();
    expect([began, failed.length]).toEqual([false, 2]);
    Object.assign(wire, { heartbeat });
    delete (wire as Partial<Wire>).acquire;
    await other.release();
    await (await fleet.clock.runUntil(waiting)).release();
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
