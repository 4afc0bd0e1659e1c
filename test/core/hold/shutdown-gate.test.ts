/** What a shutdown waits for, for how long, and what it lets go of in the end. */
import { describe, expect, it, jest } from '@jest/globals';
import type { Finding } from '../../../lib/core/port/lock-events.js';
import { resolveDefaults } from '../../../lib/core/port/options.js';
import { Fleet } from '../../support/locks.js';

const { commandTimeoutMs } = resolveDefaults();

function setUp(shutdownGraceMs: number) {
  const fleet = new Fleet();
  const log: string[] = [];
  const { locks, wire } = fleet.process({ shutdownGraceMs }, undefined, ({ message }: Finding) => log.push(message));
  return { fleet, clock: fleet.clock, locks, wire, log, other: fleet.process().locks };
}

describe('The grace of a shutdown', () => {
  it('counts from its announcement, whenever the shutdown begins', async () => {
    const { clock, locks } = setUp(1_000);
    const lease = await locks.acquire('k');
    const since = clock.now();
    locks.announceShutdown();
    await clock.advance(600);
    await clock.runUntil(locks.close());
    expect(clock.now() - since).toBe(1_000);
    await lease.release();
  });

  it('is not exceeded for a request that is just giving its locks back', async () => {
    const { clock, locks, wire, other } = setUp(100);
    const busy = await other.acquire('b');
    const request = locks.acquire(['a', 'b']);
    request.catch(() => {});
    await clock.advance(10);
    wire.release = () => new Promise<never>(() => {});
    const since = clock.now();
    await clock.runUntil(locks.close());
    expect(clock.now() - since).toBe(100 + commandTimeoutMs);
    await busy.release();
  });

  it('keeps the process alive from its announcement until it is over', async () => {
    const { clock, locks } = setUp(1_000);
    const lease = await locks.acquire('k');
    const letGo = jest.fn();
    const keepAlive = jest.spyOn(clock, 'keepAlive').mockReturnValue(letGo);
    locks.announceShutdown();
    expect([keepAlive.mock.calls.length, letGo.mock.calls.length]).toEqual([1, 0]);
    await clock.advance(1_000);
    expect(letGo).toHaveBeenCalled();
    await lease.release();
    await clock.runUntil(locks.close());
  });
});

describe('A shutdown', () => {
  it('ends the tries of releases that were not answered', async () => {
    const { clock, locks, wire } = setUp(1_000);
    const lease = await locks.acquire('k', { leaseMs: 60_000 });
    const release = jest.spyOn(wire, 'release');
    wire.cut = true;
    expect(await lease.release()).toBe('unknown');
    await clock.runUntil(locks.close());
    await clock.advance(300);
    release.mockClear();
    await clock.advance(30_000);
    expect(release).not.toHaveBeenCalled();
  });
});
