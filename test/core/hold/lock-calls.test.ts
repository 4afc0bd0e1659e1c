/** Which options a call goes by, and what becomes of one whose signal has aborted. */
import { describe, expect, it } from '@jest/globals';
import { Fleet } from '../../support/locks.js';

describe('A call for several locks whose signal has aborted', () => {
  it('asks for none of them', async () => {
    const { locks, wire } = new Fleet().process();
    await expect(locks.acquire(['a', 'b'], { signal: AbortSignal.abort(new Error('too late')) })).rejects.toThrow('too late');
    expect(wire.commands).toBe(0);
  });

  it('after it had all of them, and lost them before its work began, does not ask again', async () => {
    const fleet = new Fleet();
    const { locks } = fleet.process({ leaseMs: 3_000 });
    const aside = await locks.acquire('aside');
    const controller = new AbortController();
    let looks = 0;
    // A call that has all of its locks listens to its signal no more: that is the last thing it does before its hold is made.
    controller.signal.removeEventListener = () => {
      if ((looks += 1) > 1) return;
      fleet.clock.sleepMachine(10_000);
      expect(aside.remainingMs).toBe(0);
      controller.abort(new Error('the client has gone'));
    };
    await expect(fleet.clock.runUntil(locks.withLock(['a', 'b'], { signal: controller.signal }, () => 'ran'))).rejects.toThrow('the client has gone');
    await fleet.clock.settle();
    expect([await locks.isLocked('a'), await locks.isLocked('b')]).toEqual([false, false]);
  });
});

describe('A call for permits', () => {
  it('of several locks is refused before it asks for any', async () => {
    const { locks, wire } = new Fleet().process();
    await expect(locks.acquire(['a', 'b'], { permits: 2 })).rejects.toMatchObject({ code: 'LOCK_USAGE', key: 'a' });
    expect(wire.commands).toBe(0);
  });
});

describe('An adopted hold', () => {
  it('has the permits of the hold that was handed off, which calls inside it have to name', async () => {
    const fleet = new Fleet();
    const [giver, worker] = [fleet.process(), fleet.process()];
    const ticket = await (await giver.locks.acquire('k', { permits: 2 })).handOff();
    await worker.locks.withAdopted(ticket, async () => {
      expect(await worker.locks.withLock('k', { permits: 2 }, () => 'inside')).toBe('inside');
      await expect(worker.locks.withLock('k', () => 'inside')).rejects.toMatchObject({ code: 'LOCK_USAGE' });
    });
  });

  it('of several locks is refused for its options by the name of the first', async () => {
    const fleet = new Fleet();
    const ticket = await (await fleet.process().locks.acquire(['b', 'a'])).handOff();
    await expect(fleet.process().locks.adopt(ticket, { leaseMs: 1 })).rejects.toThrow(/^Lock 'a': /);
  });
});

describe('A shutdown', () => {
  it('waits for a hold that goes on, also when another one was lost and has ended', async () => {
    const fleet = new Fleet();
    const { locks } = fleet.process({ shutdownGraceMs: 5_000 });
    const [lost, goesOn] = [await locks.acquire('lost'), await locks.acquire('goes on')];
    await fleet.process().locks.forceRelease('lost');
    await fleet.clock.settle();
    expect(await lost.release()).toBe('lost');
    let isClosed = false;
    const closing = locks.close().then(() => (isClosed = true));
    await fleet.clock.advance(3_000);
    expect(isClosed).toBe(false);
    expect(await goesOn.release()).toBe('released');
    await closing;
  });
});
