/** One request for a lock: what it says to the store, how often, and what becomes of what it was granted when nobody wants it any more. */
import { describe, expect, it } from '@jest/globals';
import { LockStoreError } from '../../../lib/core/port/errors.js';
import type { AcquireOutcome, ReleaseRequest, RenewOutcome } from '../../../lib/core/port/lock-store.js';
import { answering } from '../../support/answering.js';
import { alone, besideHolder, Fleet, gate } from '../../support/locks.js';

const failure = (retryable = true): LockStoreError => new LockStoreError('not connected', { retryable });
const codeOf = (call: Promise<unknown>): Promise<unknown> => call.then(() => 'granted', (error: { code: string }) => error.code);

/** A process that waits for a lock which another has, with wakes that never come. */
async function waiter(waitMs = 60_000) {
  const { fleet, locks, wire, other } = await besideHolder('k');
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
    await expect(locks.tryAcquire('k')).rejects.toMatchObject({ code: 'LOCK_STORE' });
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
    wire.reconnect('rolled back');
    await fleet.clock.runUntil(locks.acquire('k'), 1_000);
    expect(wire.sent.acquire).toBe(1);
  });

  it('that was granted what the store may have forgotten is released when it is refused then', async () => {
    const { fleet, locks, wire } = alone();
    const asked = answering(wire, async (n, ask) => {
      if (n > 0) return { kind: 'busy', retryInMs: 1_000 };
      const outcome = await ask();
      await new Promise<void>((resolve) => void fleet.clock.setTimer(resolve, 5));
      wire.reconnect('rolled back');
      return outcome;
    });
    const released: string[] = [];
    wire.release = async ({ id }) => (released.push(id), 'released');
    expect(await fleet.clock.runUntil(codeOf(locks.acquire('k', { waitMs: 0 })))).toBe('LOCK_TIMEOUT');
    await fleet.clock.settle();
    expect(asked.map(({ id }) => id)).toEqual([released[0], released[0]]);
  });

  it('that failed leaves one release, by which an adopted hold owes the rest of its minHoldMs', async () => {
    for (const adopts of [false, true]) {
      const { fleet, locks, wire } = alone();
      const ticket = adopts ? await (await fleet.process().locks.acquire('k')).handOff() : undefined;
      answering(wire, () => Promise.reject(failure(false)));
      const released: ReleaseRequest[] = [];
      wire.release = async (request) => (released.push(request), 'released');
      expect(await codeOf(ticket === undefined ? locks.acquire('k') : locks.adopt(ticket))).toBe('LOCK_STORE');
      await fleet.clock.settle();
      expect(released.map(({ abandoned }) => abandoned)).toEqual([!adopts]);
    }
  });

  it.each<[string, () => Promise<AcquireOutcome>, string]>([
    ['failed for good', () => Promise.reject(failure(false)), 'LOCK_STORE'],
    ['was refused', async () => ({ kind: 'full' }), 'LOCK_USAGE'],
    ['would turn reading into writing', async () => ({ kind: 'upgrade' }), 'LOCK_USAGE'],
  ])('that %s after it had waited is not made again', async (_how, answer, code) => {
    const { fleet, wire, waiting, id } = await waiter();
    wire.lostWakes.clear();
    const asked = answering(wire, answer);
    fleet.wake({ kind: 'ask', key: 'k', id });
    expect(await fleet.clock.runUntil(codeOf(waiting))).toBe(code);
    await fleet.clock.advance(2_000);
    expect(asked).toHaveLength(1);
  });

  it('that is refused gives back what an earlier try without an answer may still bring, under which nobody worked', async () => {
    const { fleet, locks, wire } = alone();
    const released: ReleaseRequest[] = [];
    wire.release = async (request) => (released.push(request), 'released');
    answering(wire, async (n) => (n === 0 ? Promise.reject(failure()) : { kind: 'full' }));
    expect(await fleet.clock.runUntil(codeOf(locks.acquire('k')))).toBe('LOCK_USAGE');
    await fleet.clock.advance(5_000);
    expect(released.at(-1)).toMatchObject({ key: 'k', abandoned: true });
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
      const { fleet, locks, wire, other } = await besideHolder('k');
      answering(wire, (n, ask) => answer(n, ask, fleet));
      expect(await fleet.clock.runUntil(codeOf(locks.acquire('k', { waitMs })))).toBe(code);
      await other.release();
    }
  });

  it('is told as a busy lock when the store had made it wait, though it does not answer a later question', async () => {
    const { fleet, wire, waiting, id } = await waiter(1_200);
    wire.lostWakes.clear();
    answering(wire, () => new Promise(() => {}));
    fleet.wake({ kind: 'ask', key: 'k', id });
    expect(await fleet.clock.runUntil(codeOf(waiting))).toBe('LOCK_TIMEOUT');
  });

  it.each([
    { how: 'does not answer a renewal', renew: (): Promise<RenewOutcome> => new Promise(() => {}) },
    { how: 'has lost it when the renewal comes', renew: async (): Promise<RenewOutcome> => ({ kind: 'lost' }) },
  ])('is told as a failure of the store, which granted so late that too little was left, and $how', async ({ renew }) => {
    const { fleet, locks, wire } = alone();
    wire.slowMs = 600;
    wire.renew = renew;
    expect(await fleet.clock.runUntil(codeOf(locks.acquire('k', { leaseMs: 1_000, waitMs: 700 })))).toBe('LOCK_STORE');
    expect(await fleet.clock.runUntil(codeOf(locks.tryAcquire('free', { leaseMs: 1_000 })))).toBe('LOCK_STORE');
  });

  it.each([
    { how: 'fails', isFailing: () => true, code: 'LOCK_STORE' },
    { how: 'failed once', isFailing: (n: number) => n === 0, code: 'LOCK_TIMEOUT' },
  ])('is told as a failure while the store cannot be asked again, and the place is kept (it $how)', async ({ isFailing, code }) => {
    const { fleet, wire, waiting, id } = await waiter(1_900);
    const asked = answering(wire, (n, ask) => (isFailing(n) ? Promise.reject(failure()) : ask()));
    const ended = codeOf(waiting);
    await fleet.clock.advance(1_800);
    expect((await fleet.store.inspect('k')).waiters).toMatchObject([{ id }]);
    expect(await fleet.clock.runUntil(ended)).toBe(code);
    expect(asked.length).toBeGreaterThan(1);
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

  it('is renewed before work begins when the store is so slow that trust would end before the first renewal is answered', async () => {
    const { fleet, locks, wire, other } = await besideHolder('k');
    wire.slowMs = 1_600;
    const waiting = locks.acquire('k');
    await fleet.clock.advance(2_000);
    await other.release();
    const lease = await fleet.clock.runUntil(waiting);
    await fleet.clock.advance(2_000);
    expect(() => lease.assertHeld()).not.toThrow();
  });

  it('is asked for again when the answer to its renewal is read only after the trust in that', async () => {
    const { fleet, locks, wire, other } = await besideHolder('k');
    wire.slowMs = 1_600;
    const { renew } = wire;
    wire.renew = async () => {
      wire.renew = renew;
      return { kind: 'renewed', trustedUntil: fleet.clock.now() - 1, contended: false };
    };
    const waiting = locks.acquire('k');
    await fleet.clock.advance(2_000);
    await other.release();
    expect((await fleet.clock.runUntil(waiting)).remainingMs).toBeGreaterThan(0);
  });
});

const rejected = (call: Promise<unknown>): Promise<unknown> => call.then(() => 'granted', (reason: unknown) => reason);

/** What a request leaves to be given back: when its caller gave up, when its answer came late, or when it had a lease to replace. */
describe('A request that nobody wants any more', () => {
  it.each([
    ['granted', { kind: 'granted', grant: { fence: 1, fences: 1, mode: 'write', trustedUntil: 10_000, contended: false } }, 2],
    ['waiting', { kind: 'waiting', askAgainInMs: undefined }, 2],
    ['not told', failure(), 2],
    ['busy', { kind: 'busy', retryInMs: 100 }, 1],
  ] as const)('is released once more when its answer comes only then, unless it had nothing to release: %s', async (_what, outcome, releases) => {
    const { fleet, locks, wire } = alone();
    const answer = gate();
    answering(wire, () => answer.promise.then(() => (outcome instanceof LockStoreError ? Promise.reject(outcome) : (outcome as AcquireOutcome))));
    const stop = new AbortController();
    const call = rejected(locks.acquire('k', { signal: stop.signal }));
    await fleet.clock.settle();
    stop.abort('enough');
    expect(await call).toBe('enough');
    answer.open();
    await fleet.clock.settle();
    expect(wire.sent.release).toBe(releases);
  });

  it('and stood in line to be sent costs no command, and takes the turn of nobody', async () => {
    const { fleet, locks, wire } = alone({}, () => 0);
    const answer = gate();
    const asked = answering(wire, (_, ask) => answer.promise.then(ask));
    const crowd = Array.from({ length: 8 }, (_, n) => locks.acquire(`${n}`));
    const stop = new AbortController();
    const impatient = Array.from({ length: 10 }, (_, n) => rejected(locks.acquire(`late ${n}`, { signal: stop.signal })));
    await fleet.clock.settle();
    expect(asked).toHaveLength(8);
    stop.abort('enough');
    expect(await Promise.all(impatient)).toEqual(impatient.map(() => 'enough'));
    answer.open();
    const leases = await fleet.clock.runUntil(Promise.all(crowd));
    leases.push(...(await fleet.clock.runUntil(Promise.all(Array.from({ length: 10 }, (_, n) => locks.acquire(`then ${n}`))))));
    expect([asked.length, wire.sent.release]).toEqual([18, 0]);
  });

  it('is released again and again while the store cannot be reached, for as long as it might have the lock', async () => {
    const { fleet, locks, wire } = alone({ commandTimeoutMs: 2_000 });
    const tries: number[] = [];
    wire.release = () => (tries.push(fleet.clock.now()), Promise.reject(failure()));
    wire.deaf = true;
    for (const options of [{ leaseMs: 4_000, minHoldMs: 6_000, graceMs: 3_000 }, { leaseMs: 6_000, minHoldMs: 4_000, graceMs: 3_000 }]) {
      const gaveUpAt = fleet.clock.now() + 50;
      await fleet.clock.runUntil(rejected(locks.acquire('k', { ...options, waitMs: 50 })));
      await fleet.clock.advance(30_000);
      expect(tries.at(-1)! - gaveUpAt).toBeGreaterThan(6_000 + 3_000 + 2_000 - 600);
      expect(tries.at(-1)! - gaveUpAt).toBeLessThanOrEqual(6_000 + 3_000 + 2_000 + 50);
    }
  });

  it('does not begin for another caller when its grant was being renewed as its own gave up', async () => {
    const { fleet, locks, wire, other } = await besideHolder('k');
    const stop = new AbortController();
    const first = rejected(locks.acquire('k', { renew: false, signal: stop.signal }));
    const second = locks.acquire('k', { leaseMs: 5_000 });
    await fleet.clock.settle();
    const { renew } = wire;
    const answer = gate();
    wire.renew = async (request) => {
      const outcome = await renew.call(wire, request);
      await answer.promise;
      return outcome;
    };
    await other.release();
    await fleet.clock.settle();
    const asked = answering(wire, (_, ask) => new Promise((resolve) => void fleet.clock.setTimer(() => resolve(ask()), 100)));
    stop.abort('enough');
    expect(await first).toBe('enough');
    answer.open();
    const lease = await fleet.clock.runUntil(second);
    expect([asked.length, await lease.verify()]).toEqual([1, true]);
  });
});

describe('A grant that is over, but for its grace', () => {
  it('L3: is made longer, because nobody else has the lock, and asked for again after a pause when that is not answered', async () => {
    const { fleet, locks, wire } = alone();
    const { acquire, renew } = { acquire: wire.acquire.bind(wire), renew: wire.renew.bind(wire) };
    wire.acquire = async (request) => {
      const outcome = await acquire(request);
      return outcome.kind === 'granted' ? { ...outcome, grant: { ...outcome.grant, trustedUntil: fleet.clock.now() - 1 } } : outcome;
    };
    wire.renew = async (request) => (wire.sent.acquire < 4 ? { kind: 'unknown', cause: new LockStoreError('no answer', { key: 'k' }) } : renew(request));
    const since = fleet.clock.now();
    const lease = await fleet.clock.runUntil(locks.acquire('k', { graceMs: 8_000 }));
    expect([lease.remainingMs > 0, wire.sent.acquire, fleet.clock.now() - since > 3]).toEqual([true, 4, true]);
  });
});

describe('A grant of fixed length that is made longer', () => {
  it('is one of the memory that the answer names, and not of the one that granted it', async () => {
    const { fleet, locks, wire } = alone();
    const acquire = wire.acquire.bind(wire);
    wire.acquire = async (request) => {
      const outcome = await acquire(request);
      return outcome.kind === 'granted' ? { ...outcome, grant: { ...outcome.grant, memory: 'M1', trustedUntil: fleet.clock.now() + 300 } } : outcome;
    };
    const renew = wire.renew.bind(wire);
    wire.renew = (request) => renew(request).then((outcome) => (outcome.kind === 'renewed' ? { ...outcome, memory: 'M2' } : outcome));
    await fleet.clock.runUntil(locks.acquire('k', { leaseMs: 5_000, renew: false }));
    const memories: unknown[] = [];
    wire.mayHaveForgotten = ({ memory }) => (memories.push(memory), false);
    wire.reconnect('some');
    expect([wire.sent.renew, memories]).toEqual([1, ['M2']]);
  });
});

describe('A grant of fixed length that could not be made longer', () => {
  it('is asked for again then, once, and is renewed once at a time, whatever messages come: a Redlock takes a grant back that it does not find again at once', async () => {
    const { fleet, locks, wire, other } = await besideHolder('k');
    const waiting = locks.acquire('k', { renew: false, waitMs: 2_000 });
    await fleet.clock.settle();
    const { id } = (await fleet.store.inspect('k')).waiters[0]!;
    const { renew } = wire;
    const answer = gate();
    let renewals = 0;
    wire.renew = async (request) => {
      renewals += 1;
      if (renewals > 1) return renew.call(wire, request);
      await answer.promise;
      return { kind: 'unknown', cause: failure() };
    };
    const asked = answering(wire);
    await other.release();
    await fleet.clock.settle();
    const now = fleet.clock.now();
    fleet.wake({ kind: 'ask', key: 'k', id });
    fleet.wake({ kind: 'granted', key: 'k', id, grant: { fence: 10 ** 17, fences: 1, mode: 'write', trustedUntil: now + 1_000, contended: false } });
    await fleet.clock.settle();
    expect([renewals, asked.length]).toEqual([1, 0]);
    answer.open();
    const lease = await fleet.clock.runUntil(waiting);
    expect([asked.length, await lease.verify()]).toEqual([1, true]);
  });
});

describe('A lease that a request replaces', () => {
  /** One who holds, and the next caller of the process, to whom the lease is not handed on. */
  async function replacing(how: { readonly othersWait?: boolean } = {}) {
    const { fleet, locks, wire } = alone({ handOn: 1, commandTimeoutMs: 2_000 });
    const hold = await locks.acquire('k', { leaseMs: 6_000, graceMs: 3_000 });
    const { id } = (await fleet.store.inspect('k')).holders[0]!;
    const other = how.othersWait ? fleet.process().locks.acquire('k') : undefined;
    await fleet.clock.settle();
    const stop = new AbortController();
    const next = rejected(locks.acquire('k', { leaseMs: 1_000, signal: stop.signal }));
    await fleet.clock.settle();
    const released: ReleaseRequest[] = [];
    const { release } = wire;
    wire.release = (request) => (released.push({ ...request }), release.call(wire, request));
    return { fleet, locks, wire, hold, next, other, stop, id, released };
  }

  it('is named in the question until that was answered, goes before nobody who waits, and is not released once more', async () => {
    const { fleet, wire, hold, next, other, stop, id, released } = await replacing({ othersWait: true });
    const asked = answering(wire, (n, ask) => (n === 0 ? Promise.reject(failure()) : ask()));
    expect(await hold.release()).toBe('unknown');
    await fleet.clock.runUntil(other!);
    fleet.wake({ kind: 'ask', key: 'k', id: asked[0]!.id });
    await fleet.clock.settle();
    expect(asked.map(({ replaces, handsOn }) => [replaces, handsOn])).toEqual([[id, false], [id, false], [undefined, false]]);
    stop.abort('enough');
    expect(await next).toBe('enough');
    await fleet.clock.advance(10_000);
    expect(released.filter((each) => each.id === id)).toEqual([]);
  });

  it('is released again when the store is put back to a state before the question', async () => {
    const { fleet, wire, hold, next, id, released } = await replacing();
    await hold.release();
    await fleet.clock.runUntil(next);
    wire.reconnect('rolled back');
    await fleet.clock.settle();
    expect(released.map((each) => each.id)).toContain(id);
  });

  it('is released by itself when the question is given up, for as long as the store might have it', async () => {
    const { fleet, wire, hold, next, stop, id } = await replacing();
    const tries: number[] = [];
    wire.cut = true;
    wire.release = (request) => (request.id === id && tries.push(fleet.clock.now()), Promise.reject(failure()));
    expect(await hold.release()).toBe('unknown');
    const gaveUpAt = fleet.clock.now();
    stop.abort('enough');
    expect(await next).toBe('enough');
    await fleet.clock.advance(30_000);
    expect(tries.at(-1)! - gaveUpAt).toBeGreaterThan(6_000 + 3_000 + 2_000 - 600);
    expect(tries.at(-1)! - gaveUpAt).toBeLessThanOrEqual(6_000 + 3_000 + 2_000);
  });
});
