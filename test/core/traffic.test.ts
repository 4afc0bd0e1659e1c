import { describe, expect, it } from '@jest/globals';
import { LockStoreError } from '../../lib/core/errors.js';
import { Traffic } from '../../lib/core/traffic.js';
import { Fleet, gate } from '../support/locks.js';

const MOST = 2_000;
const CROWD = 5_000;

describe('A crowd that asks the store in one moment', () => {
  it('is sent in order, so many at a time, the next with each answer', () => {
    const traffic = new Traffic();
    const sent: number[] = [];
    for (let n = 0; n < CROWD; n++) traffic.enter({ send: () => sent.push(n) > 0 });
    expect(sent).toHaveLength(MOST);
    for (let answers = 0; answers < CROWD; answers++) {
      traffic.left();
      expect(sent).toHaveLength(Math.min(CROWD, MOST + answers + 1));
    }
    expect(sent).toEqual(Array.from({ length: CROWD }, (_, n) => n));
  });

  it('is not held up by those who gave up meanwhile', () => {
    const traffic = new Traffic();
    const sent: string[] = [];
    for (let n = 0; n < MOST; n++) traffic.enter({ send: () => true });
    for (let n = 0; n < 100_000; n++) traffic.enter({ send: () => false });
    traffic.enter({ send: () => sent.push('the last') > 0 });
    traffic.left();
    expect(sent).toEqual(['the last']);
  });

  it('is granted all it wants, and who gave up before its turn costs no command', async () => {
    const fleet = new Fleet();
    const { locks, wire } = fleet.process();
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
    const fleet = new Fleet();
    const { locks, wire } = fleet.process();
    wire.slowMs = 10_000;
    const refusals = Array.from({ length: MOST + 1 }, (_, n) => locks.acquire(`k:${n}`, { waitMs: 1_000 }).catch((error: unknown) => error));
    const last = (await fleet.clock.runUntil(Promise.all(refusals))).at(-1);
    expect(last).toBeInstanceOf(LockStoreError);
    expect(wire.sent.acquire).toBe(MOST);
  });

  it('does not keep back what became of a turn whose follower gave up in line', async () => {
    const fleet = new Fleet();
    const { locks, wire } = fleet.process({ handOn: 1 });
    const impatient = new AbortController();
    const works = gate();
    let follower: Promise<void> | undefined;
    const first = locks.withLock('k', async () => {
      wire.slowMs = 100_000;
      follower = locks.detached(() => locks.withLock('k', { signal: impatient.signal }, async () => {}));
      for (let n = 0; n < MOST; n++) locks.acquire(`k:${n}`, { waitMs: 500 }).catch(() => {});
      await works.promise;
    });
    await fleet.clock.settle();
    works.open();
    await fleet.clock.settle();
    impatient.abort(new Error('no longer'));
    await expect(follower).rejects.toThrow('no longer');
    await first;
  });
});
