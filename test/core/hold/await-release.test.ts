/** `awaitRelease: false`: the result comes when the release was sent, and what becomes of the release is told later. */
import { describe, expect, it, jest } from '@jest/globals';
import { MAX_UNANSWERED_RELEASES } from '../../../lib/core/hold/work.js';
import { LockLostError, LockUsageError } from '../../../lib/core/port/errors.js';
import type { Finding } from '../../../lib/core/port/lock-events.js';
import type { ResolvedDefaults } from '../../../lib/core/port/lock-options.js';
import { resolveDefaults, resolveOptions } from '../../../lib/core/port/options.js';
import { Fleet, eventsOf, gate, type Wire } from '../../support/locks.js';

const UNAWAITED = Object.freeze({ awaitRelease: false });

/** Lets a test say when releases have left the process. */
function sending(wire: Wire): { leave(): void } {
  const waiting: (() => void)[] = [];
  Object.assign(wire, { whenSent: (done: () => void) => void waiting.push(done) });
  return { leave: () => waiting.splice(0).forEach((done) => done()) };
}

function stage(defaults: Partial<ResolvedDefaults> = {}) {
  const fleet = new Fleet();
  const report = jest.fn<(finding: Finding) => void>();
  const { locks, wire } = fleet.process(defaults, undefined, report);
  const events = eventsOf(locks);
  return { fleet, locks, wire, report, events };
}

describe('A call that does not wait for its release', () => {
  it('has its result when the release has left the process, before the answer, and not earlier', async () => {
    const { fleet, locks, wire } = stage();
    const { leave } = sending(wire);
    const settled = jest.fn<(result: string) => void>();
    wire.slowMs = 100;
    void locks.withLock('k', UNAWAITED, () => 'done').then(settled);
    await fleet.clock.advance(100);
    expect(wire.sent.release).toBe(1);
    expect(settled).not.toHaveBeenCalled();
    leave();
    await fleet.clock.settle();
    expect(settled).toHaveBeenCalledWith('done');
    await fleet.clock.advance(100);
  });

  it('has its result with the answer, where the store cannot say that the release was sent', async () => {
    const { fleet, locks, wire } = stage();
    sending(wire);
    expect(await fleet.clock.runUntil(locks.withLock('k', UNAWAITED, () => 'done'))).toBe('done');
  });

  it('rejects when its lease was lost while the work went on, and when the answer told it before the release was known to be sent', async () => {
    const { fleet, locks, wire } = stage();
    sending(wire);
    const goes = gate();
    const late = expect(locks.withLock('k', { ...UNAWAITED, leaseMs: 200, renew: false }, () => goes.promise)).rejects.toThrow(LockLostError);
    await fleet.clock.advance(300);
    goes.open();
    await late;
    await expect(locks.withLock('l', UNAWAITED, () => fleet.store.forceRelease('l'))).rejects.toThrow(LockLostError);
  });

  it('is told of a lease that the store no longer knew as an event and a warning that names the call', async () => {
    const { fleet, locks, wire, report, events } = stage();
    const { leave } = sending(wire);
    const paid = locks.withLock('k', { ...UNAWAITED, label: 'OrderService.pay' }, async () => {
      await fleet.store.forceRelease('k');
      wire.slowMs = 50;
      return 'paid';
    });
    await fleet.clock.settle();
    leave();
    expect(await fleet.clock.runUntil(paid)).toBe('paid');
    expect(report).not.toHaveBeenCalled();
    await fleet.clock.advance(50);
    expect(events.map(({ type }) => type)).toEqual(['granted', 'lost', 'released']);
    expect(events.at(-1)).toMatchObject({ outcome: 'lost', label: 'OrderService.pay' });
    expect(report).toHaveBeenCalledWith(expect.objectContaining({ level: 'warning', message: expect.stringMatching(/^Lock 'k' .*awaitRelease: false.*OrderService\.pay/) }));
  });

  it('waits for its release after all while many others are on their way', async () => {
    const { fleet, locks, wire } = stage();
    wire.release = () => answered.promise;
    const answered = gate<'released' | 'lost'>();
    let settled = 0;
    const calls = Array.from({ length: MAX_UNANSWERED_RELEASES + 500 }, (_, n) => locks.withLock(`k:${n}`, UNAWAITED, () => n).then(() => (settled += 1)));
    await fleet.clock.settle();
    expect(settled).toBe(MAX_UNANSWERED_RELEASES);
    answered.open('released');
    await Promise.all(calls);
    wire.release = () => new Promise(() => {});
    settled = 0;
    for (let n = 0; n < MAX_UNANSWERED_RELEASES + 1; n += 1) void locks.withLock(`l:${n}`, UNAWAITED, () => n).then(() => (settled += 1));
    await fleet.clock.settle();
    expect(settled).toBe(MAX_UNANSWERED_RELEASES);
  });

  it.each([10_000, 0])('is part of a shutdown, which waits for the answer, with a grace of %d ms', async (shutdownGraceMs) => {
    const { fleet, locks, wire, events } = stage({ shutdownGraceMs });
    const goes = gate();
    const call = locks.withLock('k', UNAWAITED, () => goes.promise);
    await fleet.clock.settle();
    wire.slowMs = 500;
    goes.open();
    await call;
    const since = fleet.clock.now();
    await fleet.clock.runUntil(locks.close());
    expect(fleet.clock.now() - since).toBe(500);
    expect(events.at(-1)).toMatchObject({ type: 'released', outcome: 'released' });
  });

  it('is what every call of a module is by default that says so, and none that asks for replicas', async () => {
    const { fleet, locks, wire } = stage(UNAWAITED);
    wire.release = () => new Promise(() => {});
    await fleet.clock.runUntil(locks.withLock('k', () => 'done'));
    expect(resolveOptions({ minReplicas: 1 }, resolveDefaults(UNAWAITED)).awaitRelease).toBe(true);
  });

  it('is no leader: who has stopped one finds the lock free', async () => {
    const { fleet, locks, wire } = stage(UNAWAITED);
    const goes = gate();
    const leadership = locks.lead('indexer', () => goes.promise);
    await fleet.clock.settle();
    wire.slowMs = 400;
    const [since, stopped] = [fleet.clock.now(), leadership.stop()];
    goes.open();
    await fleet.clock.runUntil(stopped);
    expect(fleet.clock.now() - since).toBe(400);
  });

  it('cannot ask for replicas, and is no acquire: its caller has release(); also with frozen options that another call took', async () => {
    const { locks } = stage();
    await locks.withLock('k', UNAWAITED, () => {});
    for (const refused of [locks.withLock('k', { ...UNAWAITED, minReplicas: 1 }, () => {}), locks.acquire('k', UNAWAITED as object)]) {
      await expect(refused).rejects.toMatchObject({ code: 'LOCK_USAGE', message: expect.stringContaining('awaitRelease') });
    }
    expect(() => resolveDefaults({ ...UNAWAITED, minReplicas: 1 })).toThrow(/awaitRelease: false does not go with minReplicas/);
    expect(() => resolveOptions(UNAWAITED, resolveDefaults({ minReplicas: 1 }))).toThrow(LockUsageError);
  });
});
