import { describe, expect, it } from '@jest/globals';
import { HOLD_ENDED, SiblingGate } from '../../../lib/core/hold/sibling-gate.js';
import { Schedule } from '../../../lib/core/lease/schedule.js';
import { resolveDefaults, resolveOptions } from '../../../lib/core/port/resolve-options.js';
import type { LockOptions } from '../../../lib/core/port/lock-options.js';
import type { StoreLease } from '../../../lib/core/lease/store-lease.js';
import { Call } from '../../../lib/core/queue/call.js';
import { FakeClock } from '../../support/fake-clock.js';

/** A gate, and what the calls that come to it are told: whether they are inside, or why not. */
function setUp() {
  const clock = new FakeClock({ now: 0 });
  const gate = new SiblingGate({} as StoreLease);
  const told: string[] = [];
  const come = (name: string, options: LockOptions = {}): void => {
    const resolved = resolveOptions({ waitMs: 5_000, ...options }, resolveDefaults());
    const host = { schedule: new Schedule(clock), waitBegan: () => void told.push(`${name} waits`) };
    const call = new Call(['k'], resolved, clock.now(), { around: undefined, insideHold: true }, host);
    call.settlesBy(
      () => told.push(`${name} is inside`),
      (reason) => told.push(reason === HOLD_ENDED ? `${name} comes too late` : `${name}: ${(reason as Error).name}`),
    );
    gate.join(call);
  };
  return { clock, gate, told, come };
}

const reading = { mode: 'read' } as const;

describe('The calls inside one hold', () => {
  it('come in one writer after another, readers together, in the order in which they came', () => {
    const { gate, told, come } = setUp();
    come('a');
    come('b', reading);
    come('c', reading);
    come('d');
    come('e', reading);
    expect(told.splice(0)).toEqual(['a is inside', 'b waits', 'c waits', 'd waits', 'e waits']);
    gate.leave('write');
    expect(told.splice(0)).toEqual(['b is inside', 'c is inside']);
    gate.leave('read');
    expect(told).toEqual([]);
    gate.leave('read');
    expect(told.splice(0)).toEqual(['d is inside']);
    gate.leave('write');
    expect(told).toEqual(['e is inside']);
  });

  it('are none, only readers, or others', () => {
    const { gate, come } = setUp();
    const seen = (): boolean[] => [gate.isEmpty, gate.onlyReaders];
    expect(seen()).toEqual([true, false]);
    come('a');
    expect(seen()).toEqual([false, false]);
    come('b', reading);
    gate.leave('write');
    expect(seen()).toEqual([false, true]);
    gate.leave('read');
    expect(seen()).toEqual([true, false]);
  });

  it('that do not wait are let in at once or refused, also behind others that wait', () => {
    const { gate, told, come } = setUp();
    come('a', { ...reading, waitMs: 0 });
    come('b', { ...reading, waitMs: 0 });
    come('c', { waitMs: 0 });
    come('d', { waitMs: 1 });
    come('e', { ...reading, waitMs: 0 });
    expect(told).toEqual(['a is inside', 'b is inside', 'c: LockTimeoutError', 'd waits', 'e: LockTimeoutError']);
    gate.leave('read');
    gate.leave('read');
    expect(told.at(-1)).toBe('d is inside');
  });

  it('give up after their waitMs or at their signal, and let in who waits behind them', async () => {
    const { clock, told, come } = setUp();
    const stop = new AbortController();
    come('a', reading);
    come('b', { waitMs: 100 });
    come('c', reading);
    come('d', { signal: stop.signal });
    await clock.advance(100);
    expect(told.splice(0)).toEqual(['a is inside', 'b waits', 'c waits', 'd waits', 'b: LockTimeoutError', 'c is inside']);
    stop.abort(new RangeError('enough'));
    expect(told).toEqual(['d: RangeError']);
  });

  it('are the last when the hold ends: who waits is told so, and who comes later', () => {
    const { gate, told, come } = setUp();
    come('a');
    come('b');
    gate.close();
    come('c');
    gate.leave('write');
    expect([told, gate.isEmpty]).toEqual([['a is inside', 'b waits', 'b comes too late', 'c comes too late'], true]);
  });
});
