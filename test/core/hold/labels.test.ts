/** The option `label`: what a call says of itself, to those who look at the lock. */
import { describe, expect, it } from '@jest/globals';
import type { LockEvent } from '../../../lib/core/port/lock-events.js';
import type { AcquireRequest } from '../../../lib/core/port/lock-store.js';
import type { LockService } from '../../../lib/lock.service.js';
import { alone, Fleet, gate } from '../../support/locks.js';

/**
 * Three calls for the lock `k`, of which the last holds it when this resolves: the store granted the lease to the second, which
 * handed it on inside the process.
 */
async function handedOn(fleet: Fleet, locks: LockService, labels: readonly (string | undefined)[]) {
  const gates = labels.map(() => gate());
  const calls = labels.map((label, n) => locks.withLock('k', { label }, () => gates[n]!.promise));
  for (const { open } of gates.slice(0, -1)) {
    await fleet.clock.settle();
    open();
  }
  await fleet.clock.settle();
  return { end: () => gates.at(-1)!.open(), ended: Promise.all(calls) };
}

describe('The label of a call', () => {
  it('is told in its events, and to every process that looks at the lock', async () => {
    const { fleet, locks } = alone();
    const events: LockEvent[] = [];
    locks.events.subscribe((event) => events.push(event));
    const lease = await locks.acquire('k', { label: 'nightly import' });
    const beside = fleet.process().locks;
    const waiter = beside.withLock('k', { label: 'price update' }, () => undefined);
    await fleet.clock.settle();
    const seen = await fleet.process().locks.inspect('k');
    expect([...seen.holders, ...seen.waiters].map(({ label }) => label)).toEqual(['nightly import', 'price update']);
    await fleet.clock.runUntil(Promise.all([lease.release(), waiter]));
    expect(events.map(({ type, label }) => `${type} ${label}`)).toEqual(['granted nightly import', 'released nightly import']);
  });

  it('is that of the call that holds now, also when the lease was handed on to it inside the process', async () => {
    const { fleet, locks, wire } = alone();
    const { end, ended } = await handedOn(fleet, locks, ['first', 'second', 'third']);
    expect((await fleet.store.inspect('k')).holders).toMatchObject([{ label: 'second' }]);
    const listed: unknown[] = [];
    for await (const { holders } of locks.list()) listed.push(...holders.map(({ label }) => label));
    expect([(await locks.inspect('k')).holders[0]?.label, ...listed]).toEqual(['third', 'third']);
    expect(wire.sent.acquire).toBe(2);
    end();
    await fleet.clock.runUntil(ended);
  });

  it('is not invented: a call without one sends none to the store, and is told without one after a hand-over', async () => {
    const { fleet, locks, wire } = alone();
    const sent: AcquireRequest[] = [];
    const { acquire } = wire;
    wire.acquire = (request) => (sent.push(request), acquire.call(wire, request));
    await locks.withLock('free', () => undefined);
    expect(sent.map(({ label }) => label)).toEqual([undefined]);
    const { end, ended } = await handedOn(fleet, locks, ['first', 'second', undefined]);
    expect((await fleet.store.inspect('k')).holders).toMatchObject([{ label: 'second' }]);
    expect((await locks.inspect('k')).holders).toMatchObject([{ label: undefined }]);
    end();
    await fleet.clock.runUntil(ended);
  });

  it('has 1 to 48 bytes, as it is stored with the lock', async () => {
    const { locks } = new Fleet().process();
    await locks.withLock('k', { label: 'x'.repeat(48) }, () => undefined);
    for (const label of ['', 'é'.repeat(25), 7 as unknown as string]) {
      await expect(locks.acquire('k', { label })).rejects.toThrow(/^Lock 'k': expected label to be a string of 1 to 48 bytes, got /);
    }
  });

  it('of a candidate names who leads', async () => {
    const { fleet, locks } = alone();
    const over = gate();
    await using _standing = locks.lead('indexer', () => over.promise, { label: 'indexer of shop 7' });
    await fleet.clock.settle();
    expect(await locks.leader('indexer')).toMatchObject({ label: 'indexer of shop 7' });
    over.open();
  });
});
