/** Calls whose signal aborts with an error of this library, as a group does whose first failure stops the others: a signal ended them, whatever its reason is. */
import { describe, expect, it } from '@jest/globals';
import { LockClosedError, LockLostError, LockTimeoutError } from '../../../lib/core/port/errors.js';
import type { LockEvent } from '../../../lib/core/port/lock-events.js';
import type { Lease } from '../../../lib/core/port/lease.js';
import type { LockOptions } from '../../../lib/core/port/lock-options.js';
import type { LockService } from '../../../lib/lock.service.js';
import { alone, Fleet } from '../../support/locks.js';

const reasons = [
  new LockTimeoutError("Lock 'other' was still busy after 10 ms.", { key: 'other', waitMs: 10 }),
  new LockClosedError("Lock 'other' was not taken.", { key: 'other' }),
  new LockLostError("Lock 'other' was lost.", { key: 'other' }),
];

const calls: readonly (readonly [string, (locks: LockService, options: LockOptions) => Promise<unknown>])[] = [
  ['withLock', (locks, options) => locks.withLock('k', options, () => 'done')],
  ['acquire', (locks, options) => locks.acquire('k', options)],
  ['acquire of several', (locks, options) => locks.acquire(['a', 'k'], options)],
  ['acquire inside a hold', (locks, options) => locks.withLock('around', () => locks.acquire('k', options))],
];

describe('A call whose signal aborts', () => {
  it.each(calls)('rejects with the very error that its signal gives, and is told of as cancelled: %s', async (_name, call) => {
    for (const reason of reasons) {
      const { fleet, locks } = alone();
      const held = await fleet.process().locks.acquire('k');
      const events: LockEvent[] = [];
      locks.events.subscribe((event) => events.push(event));
      const stop = new AbortController();
      const waiting = call(locks, { signal: stop.signal });
      const ended = expect(waiting).rejects.toBe(reason);
      await fleet.clock.advance(5);
      stop.abort(reason);
      await fleet.clock.advance(1_000);
      await ended;
      expect(events.filter(({ type }) => type === 'cancelled')).toHaveLength(1);
      expect(events.filter(({ type }) => type === 'busy' || type === 'failed')).toEqual([]);
      await held.release();
    }
  });

  it('before it asks is told so too, and never that the lock is busy', async () => {
    const { locks } = new Fleet().process();
    const signal = AbortSignal.abort(reasons[0]);
    await expect(locks.tryAcquire('k', { signal })).rejects.toBe(reasons[0]);
    await expect(locks.acquire('k', { signal })).rejects.toBe(reasons[0]);
  });

  it('during tryAcquire rejects with the reason, because null would say that the lock is busy', async () => {
    const { fleet, locks, wire } = alone();
    wire.slowMs = 100;
    const stop = new AbortController();
    const tried = expect(locks.tryAcquire('k', { signal: stop.signal })).rejects.toBe(reasons[0]);
    await fleet.clock.advance(10);
    stop.abort(reasons[0]);
    await fleet.clock.advance(1_000);
    await tried;
    expect(fleet.store.size).toBe(0);
  });

  it('leaves the error of the other call as it is: what that says of its wait is not that of this one', async () => {
    const { fleet, locks } = alone();
    const held = await fleet.process().locks.acquire(['k', 'l']);
    const group = new AbortController();
    const waits = [locks.acquire('k', { waitMs: 50 }), locks.withLock('around', () => locks.acquire('l', { signal: group.signal }))];
    for (const wait of waits) wait.catch((error: unknown) => group.abort(error));
    await fleet.clock.advance(2_000);
    const [first, second] = (await Promise.allSettled(waits)) as PromiseRejectedResult[];
    expect(second!.reason).toBe(first!.reason);
    expect(first!.reason).toMatchObject({ key: 'k', waitMs: 50, held: [] });
    await (held satisfies Lease).release();
  });
});
