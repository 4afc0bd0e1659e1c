/** What the board keeps, and that it stays small and right whatever happens. */
import { spawnSync } from 'node:child_process';
import { describe, expect, it } from '@jest/globals';
import { merge } from 'rxjs';
import { CallsThatWait } from '../../lib/board/calls-that-wait.js';
import { LockHistory } from '../../lib/board/lock-history.js';
import { overviewOf } from '../../lib/board/lock-overview.js';
import { PAGE_FILES } from '../../lib/board/page.generated.js';
import { SeenWaiters } from '../../lib/board/watched-locks.js';
import { LockLostError } from '../../lib/core/port/errors.js';
import type { LockEvent, StoreEvent } from '../../lib/core/port/lock-events.js';
import { type LockState } from '../../lib/core/port/lock-state.js';
import { FakeClock } from '../support/fake-clock.js';
import { Fleet } from '../support/locks.js';

const of = { call: 1, key: 'order:1', mode: 'write', label: 'OrderService.pay', template: 'order:<0>' } as const;
const waiting: Exclude<LockEvent, StoreEvent> = { ...of, type: 'waiting' };
const granted = (waitedMs: number, given: Partial<typeof of> = {}): Exclude<LockEvent, StoreEvent> => ({ ...of, ...given, type: 'granted', fence: 1, nested: false, waitedMs });
const lost: LockEvent = { ...of, type: 'lost', fence: 1, nested: false, heldMs: 5, cause: new LockLostError('it is gone', { key: of.key }) };

describe('the history of the board', () => {
  it('forgets what is older than ten minutes, slice by slice', async () => {
    const clock = new FakeClock();
    const history = new LockHistory(clock);
    history.record(waiting);
    expect(history.view().counts.waiting.at(-1)).toBe(1);
    await clock.advance(590_000);
    expect(history.view().counts.waiting).toEqual([1, ...new Array<number>(59).fill(0)]);
    await clock.advance(10_000);
    expect(history.view().counts.waiting).toEqual(new Array<number>(60).fill(0));
  });

  it('keeps the last twenty losses, the newest first, and no more slices than sixty', async () => {
    const clock = new FakeClock();
    const history = new LockHistory(clock);
    for (let n = 0; n < 30; n += 1) history.record({ ...lost, key: `order:${n}` });
    await clock.advance(86_400_000);
    const { incidents, counts } = history.view();
    expect(incidents.map(({ key }) => key)).toEqual(Array.from({ length: 20 }, (_, n) => `order:${29 - n}`));
    for (const slices of Object.values(counts)) expect(slices).toHaveLength(60);
  });

  it('does not count calls inside a hold', () => {
    const history = new LockHistory(new FakeClock());
    history.record({ ...lost, nested: true } as LockEvent);
    expect(history.view().counts.lost.at(-1)).toBe(0);
  });
});

describe('the calls that wait', () => {
  it.each(['granted', 'adopted'] as const)('are not taken off by a request that never waited, and are when they are %s', (type) => {
    const calls = new CallsThatWait(new FakeClock());
    calls.record(waiting);
    calls.record({ ...granted(0.2), call: 2 });
    expect(calls.of('order:1')).toEqual([{ mode: 'write', label: 'OrderService.pay', count: 1, longestMs: 0 }]);
    calls.record({ ...granted(100), type } as LockEvent);
    expect(calls.of('order:1')).toEqual([]);
  });

  it('for several locks are told at the one that they wait for, and taken off when the request ends, which names the first of them', async () => {
    const clock = new FakeClock();
    const calls = new CallsThatWait(clock);
    calls.record({ ...waiting, key: 'wallet:a' } as LockEvent);
    await clock.advance(2_000);
    calls.record({ ...waiting, key: 'wallet:b' } as LockEvent);
    expect([calls.of('wallet:a').length, calls.of('wallet:b')]).toMatchObject([0, [{ longestMs: 2_000 }]]);
    calls.record({ ...granted(50), key: 'wallet:a' } as LockEvent);
    expect(calls.of('wallet:b')).toEqual([]);
  });

  it('are counted with the longest wait of them, without those that stand for election', async () => {
    const clock = new FakeClock();
    const calls = new CallsThatWait(clock);
    calls.record({ ...waiting, call: 1, key: 'leader:indexer' } as unknown as LockEvent);
    await clock.advance(60_000);
    calls.record({ ...waiting, call: 2 } as unknown as LockEvent);
    await clock.advance(3_000);
    calls.record({ ...waiting, call: 3 } as unknown as LockEvent);
    expect(calls.all()).toEqual({ count: 2, longestMs: 3_000 });
    expect(calls.of('order:1')).toMatchObject([{ count: 2, longestMs: 3_000 }]);
  });
});

describe('the waiters that the board has seen', () => {
  it('are told with the time since the look that showed them first, and forgotten by the first that does not', async () => {
    const clock = new FakeClock();
    const waiters = new SeenWaiters(clock);
    waiters.look(['p.1']);
    await clock.advance(1_000);
    waiters.look(['p.1', 'p.2']);
    await clock.advance(500);
    expect(['p.1', 'p.2', 'p.3'].map((id) => waiters.forMs(id))).toEqual([1_500, 500, 0]);
    waiters.look(['p.2']);
    expect(['p.1', 'p.2'].map((id) => waiters.forMs(id))).toEqual([0, 500]);
  });
});

describe('the overview of many locks', () => {
  async function* locks(count: number): AsyncGenerator<LockState> {
    for (let n = 0; n < count; n += 1) {
      const waiters = Array.from({ length: n % 1_000 === 7 ? 40 : 0 }, (_, place) => ({ id: `p.${place}`, mode: 'write' as const }));
      yield { key: `order:${n}`, mode: 'write', holders: [{ id: `web-1:12:abc.${n}`, fence: 1_700_000_000_000_000, remainingMs: 5 }], waiters };
    }
  }

  it('keeps the most waited for, with their first waiters, and counts the rest', async () => {
    const overview = await overviewOf(locks(5_000), 5);
    expect(overview).toMatchObject({ held: 5_000, waitedFor: 5, waiting: 200, processes: 1, led: 0, inGrace: 0, more: 4_995 });
    expect(overview.rows.map(({ key }) => key).sort()).toEqual([7, 1_007, 2_007, 3_007, 4_007].map((n) => `order:${n}`).sort());
    expect(overview.rows[0]).toMatchObject({ moreWaiters: 28, holders: [{ host: 'web-1', pid: 12, since: 1_700_000_000_000 }] });
    expect(overview.rows[0]!.waiters).toHaveLength(12);
  });

  it('keeps roles behind what is waited for and before the rest, and counts what is led, what is in its grace, and whose processes wait', async () => {
    const holder = { id: 'a.1', fence: 1, remainingMs: 5 };
    const candidates = ['b.1', 'c.1'].map((id) => ({ id, mode: 'write' as const }));
    async function* some(): AsyncGenerator<LockState> {
      yield { key: 'a', mode: 'write', holders: [holder], waiters: [] };
      yield { key: 'graced', mode: 'write', holders: [{ ...holder, remainingMs: 0, graceMs: 900 }], waiters: [] };
      yield { key: 'leader:indexer', mode: 'write', holders: [holder], waiters: candidates };
      yield { key: 'order:1', mode: 'write', holders: [holder], waiters: ['d.1', 'd.2', 'e.1'].map((id) => ({ id, mode: 'write' as const })) };
    }
    const { rows, ...sums } = await overviewOf(some(), 3);
    expect(rows.map(({ key }) => key)).toEqual(['order:1', 'leader:indexer', 'a']);
    expect(sums).toEqual({ held: 4, waitedFor: 1, waiting: 3, processes: 2, led: 1, inGrace: 1, more: 1 });
  });
});

/** How many calls the board says wait, in an application with several lock modules. */
describe('The calls that wait', () => {
  it('are told apart though they are of several lock modules, whose events come merged', async () => {
    const fleet = new Fleet();
    const [orders, billing] = [fleet.process().locks, fleet.process().locks];
    const calls = new CallsThatWait(fleet.clock);
    merge(orders.events, billing.events).subscribe((event) => calls.record(event));
    const holder = await fleet.process().locks.acquire('order:1');
    const waiting = orders.acquire('order:1');
    await fleet.clock.advance(100);
    expect(calls.all()).toMatchObject({ count: 1 });
    await (await billing.acquire('invoice:1')).release();
    expect(calls.all()).toMatchObject({ count: 1 });
    await holder.release();
    await (await fleet.clock.runUntil(waiting)).release();
    expect(calls.all()).toMatchObject({ count: 0 });
  });
});

/** The page of the board is what its sources are. */
describe('page.generated.ts', () => {
  it('is what scripts/build-board.mjs makes of the files in page/', () => {
    const { status, stderr } = spawnSync(process.execPath, ['scripts/build-board.mjs', '--check'], { encoding: 'utf8' });
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
  });

  it('names no address but its own files, and makes no markup of text', () => {
    for (const [name, text] of Object.entries(PAGE_FILES)) {
      const addresses = [...text.matchAll(/https?:\/\/[^\s'"]+/g)].map(([address]) => address).filter((address) => address !== 'http://www.w3.org/2000/svg');
      expect({ name, addresses }).toEqual({ name, addresses: [] });
      expect({ name, found: /innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(/.test(text) }).toEqual({ name, found: false });
    }
  });
});
