/** What a user's unit test can stage with `nestjs-holdfast/testing`, without Redis and without waiting. */
import { afterEach, describe, expect, it, jest } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import {
  InjectLocks, type Lease, Locked, LockLostError, LockModule, LockService, LockStoreError, LockTimeoutError, LockUsageError, ReadLock,
} from 'nestjs-holdfast';
import { TestLocks } from 'nestjs-holdfast/testing';
import { everythingHasRun } from '../support/turns.js';

@Injectable()
class OrderService {
  inside = 0;
  most = 0;
  turns: string[] = [];
  work: () => Promise<unknown> = () => new Promise((resolve) => setImmediate(resolve));

  constructor(readonly locks: LockService) {}

  @Locked('order:<0>')
  async pay(id: string): Promise<string> {
    this.most = Math.max(this.most, (this.inside += 1));
    this.turns.push(id);
    await this.work();
    this.inside -= 1;
    return `paid ${id}`;
  }

  @ReadLock('order:<0>')
  async look(_id: string): Promise<string> {
    return 'looked';
  }

  @Locked('nightly', { onBusy: 'skip', minHoldMs: 30_000 })
  async draw(): Promise<string | undefined> {
    return 'drawn';
  }
}

@Injectable()
class InvoiceService {
  constructor(@InjectLocks('billing') readonly locks: LockService) {}

  @Locked('invoice:<0>', { instance: 'billing' })
  async send(_id: string): Promise<string> {
    return 'sent';
  }
}

/** A call that waited for so long in real time would end its test. */
const HALF_AN_HOUR_MS = 1_800_000;

const closing: (() => Promise<unknown>)[] = [];

afterEach(async () => {
  jest.useRealTimers();
  for (const close of closing.splice(0)) await close();
});

async function setUp(test = new TestLocks()): Promise<{ test: TestLocks; orders: OrderService }> {
  const module = await Test.createTestingModule({ imports: [test.asModule()], providers: [OrderService] }).compile();
  await module.init();
  closing.push(() => module.close());
  return { test, orders: module.get(OrderService) };
}

describe('TestLocks', () => {
  it('excludes for real: calls for one key run one after another, others at once', async () => {
    const { orders } = await setUp();
    await Promise.all(['1', '1', '1'].map((id) => orders.pay(id)));
    expect(orders.most).toBe(1);
    await Promise.all(['2', '3', '4'].map((id) => orders.pay(id)));
    expect(orders.most).toBe(3);
  });

  it('lets a call wait as long as it takes while the test itself holds the lock', async () => {
    const { test, orders } = await setUp();
    const lease = await test.locks.acquire('order:1');
    const paid = orders.pay('1');
    await everythingHasRun();
    expect(orders.turns).toEqual([]);
    expect((await test.locks.inspect('order:1')).waiters).toHaveLength(1);
    await lease.release();
    expect(await paid).toBe('paid 1');
  });

  it('a busy key refuses after waitMs, without taking that time', async () => {
    const { test, orders } = await setUp(new TestLocks({ waitMs: HALF_AN_HOUR_MS }));
    await test.busy('order:1');
    await expect(orders.pay('1')).rejects.toThrow(LockTimeoutError);
    expect(orders.turns).toEqual([]);
    await test.free('order:1');
    expect(await orders.pay('1')).toBe('paid 1');
  });

  it('a key is staged as one would write it, with any character in it', async () => {
    const { test, orders } = await setUp();
    await test.busy('order:urn:{7}:50%');
    await expect(orders.pay('urn:{7}:50%')).rejects.toThrow(LockTimeoutError);
    await test.free('order:urn:{7}:50%');
    expect(await orders.pay('urn:{7}:50%')).toBe('paid urn:{7}:50%');
  });

  it('a key that is busy for less than waitMs is had after that time', async () => {
    const { test } = await setUp();
    await test.busy('k', { forMs: 4_000 });
    await expect(test.locks.acquire('k', { waitMs: 3_000 })).rejects.toThrow(LockTimeoutError);
    const lease = await test.locks.acquire('k', { waitMs: 3_000 });
    expect(await lease.release()).toBe('released');
  });

  it('a key that is busy with readers lets readers in', async () => {
    const { test, orders } = await setUp();
    await test.busy('order:1', { mode: 'read' });
    expect(await orders.look('1')).toBe('looked');
    await expect(orders.pay('1')).rejects.toThrow(LockTimeoutError);
  });

  it('a key that is held cannot be made busy: that would be two holders', async () => {
    const { test } = await setUp();
    const lease = await test.locks.acquire('k');
    await expect(test.busy('k')).rejects.toThrow(LockUsageError);
    await lease.release();
  });

  it('a lost lease aborts the signal at once, and its release answers lost', async () => {
    const test = new TestLocks();
    const lease = await test.locks.acquire('order:1');
    expect(lease.signal.aborted).toBe(false);
    await test.lose('order:1');
    expect(lease.signal.aborted).toBe(true);
    expect(lease.signal.reason).toBeInstanceOf(LockLostError);
    expect(() => lease.assertHeld()).toThrow(LockLostError);
    expect(await lease.release()).toBe('lost');
  });

  it('a locked method whose lease is lost at work rejects with what it came to', async () => {
    const { test, orders } = await setUp();
    orders.work = () => test.lose('order:1');
    await expect(orders.pay('1')).rejects.toMatchObject({ code: 'LOCK_LOST', outcome: { status: 'fulfilled', value: 'paid 1' } });
  });

  it('a lost lease lets the next in, with a higher fence', async () => {
    const test = new TestLocks();
    const first = await test.locks.acquire('k');
    const waiting = test.locks.acquire('k');
    await test.lose('k');
    const second = await waiting;
    expect(second.fence).toBeGreaterThan(first.fence);
    expect(second.signal.aborted).toBe(false);
    expect(await first.release()).toBe('lost');
    expect(await second.release()).toBe('released');
  });

  it('nothing can be lost that nobody holds', async () => {
    const { test } = await setUp();
    await test.busy('order:2');
    await expect(test.lose('order:1')).rejects.toThrow(LockUsageError);
    await expect(test.lose('order:2')).rejects.toThrow(LockUsageError);
  });

  it('with the store down calls reject with LockStoreError, without real time; with the store back they go on', async () => {
    const { test, orders } = await setUp(new TestLocks({ waitMs: HALF_AN_HOUR_MS }));
    test.storeDown();
    await expect(orders.pay('1')).rejects.toThrow(LockStoreError);
    await expect(test.locks.tryAcquire('k')).rejects.toThrow(LockStoreError);
    await expect(test.locks.inspect('k')).rejects.toThrow(LockStoreError);
    test.storeBack();
    expect(await orders.pay('1')).toBe('paid 1');
  });

  it('a call that cannot ask the store does not wait in real time for a holder that it knows nothing of', async () => {
    const { test, orders } = await setUp();
    const lease = await test.locks.acquire('order:1');
    test.storeDown();
    await expect(orders.pay('1')).rejects.toThrow(LockStoreError);
    test.storeBack();
    expect(lease.signal.aborted).toBe(false);
    expect(await lease.release()).toBe('released');
  });

  it('a call that began while the store was down is served when it is back in time', async () => {
    const { test, orders } = await setUp();
    test.storeDown();
    const paid = orders.pay('1');
    test.storeBack();
    expect(await paid).toBe('paid 1');
  });

  it('a lease outlives an outage shorter than itself, and is lost in a longer one', async () => {
    const test = new TestLocks();
    const lease = await test.locks.acquire('k', { leaseMs: 30_000 });
    test.storeDown();
    await test.advance(15_000);
    test.storeBack();
    await test.advance(60_000);
    expect(lease.signal.aborted).toBe(false);
    test.storeDown();
    await test.advance(31_000);
    expect(lease.signal.reason).toBeInstanceOf(LockLostError);
    test.storeBack();
    await lease.release();
  });

  it('what lasts so many milliseconds is over when so many have been advanced, and not one before', async () => {
    const { test, orders } = await setUp();
    const isFree = async (key: string): Promise<boolean> => (await (await test.locks.tryAcquire(key))?.release()) === 'released';
    await orders.draw();
    await test.busy('busy', { forMs: 30_000 });
    const fixed = await test.locks.acquire('fixed', { leaseMs: 30_000, renew: false });
    const bounded = await test.locks.acquire('bounded', { maxHoldMs: 30_000 });
    expect([fixed.remainingMs, (await test.locks.inspect('busy')).holders[0]?.remainingMs]).toEqual([30_000, 30_000]);
    await test.advance(29_999);
    expect(await Promise.all(['nightly', 'busy', 'fixed', 'bounded'].map(isFree))).toEqual([false, false, false, false]);
    expect([fixed, bounded].map(({ signal }) => signal.aborted)).toEqual([false, false]);
    await test.advance(1);
    expect([fixed, bounded].map(({ signal }) => signal.aborted)).toEqual([true, true]);
    expect(await Promise.all(['nightly', 'busy', 'fixed', 'bounded'].map(isFree))).toEqual([true, true, true, true]);
    expect(await orders.draw()).toBe('drawn');
  });

  it('who waits for what lasts so many milliseconds has the lock when so many have been advanced', async () => {
    const test = new TestLocks();
    const holder = await test.locks.acquire('k', { leaseMs: 5_000, renew: false });
    const waiting = test.locks.acquire('k');
    await everythingHasRun();
    const before = holder.heldMs;
    await test.advance(5_000);
    const next = await waiting;
    expect([before, holder.heldMs, next.heldMs]).toEqual([0, 5_000, 0]);
    expect(await next.release()).toBe('released');
  });

  it.each([NaN, -1, 0.5, Infinity, '5' as never])('time that is %p milliseconds is refused, for it would never pass', async (ms) => {
    const test = new TestLocks();
    await expect(test.advance(ms)).rejects.toThrow(/expected the time to advance to be a whole number of milliseconds, got/);
    await expect(test.busy('k', { forMs: ms })).rejects.toThrow(/TestLocks\.busy\('k'\): expected forMs to be a whole number from 0 to 1099511627776, got/);
    await expect(test.busy('k', 5_000 as never)).rejects.toThrow(/expected options to be an object such as \{ forMs: 5000 \}, got 5000/);
    expect(await test.locks.isLocked('k')).toBe(false);
  });

  it("does not see the runner's fake timers, and fake time is not the locks' time", async () => {
    const { test, orders } = await setUp();
    jest.useFakeTimers();
    orders.work = async () => {};
    const lease = await test.locks.acquire('order:1', { leaseMs: 5_000, renew: false });
    const paid = orders.pay('1');
    await jest.advanceTimersByTimeAsync(60_000);
    expect(lease.signal.aborted).toBe(false);
    expect(orders.turns).toEqual([]);
    await lease.release();
    expect(await paid).toBe('paid 1');
    await test.busy('order:1');
    await expect(orders.pay('1')).rejects.toThrow(LockTimeoutError);
    const other = await test.locks.acquire('order:2');
    await test.lose('order:2');
    expect(other.signal.aborted).toBe(true);
    expect(await other.release()).toBe('lost');
  });

  it('the end of an application takes no real time, even with a forgotten lease', async () => {
    const { test, orders } = await setUp(new TestLocks({ shutdownGraceMs: HALF_AN_HOUR_MS }));
    const module = closing.pop()!;
    let signal: AbortSignal | undefined;
    orders.work = async () => {
      signal = orders.locks.currentLease()!.signal;
      await new Promise((_resolve, reject) => signal!.addEventListener('abort', () => reject(signal!.reason)));
    };
    const paid = expect(orders.pay('1')).rejects.toThrow(LockLostError);
    await everythingHasRun();
    const forgotten: Lease = await orders.locks.acquire('forgotten');
    await module();
    expect(signal!.aborted).toBe(true);
    expect(forgotten.signal.aborted).toBe(true);
    await paid;
    await test.locks.close();
  });
});

describe('TestLocks in place of a LockModule', () => {
  const unreachable = 'redis://127.0.0.1:1';

  it('replaces the store of an application module, which keeps its own options', async () => {
    const test = new TestLocks();
    const builder = Test.createTestingModule({ imports: [LockModule.forRoot({ redis: unreachable, waitMs: 0 })], providers: [OrderService] });
    const module = await test.replaceIn(builder).compile();
    await module.init();
    closing.push(() => module.close());
    const orders = module.get(OrderService);
    expect(await orders.pay('1')).toBe('paid 1');
    const lease = await test.locks.acquire('order:1');
    await expect(orders.pay('1')).rejects.toMatchObject({ code: 'LOCK_TIMEOUT', waitMs: 0 });
    await lease.release();
  });

  it('serves several named instances side by side, each with locks of its own', async () => {
    const [test, billing] = [new TestLocks(), new TestLocks({ name: 'billing' })];
    const module = await Test.createTestingModule({ imports: [test.asModule(), billing.asModule()], providers: [OrderService, InvoiceService] }).compile();
    await module.init();
    closing.push(() => module.close());
    await billing.busy('invoice:1');
    await test.busy('invoice:2');
    await expect(module.get(InvoiceService).send('1')).rejects.toThrow(LockTimeoutError);
    expect(await module.get(InvoiceService).send('2')).toBe('sent');
    expect(module.get(InvoiceService).locks).not.toBe(module.get(OrderService).locks);
  });

  it('serves several applications on one store, as several instances of a fleet', async () => {
    const test = new TestLocks();
    const { orders: here } = await setUp(test);
    const { orders: there } = await setUp(test);
    const turns = (here.turns = there.turns = []);
    let inside = 0;
    let most = 0;
    here.work = there.work = async () => {
      most = Math.max(most, (inside += 1));
      await everythingHasRun();
      inside -= 1;
    };
    await Promise.all([here.pay('1'), there.pay('1'), here.pay('1')]);
    expect(turns).toHaveLength(3);
    expect(most).toBe(1);
    expect(await Promise.all([here.draw(), there.draw()])).toEqual(expect.arrayContaining(['drawn', undefined]));
  });

  it('a store that is down at boot fails the boot', async () => {
    const test = new TestLocks();
    test.storeDown();
    await expect(Test.createTestingModule({ imports: [test.asModule()] }).compile()).rejects.toThrow(LockStoreError);
  });
});

/** Permits in a user's unit test with `nestjs-holdfast/testing`. */
describe('a lock with permits in a test', () => {
  it('that the test made busy is busy for calls with permits and without, until it is freed', async () => {
    const test = new TestLocks();
    await test.busy('smtp');
    await expect(test.locks.acquire('smtp', { permits: 3 })).rejects.toBeInstanceOf(LockTimeoutError);
    expect(await test.locks.tryAcquire('smtp', { permits: 3 })).toBeNull();
    expect((await test.locks.inspect('smtp')).holders).toHaveLength(3);
    await expect(test.locks.acquire('smtp')).rejects.toBeInstanceOf(LockTimeoutError);
    await test.free('smtp');
    await (await test.locks.acquire('smtp', { permits: 3 })).release();
  });

  it('is held as often as it has permits, and loses them all at once', async () => {
    const test = new TestLocks();
    const [one, other] = [await test.locks.acquire('smtp', { permits: 2 }), await test.locks.acquire('smtp', { permits: 2 })];
    expect(await test.locks.tryAcquire('smtp', { permits: 2 })).toBeNull();
    await expect(test.locks.acquire('smtp', { permits: 3 })).rejects.toBeInstanceOf(LockUsageError);
    await test.lose('smtp');
    for (const lease of [one, other]) {
      expect(lease.signal.aborted).toBe(true);
      expect(await lease.release()).toBe('lost');
    }
    await (await test.locks.acquire('smtp', { permits: 2 })).release();
  });

  it('takes no option that there is not', () => expect(() => new TestLocks({ permits: 3 } as never)).toThrow("TestLocks: unknown option 'permits'"));
});

/** Roles in a user's unit test with `nestjs-holdfast/testing`: another process leads, a term is lost, a rest passes. */
describe('a role', () => {
  const until = async (term: Lease): Promise<void> => new Promise((resolve) => term.signal.addEventListener('abort', () => resolve()));

  it('that somebody else leads, is led here when it is free, is lost, and is led again', async () => {
    const test = new TestLocks();
    await test.busy('leader:indexer');
    const leadership = test.locks.lead('indexer', until);
    await everythingHasRun();
    expect(leadership.isLeader).toBe(false);
    await test.free('leader:indexer');
    await everythingHasRun();
    expect(leadership.isLeader).toBe(true);
    const { term } = leadership;
    await test.lose('leader:indexer');
    expect(term!.signal.reason).toMatchObject({ code: 'LOCK_LOST' });
    await everythingHasRun();
    expect(leadership.isLeader).toBe(true);
    await leadership.stop();
  });

  it('that is stood for lets no time pass by itself', async () => {
    const test = new TestLocks();
    // A lease that is not renewed shows whether time has passed.
    const lease = await test.locks.acquire('order:1', { renew: false, leaseMs: 60_000 });
    const leftMs = lease.remainingMs;
    await test.busy('leader:indexer', { forMs: 60_000 });
    const leadership = test.locks.lead('indexer', until);
    await everythingHasRun();
    expect(lease.remainingMs).toBe(leftMs);
    expect(leadership.isLeader).toBe(false);
    await test.advance(60_000);
    expect(leadership.isLeader).toBe(true);
    await leadership.stop();
  });

  it('is led again when the rest after its function is over on the clock of the locks', async () => {
    const test = new TestLocks();
    let terms = 0;
    const leadership = test.locks.lead('indexer', async () => void (terms += 1), { restMs: 10_000 });
    await everythingHasRun();
    expect(terms).toBe(1);
    await test.advance(12_500);
    expect(terms).toBe(2);
    await leadership.stop();
  });

  it('whose function returns at once, with a rest of 0 ms, is led once in a millisecond and leaves the event loop its turns', async () => {
    const test = new TestLocks();
    let terms = 0;
    // Without turns of the event loop no test could end this: so the function ends it by itself.
    const once = async (term: Lease): Promise<void> => ((terms += 1) > 1_000 ? until(term) : undefined);
    const leadership = test.locks.lead('indexer', once, { restMs: 0 });
    await everythingHasRun();
    expect(terms).toBe(1);
    await test.advance(10);
    expect(terms).toBe(11);
    await leadership.stop();
  });
});

/** Tickets in a user's unit test with `nestjs-holdfast/testing`, while the test has taken the store down. */

/** The locks of a test, and the ticket of a hold that was handed off. */
async function withTicket(): Promise<{ test: TestLocks; ticket: string }> {
  const test = new TestLocks();
  const lease = await test.locks.acquire('order:1');
  return { test, ticket: await lease.handOff({ withinMs: 60_000 }) };
}

describe('with the store down', () => {
  it('an adoption is refused when its waitMs is over, without real time, and the ticket stays good', async () => {
    const { test, ticket } = await withTicket();
    test.storeDown();
    await expect(test.locks.adopt(ticket)).rejects.toThrow(LockStoreError);
    await expect(test.locks.withAdopted(ticket, { waitMs: 0 }, () => 'ran')).rejects.toThrow(LockStoreError);
    test.storeBack();
    expect(await test.locks.withAdopted(ticket, ({ key }) => key)).toBe('order:1');
    expect(await test.locks.isLocked('order:1')).toBe(false);
  });

  it('an adoption that began meanwhile goes on when the store is back in time', async () => {
    const { test, ticket } = await withTicket();
    test.storeDown();
    const adopting = test.locks.adopt(ticket);
    test.storeBack();
    expect(await (await adopting).release()).toBe('released');
  });

  it('a hand-off is refused without real time, and the lock is free when the store is back', async () => {
    const test = new TestLocks();
    const lease = await test.locks.acquire('order:1');
    test.storeDown();
    await expect(lease.handOff()).rejects.toThrow(LockStoreError);
    test.storeBack();
    await (await test.locks.acquire('order:1')).release();
  });

  it('no time passes for a ticket after its hand-off or adoption was answered', async () => {
    const { test, ticket } = await withTicket();
    const lease = await test.locks.adopt(ticket, { renew: false, leaseMs: 1_000 });
    await test.advance(0);
    expect(lease.remainingMs).toBe(1_000);
    expect(await lease.release()).toBe('released');
  });
});
