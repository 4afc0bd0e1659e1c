/** Requests that come to the store when nobody waits for their answers any more: whom they keep out, and for how long. */
import { describe, expect, it, jest } from '@jest/globals';
import { pause } from '../../../lib/core/port/clock.js';
import { LockStoreError } from '../../../lib/core/port/errors.js';
import type { AcquireRequest } from '../../../lib/core/port/lock-store.js';
import type { LockService } from '../../../lib/lock.service.js';
import { BackgroundRelease } from '../../../lib/core/lease/background-release.js';
import { answering } from '../../support/answering.js';
import { alone, Fleet, gate, type Wire } from '../../support/locks.js';

const LATE_MS = 1_000;

/** One process among others. The network loses sight of its next requests for a lock and delivers them a second later. */
class Straggler {
  readonly fleet = new Fleet();
  readonly locks: LockService;
  readonly wire: Wire;
  readonly others = this.fleet.process().locks;
  private heldUp = 0;
  private isSilent = false;

  constructor() {
    ({ locks: this.locks, wire: this.wire } = this.fleet.process());
    const acquire = this.wire.acquire.bind(this.wire);
    this.wire.acquire = async (request) => {
      if (this.heldUp === 0) return acquire(request);
      this.heldUp -= 1;
      void this.deliverLate(request);
      if (this.isSilent) return new Promise(() => {});
      throw new LockStoreError('the connection was lost');
    };
  }

  /** `isSilent`: the process does not hear that the network lost sight of them. */
  holdsUp(requests: number, isSilent = false): void {
    this.heldUp = requests;
    this.isSilent = isSilent;
  }

  /** How long others are kept out of a lock that this process has let go, from now on. */
  async keepsOthersOutFor(key: string): Promise<number> {
    let taken = 0;
    for (let passed = 0; passed < 40_000; passed += 10) {
      if ((await this.fleet.store.inspect(key)).mode !== null) taken += 10;
      await this.fleet.clock.advance(10);
    }
    return taken;
  }

  private async deliverLate(request: AcquireRequest): Promise<void> {
    await pause(this.fleet.clock, LATE_MS);
    await this.fleet.store.acquire(request).catch(() => undefined); // too late
  }
}

/** Later than a request may act that was sent before. */
const ANSWERED_AFTER_MS = 3_000;
/** Until the next release after the late request: they come at least so often. */
const LONGEST_MS = 300;

describe('A request that comes late, after its answer was given up,', () => {
  it('does not take the lock for nobody when its second try was granted and the hold has ended', async () => {
    const process = new Straggler();
    process.holdsUp(1);
    await process.fleet.clock.runUntil(process.locks.withLock('k', async () => {}));
    expect(await process.keepsOthersOutFor('k')).toBeLessThanOrEqual(LONGEST_MS);
  });

  it('does not take the lock for nobody when the hold was handed off', async () => {
    const process = new Straggler();
    const { clock } = process.fleet;
    process.holdsUp(1);
    const lease = await clock.runUntil(process.locks.acquire('k'));
    const adopted = await clock.runUntil(process.others.adopt(await lease.handOff()));
    await clock.runUntil(adopted.release());
    expect(await process.keepsOthersOutFor('k')).toBeLessThanOrEqual(LONGEST_MS);
  });

  it('does not take the lock for nobody when the lease was handed on and passed on through the store', async () => {
    const process = new Straggler();
    const { clock } = process.fleet;
    const first = gate();
    process.holdsUp(1);
    const calls = [process.locks.withLock('k', () => first.promise)];
    await clock.advance(200);
    // The next of this process want another lease, so that the store gives it to them in the step that ends the first.
    calls.push(process.locks.withLock('k', async () => {}), process.locks.withLock('k', { leaseMs: 5_000 }, async () => {}));
    await clock.settle();
    first.open();
    await clock.runUntil(Promise.all(calls));
    const between = await process.others.acquire('k');
    await clock.advance(2 * LATE_MS);
    expect((await process.others.inspect('k')).waiters).toEqual([]);
    await between.release();
    expect(await process.keepsOthersOutFor('k')).toBeLessThanOrEqual(LONGEST_MS);
  });

  it('does not take the lock for nobody when its caller gave up', async () => {
    const process = new Straggler();
    process.holdsUp(1);
    await expect(process.fleet.clock.runUntil(process.locks.acquire('k', { waitMs: 5 }))).rejects.toMatchObject({ code: 'LOCK_STORE' });
    expect(await process.keepsOthersOutFor('k')).toBeLessThanOrEqual(LONGEST_MS);
  });

  it('does not take the lock for nobody when it was the question of a waiter about the end of the lease before', async () => {
    const process = new Straggler();
    const { clock } = process.fleet;
    await process.others.acquire('k', { leaseMs: 1_000, renew: false });
    const waiter = process.locks.withLock('k', async () => {});
    await clock.settle();
    process.holdsUp(1);
    await clock.runUntil(waiter);
    expect(await process.keepsOthersOutFor('k')).toBeLessThanOrEqual(LONGEST_MS);
  });

  it('does not take the lock for nobody when it was the question of a waiter to whom a message brought the grant', async () => {
    const process = new Straggler();
    const { fleet, fleet: { clock } } = process;
    const before = await process.others.acquire('k');
    const waiter = process.locks.withLock('k', async () => {});
    await clock.settle();
    process.holdsUp(1, true);
    fleet.wake({ kind: 'ask', key: 'k', id: (await fleet.store.inspect('k')).waiters[0]!.id });
    await clock.settle();
    await before.release();
    await clock.runUntil(waiter);
    expect(await process.keepsOthersOutFor('k')).toBeLessThanOrEqual(LONGEST_MS);
  });

  it('does not take the lock for nobody when the release was answered only after it could not act any more', async () => {
    const process = new Straggler();
    const { fleet: { clock }, wire } = process;
    const release = wire.release.bind(wire);
    wire.release = async (request) => {
      const outcome = await release(request);
      await pause(clock, ANSWERED_AFTER_MS);
      return outcome;
    };
    process.holdsUp(1);
    const call = process.locks.withLock('k', async () => {});
    await clock.advance(LATE_MS + 1);
    expect((await process.fleet.store.inspect('k')).holders).toHaveLength(1);
    await clock.runUntil(call);
    expect(await process.keepsOthersOutFor('k')).toBeLessThanOrEqual(LONGEST_MS);
  });

  it('is remembered as released when its request was refused, because others may have been told of what it was granted', async () => {
    const remembered = jest.spyOn(BackgroundRelease.prototype, 'released');
    const { fleet, locks, wire } = alone();
    const asked = answering(wire, (n) => (n === 0 ? Promise.reject(new LockStoreError('the connection was lost')) : Promise.resolve({ kind: 'permits', permits: 3 })));
    await expect(fleet.clock.runUntil(locks.acquire('k', { waitMs: 5_000 }))).rejects.toMatchObject({ code: 'LOCK_USAGE' });
    expect(remembered.mock.calls.map(([{ id }]) => id)).toEqual([asked[0]!.id]);
  });

  it('costs no release when there was none', async () => {
    const { fleet, locks, wire } = alone();
    await locks.withLock('k', async () => {});
    await fleet.clock.advance(10_000);
    expect([wire.sent.release, fleet.clock.pendingTimers]).toEqual([1, 0]);
  });

  it('is waited for no longer than it may act', async () => {
    const process = new Straggler();
    process.holdsUp(1);
    await process.fleet.clock.runUntil(process.locks.withLock('k', async () => {}));
    await process.fleet.clock.advance(2_500);
    expect(process.fleet.clock.pendingTimers).toBe(0);
  });
});
