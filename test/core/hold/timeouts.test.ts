import { describe, expect, it } from '@jest/globals';
import { LockTimeoutError } from '../../../lib/core/port/errors.js';
import type { LockService } from '../../../lib/lock.service.js';
import { alone, besideHolder, Fleet, gate } from '../../support/locks.js';

/** The error of a call that waits in vain. */
async function refusal(call: Promise<unknown>): Promise<LockTimeoutError> {
  const reason = await call.then(() => 'a success', (error: unknown) => error);
  if (!(reason instanceof LockTimeoutError)) throw new Error(`expected a LockTimeoutError, got ${String(reason)}`);
  return reason;
}

/** The same, with all the time that it takes. */
const refusalOf = (fleet: Fleet, call: Promise<unknown>): Promise<LockTimeoutError> => fleet.clock.runUntil(refusal(call));

/** Counts the questions for holders; they are answered when `answered` says so. */
function looksOf(wire: ReturnType<Fleet['process']>['wire'], answered = Promise.resolve()): { count: number } {
  const looks = { count: 0 };
  const { inspect } = wire;
  wire.inspect = async (key) => {
    looks.count += 1;
    await answered;
    return inspect.call(wire, key);
  };
  return looks;
}

describe('A wait that was in vain', () => {
  it('names the holder by label and process, and since when, as the store knows it', async () => {
    const fleet = new Fleet();
    const site = { label: 'OrderService.pay', leaseMs: 20_000 };
    const since = new Date(fleet.clock.wallNow());
    const lease = await fleet.process().locks.acquire('order:1', site);
    await fleet.clock.advance(1_000);
    const error = await refusalOf(fleet, fleet.process().locks.withLock('order:1', { waitMs: 300 }, () => 1));
    expect(error).toMatchObject({ key: 'order:1', waitMs: 300, held: [] });
    expect(error.holders).toEqual([{ process: 'p1', label: 'OrderService.pay', owner: undefined, fence: lease.fence, since, isHere: false }]);
    expect(error.message).toBe(
      `Lock 'order:1' was still busy after 300 ms. It was not taken; try again later. ` +
        `Held by OrderService.pay in process p1 since ${since.toISOString()}.`,
    );
  });

  it('tells of a holder in the same process who has the lock now, and not who asked the store for it', async () => {
    const { fleet, locks } = alone();
    const [first, before, second] = [gate(), gate(), gate()];
    const site = { label: 'Second.work', waitMs: 5_000 };
    const calls = [locks.withLock('k', () => first.promise), locks.withLock('k', () => before.promise), locks.withLock('k', site, () => second.promise)];
    first.open();
    await fleet.clock.settle();
    // The lease of the one before is handed on, so that its fence tells of an earlier time.
    await fleet.clock.advance(30);
    before.open();
    await fleet.clock.settle();
    const since = new Date(fleet.clock.wallNow());
    const error = await refusalOf(fleet, locks.withLock('k', { waitMs: 300 }, () => 1));
    expect(error.holders).toMatchObject([{ label: 'Second.work', since, isHere: true }]);
    expect(error.message).toContain(`Held by Second.work in this process since ${since.toISOString()}.`);
    second.open();
    await fleet.clock.runUntil(Promise.all(calls));
  });

  it.each([[3, ''], [5, '; and 2 more']])('names three of %i holders, and counts the others', async (count, more) => {
    const fleet = new Fleet();
    for (let n = 0; n < count; n += 1) await fleet.process().locks.acquire('k', { mode: 'read' });
    const error = await refusalOf(fleet, fleet.process().locks.acquire('k', { waitMs: 300 }));
    expect(error.holders).toHaveLength(count);
    expect(error.message).toMatch(new RegExp(`Held by process p1 [^;]*; process p2 [^;]*; process p3 [^;]*Z${more}\\.$`));
  });

  it('names the holder by its owner, its machine and its process id, and not since when if its fence is not made of a time', async () => {
    const { fleet, locks, wire } = await besideHolder('k');
    const { inspect } = wire;
    wire.inspect = async (key) => ({ ...(await inspect.call(wire, key)), holders: [{ id: 'web-1:4711:x7.1', fence: 7, owner: 'saga', remainingMs: 1 }] });
    expect((await refusalOf(fleet, locks.acquire('k', { waitMs: 300 }))).message).toContain(" Held by owner 'saga' in web-1, pid 4711.");
  });

  it('names the locks that the waiting call held', async () => {
    const { fleet, locks } = await besideHolder('c');
    const error = await refusalOf(fleet, locks.withLock('a', () => locks.withLock('b', () => locks.withLock('c', { waitMs: 300 }, () => 1))));
    expect(error.held).toEqual(['a', 'b']);
    expect(error.message).toContain(`The call that waited holds 'a', 'b': if `);
  });

  it('has a stack that shows who called', async () => {
    const { fleet, locks } = await besideHolder('k');
    const [waitMs, options] = [300, { waitMs: 300 }];
    async function payTheOrder(): Promise<void> {
      await locks.withLock('k', { waitMs }, () => 1);
    }
    async function bookTheStock(): Promise<void> {
      await locks.acquire(['j', 'k'], options);
    }
    expect((await refusalOf(fleet, payTheOrder())).stack).toMatch(/^LockTimeoutError: Lock 'k' was still busy[^]*at (async )?payTheOrder /);
    expect((await refusalOf(fleet, bookTheStock())).stack).toMatch(/^LockTimeoutError: Lock 'k' was still busy[^]*at (async )?bookTheStock /);
  });

  it.each([
    ['does not answer', 400, () => new Promise<void>(() => {})],
    ['fails', 300, () => Promise.reject(new Error('the network is cut'))],
  ])('ends in time though the store %s when it is asked who holds the lock', async (_how, afterMs, answer) => {
    const { fleet, locks, wire } = await besideHolder('k');
    looksOf(wire, answer());
    const since = fleet.clock.now();
    const { holders, message } = await refusalOf(fleet, locks.acquire('k', { waitMs: 300 }));
    expect([fleet.clock.now() - since, holders]).toEqual([afterMs, []]);
    expect(message).toBe(`Lock 'k' was still busy after 300 ms. It was not taken; try again later.`);
  });

  it('costs a crowd one question for each lock, and no more than 32 at a time', async () => {
    const fleet = new Fleet();
    for (let n = 0; n < 40; n += 1) await fleet.process().locks.acquire(`k${n}`);
    const { locks, wire } = fleet.process();
    const answer = gate();
    const looks = looksOf(wire, answer.promise);
    const crowd = Array.from({ length: 400 }, (_, n) => refusal(locks.acquire(`k${n % 40}`, { waitMs: 300 })));
    await fleet.clock.advance(350);
    expect(looks.count).toBe(32);
    answer.open();
    expect(await fleet.clock.runUntil(Promise.all(crowd))).toHaveLength(400);
  });
});

describe('A busy lock that nobody waits for', () => {
  it.each<[string, (locks: LockService) => Promise<unknown>]>([
    ['tryAcquire', (locks) => locks.tryAcquire('k')],
    ['waitMs: 0', (locks) => locks.acquire('k', { waitMs: 0 }).catch(() => null)],
    ['a caller who has something else to do', (locks) => {
      const otherwise = { waitMs: 300, expectsBusy: true };
      return locks.withLock('k', otherwise, () => 1).catch(() => null);
    }],
  ])('costs no question for its holder (%s)', async (_name, call) => {
    const { fleet, locks, wire } = await besideHolder('k');
    const looks = looksOf(wire);
    expect(await fleet.clock.runUntil(call(locks))).toBeNull();
    expect(looks.count).toBe(0);
  });
});

describe('Calls of one process that wait for each other', () => {
  const waitMs = 300;

  /** Runs the calls, each of which goes on to its inner lock when all have their outer one. */
  function meeting(fleet: Fleet, calls: readonly ((met: () => Promise<void>) => Promise<unknown>)[]): Promise<LockTimeoutError[]> {
    const everybody = gate();
    let there = 0;
    const met = (): Promise<void> => {
      there += 1;
      if (there === calls.length) everybody.open();
      return everybody.promise;
    };
    return fleet.clock.runUntil(Promise.all(calls.map((call) => refusal(call(met)))));
  }

  /** Takes `outer`, and inside of it `inner`. */
  function nested(locks: LockService, outer: string, inner: string) {
    return (met: () => Promise<void>): Promise<unknown> =>
      locks.withLock(outer, async () => {
        await met();
        await locks.withLock(inner, { waitMs }, () => 1);
      });
  }

  it('because they took two locks in opposite order are told what they held, and what helps', async () => {
    const { fleet, locks } = alone();
    const [one, other] = await meeting(fleet, [nested(locks, 'a', 'b'), nested(locks, 'b', 'a')]);
    expect(one).toMatchObject({ key: 'b', held: ['a'] });
    expect(other).toMatchObject({ key: 'a', held: ['b'] });
    expect(one?.message).toContain(`The call that waited holds 'a': if the holder waits for that, name all in one call, or take them in one order everywhere.`);
    await fleet.clock.advance(20);
    expect([fleet.clock.pendingTimers, fleet.store.size]).toEqual([0, 0]);
  });

  it('because one took both locks in one call, and the other in its own order, are told so', async () => {
    const { fleet, locks } = alone();
    const [both, other] = await meeting(fleet, [
      async (met) => {
        const call = locks.withLock(['a', 'b'], { waitMs }, () => 1);
        call.catch(() => undefined);
        await met();
        return call;
      },
      nested(locks, 'b', 'a'),
    ]);
    expect(both).toMatchObject({ key: 'b', held: ['a'] });
    expect(other).toMatchObject({ key: 'a', held: ['b'] });
  });

  it('inside one hold hold its locks too', async () => {
    const { fleet, locks } = alone();
    const [one, other] = await fleet.clock.runUntil(locks.withLock('a', () => meeting(fleet, [nested(locks, 'a', 'b'), nested(locks, 'b', 'a')])));
    expect(one).toMatchObject({ key: 'b', held: ['a'] });
    expect(other).toMatchObject({ key: 'a', held: ['a', 'b'] });
  });

  it('do not hold what a hold around them held that has ended', async () => {
    const { fleet, locks } = await besideHolder('c');
    const [begun, ended] = [gate(), gate()];
    let inner!: Promise<unknown>;
    await locks.withLock('a', async () => {
      inner = locks.withLock('b', async () => {
        begun.open();
        await ended.promise;
        return locks.acquire('c', { waitMs }).catch((error: unknown) => error);
      });
      await begun.promise;
    });
    ended.open();
    const error = await fleet.clock.runUntil(inner);
    expect(error).toMatchObject({ code: 'LOCK_TIMEOUT', held: ['b'] });
  });
});

describe('The hint to run an inner call inside the hold', () => {
  const hint = /Run the inner call inside the hold, with lease\.run/;
  const waitMs = 300;

  it.each([['this process that no code runs inside of', true], ['another process', false]])('is for who waits for a lease of %s: %p', async (_whose, isGiven) => {
    const { fleet, locks } = alone();
    await (isGiven ? locks : fleet.process().locks).acquire('k');
    expect(hint.test((await refusalOf(fleet, locks.withLock('k', { waitMs }, () => 1))).message)).toBe(isGiven);
  });

  it('is not given to who waits for a stranger of the same process', async () => {
    const { fleet, locks } = alone();
    const work = gate();
    const stranger = locks.withLock('k', () => work.promise);
    expect((await refusalOf(fleet, locks.withLock('k', { waitMs }, () => 1))).message).not.toMatch(hint);
    work.open();
    await fleet.clock.runUntil(stranger);
    const lease = await locks.acquire('k');
    const inside = lease.run(() => gate().promise);
    void inside;
    expect((await refusalOf(fleet, locks.withLock('k', { waitMs }, () => 1))).message).not.toMatch(hint);
  });

  it('is not given to who waits for a call beside it inside one hold', async () => {
    const { fleet, locks } = alone();
    const error = await fleet.clock.runUntil(
      locks.withLock('k', async () => {
        const work = gate();
        const sibling = locks.withLock('k', () => work.promise);
        const refused = await refusal(locks.withLock('k', { waitMs }, () => 1));
        work.open();
        await sibling;
        return refused;
      }),
    );
    expect(error.message).toMatch(/in use by another call inside the same hold, in this process\. Try/);
    expect(error).toMatchObject({ holders: [], held: ['k'] });
    expect(error.message).not.toMatch(hint);
  });
});
