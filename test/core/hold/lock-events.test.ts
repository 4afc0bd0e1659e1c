import { describe, expect, it } from '@jest/globals';
import type { LockEvent } from '../../../lib/core/port/lock-events.js';
import { Fleet, gate } from '../../support/locks.js';

function watched(fleet = new Fleet()): { fleet: Fleet; locks: ReturnType<Fleet['process']>['locks']; wire: ReturnType<Fleet['process']>['wire']; told: LockEvent[] } {
  const { locks, wire } = fleet.process();
  const told: LockEvent[] = [];
  locks.events.subscribe((event) => told.push(event));
  return { fleet, locks, wire, told };
}

describe('Events tell', () => {
  it('of a grant, how long it took, and of its release, how long it was held', async () => {
    const { fleet, locks, told } = watched();
    const other = await fleet.process().locks.acquire('k');
    const work = locks.withLock('k', async () => new Promise<void>((resolve) => void fleet.clock.setTimer(resolve, 300)));
    await fleet.clock.advance(200);
    await other.release();
    await fleet.clock.runUntil(work);
    expect(told.map(({ type }) => type)).toEqual(['waiting', 'granted', 'released']);
    expect(told[1]).toMatchObject({ key: 'k', mode: 'write', waitedMs: 200, nested: false });
    expect(told[2]).toMatchObject({ heldMs: 300, outcome: 'released' });
  });

  it('which holds are inside others', async () => {
    const { locks, told } = watched();
    await locks.withLock('k', () => locks.withLock('k', async () => {}));
    expect(told.map((event) => [event.type, 'nested' in event && event.nested])).toEqual([
      ['granted', false],
      ['granted', true],
      ['released', true],
      ['released', false],
    ]);
  });

  it('of a loss that only the release found out', async () => {
    const { locks, wire, told } = watched();
    const lease = await locks.acquire('k');
    wire.release = async () => 'lost';
    expect(await lease.release()).toBe('lost');
    expect(told.map(({ type }) => type)).toEqual(['granted', 'lost', 'released']);
    expect(lease.signal.aborted).toBe(true);
  });

  it('why a request got nothing: busy, given up, failed', async () => {
    const { fleet, locks, wire, told } = watched();
    const other = await fleet.process().locks.acquire('k');
    await fleet.clock.runUntil(expect(locks.acquire('k', { waitMs: 100 })).rejects.toThrow());
    const abort = new AbortController();
    const given = expect(locks.acquire('k', { signal: abort.signal })).rejects.toThrow();
    abort.abort();
    await given;
    wire.cut = true;
    await fleet.clock.runUntil(expect(locks.acquire('free', { waitMs: 100 })).rejects.toThrow());
    expect(told.filter(({ type }) => type !== 'waiting')).toMatchObject([
      { type: 'busy', waitedMs: 100 },
      { type: 'cancelled' },
      { type: 'failed', cause: { code: 'LOCK_STORE' } },
    ]);
    wire.cut = false;
    await other.release();
  });

  it('of renewals without an answer, and of the loss they end in', async () => {
    const { fleet, locks, wire, told } = watched();
    const work = gate();
    const hold = expect(locks.withLock('k', { leaseMs: 1_000 }, () => work.promise)).rejects.toMatchObject({ code: 'LOCK_LOST' });
    await fleet.clock.settle();
    wire.cut = true;
    await fleet.clock.advance(2_000);
    work.open();
    await fleet.clock.runUntil(hold);
    const types = told.map(({ type }) => type);
    expect(types[0]).toBe('granted');
    expect(types).toContain('renewFailed');
    expect(types.slice(-2)).toEqual(['lost', 'released']);
    expect(told.at(-1)).toMatchObject({ outcome: 'lost' });
  });
});
