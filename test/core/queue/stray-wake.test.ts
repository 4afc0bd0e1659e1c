import { describe, expect, it } from '@jest/globals';
import type { AcquireOutcome, AcquireRequest } from '../../../lib/core/port/lock-store.js';
import { alone, gate, twoReadLeases } from '../../support/locks.js';

describe('A grant that the store takes for a stray', () => {
  it('is given back when nobody here wants it', async () => {
    const { fleet, wire } = alone();
    fleet.wake({ kind: 'stray', key: 'k', id: 'p1.gone' });
    await fleet.clock.settle();
    expect(wire.sent.release).toBe(1);
  });

  it('owes no minHoldMs, because nobody worked under it', async () => {
    const { fleet, locks, wire } = alone();
    const given = { key: 'k', mode: 'write', queue: true, fences: 1, minReplicas: 0, leaseMs: 5_000, minHoldMs: 60_000 } as const;
    expect(await wire.acquire({ ...given, id: 'p1.gone', notAfter: fleet.clock.now() + 1_000 })).toMatchObject({ kind: 'granted' });
    fleet.wake({ kind: 'stray', key: 'k', id: 'p1.gone' });
    await fleet.clock.settle();
    const lease = await locks.tryAcquire('k');
    expect(lease).not.toBeNull();
    await lease?.release();
  });

  it('is left alone while its own request is still on the way, has no answer, or is tried again', async () => {
    const { fleet, locks, wire } = alone();
    const acquire = wire.acquire.bind(wire);
    const answer = gate<AcquireOutcome>();
    let asked: AcquireRequest | undefined;
    wire.acquire = (request) => {
      asked = request;
      return answer.promise;
    };
    const waiting = locks.acquire('k');
    await fleet.clock.settle();
    fleet.wake({ kind: 'stray', key: 'k', id: asked!.id });
    await fleet.clock.settle();
    answer.open(await acquire(asked!));
    const lease = await fleet.clock.runUntil(waiting);
    expect(wire.sent.release).toBe(0);
    fleet.wake({ kind: 'stray', key: 'k', id: asked!.id });
    await fleet.clock.settle();
    expect(wire.sent.release).toBe(0);
    expect(await lease.verify()).toBe(true);
    await lease.release();
  });

  it('is left alone while this process has the lock by a ticket', async () => {
    const { fleet, locks, wire } = alone();
    const lease = await locks.adopt(await (await locks.acquire('k')).handOff());
    fleet.wake({ kind: 'stray', key: 'k', id: (await fleet.store.inspect('k')).holders[0]!.id });
    await fleet.clock.settle();
    expect(wire.sent.release).toBe(0);
    expect(await lease.verify()).toBe(true);
    await lease.release();
  });

  it('is left alone while readers hold it, also beside a newer read lease of their process', async () => {
    const { fleet, wire, earlier, newer } = await twoReadLeases('k');
    for (const { id } of (await fleet.store.inspect('k')).holders) fleet.wake({ kind: 'stray', key: 'k', id });
    await fleet.clock.settle();
    expect(wire.sent.release).toBe(0);
    for (const reader of [earlier, newer]) expect(await reader.verify()).toBe(true);
  });
});
