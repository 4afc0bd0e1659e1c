/** How the holders of a lock are named to those who wait in vain, or look: from what the store knows, and from what this process knows better. */
import { describe, expect, it } from '@jest/globals';
import { delay } from '../../../lib/core/port/clock.js';
import type { LockTimeoutError } from '../../../lib/core/port/errors.js';
import type { LockService } from '../../../lib/lock.service.js';
import { alone, Fleet, gate } from '../../support/locks.js';

async function refusal(fleet: Fleet, locks: LockService, waitMs = 300): Promise<LockTimeoutError> {
  const call = locks.withLock('k', { waitMs }, () => 'ran').then(() => undefined, (error: unknown) => error);
  return (await fleet.clock.runUntil(call)) as LockTimeoutError;
}

describe('The holder of a lock', () => {
  it('is told to who waited for a millisecond only', async () => {
    const fleet = new Fleet();
    const lease = await fleet.process().locks.acquire('k', { label: 'nightly import' });
    expect((await refusal(fleet, fleet.process().locks, 1)).holders).toMatchObject([{ label: 'nightly import' }]);
    await lease.release();
  });

  it('is told though the store takes a while to say who it is', async () => {
    const fleet = new Fleet();
    const lease = await fleet.process().locks.acquire('k', { label: 'nightly import' });
    const { locks, wire } = fleet.process();
    const inspect = wire.inspect.bind(wire);
    wire.inspect = async (key) => (await delay(fleet.clock, 90), inspect(key));
    expect((await refusal(fleet, locks)).holders).toMatchObject([{ label: 'nightly import' }]);
    await lease.release();
  });

  it('holds since the lease was handed on to it inside the process', async () => {
    const { fleet, locks } = alone();
    const gates = [gate(), gate(), gate()];
    const calls = gates.map(({ promise }, n) => locks.withLock('k', { label: `call ${n}` }, () => promise));
    await fleet.clock.settle();
    for (const one of gates.slice(0, 2)) {
      await fleet.clock.advance(400);
      one.open();
      await fleet.clock.settle();
    }
    const since = new Date(fleet.clock.wallNow());
    expect((await refusal(fleet, locks)).holders).toMatchObject([{ label: 'call 2', since, isHere: true }]);
    gates[2]!.open();
    await fleet.clock.runUntil(Promise.all(calls));
  });

  it('is the outermost hold of its process, and not a call inside it', async () => {
    const { fleet, locks } = alone();
    const { promise, open } = gate();
    const work = locks.withLock('k', () => locks.withLock('k', { label: 'inside' }, () => promise));
    await fleet.clock.settle();
    expect((await locks.inspect('k')).holders).toMatchObject([{ label: undefined }]);
    open();
    await work;
  });
});
