/** How many calls the board says wait, in an application with several lock modules. */
import { describe, expect, it } from '@jest/globals';
import { merge } from 'rxjs';
import { CallsThatWait } from '../../lib/board/calls-that-wait.js';
import { Fleet } from '../support/locks.js';

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
