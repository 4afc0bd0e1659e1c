import { describe, expect, it } from '@jest/globals';
import { LockUsageError } from '../../../lib/core/port/errors.js';
import { resolveDefaults, resolveOptions } from '../../../lib/core/port/resolve-options.js';

const defaults = resolveDefaults();

describe('Options', () => {
  it('have the documented defaults', () => {
    expect(defaults).toMatchObject({
      mode: 'write', leaseMs: 30_000, waitMs: 10_000, renew: true, maxHoldMs: Infinity, minHoldMs: 0, minReplicas: 0, onLost: 'throw',
      maxLeaseMs: 60_000, handOn: 16, commandTimeoutMs: 2_000, shutdownGraceMs: 10_000,
    });
  });

  it('of a call win over those of the module, and undefined means not given', () => {
    const module = resolveDefaults({ leaseMs: 5_000, waitMs: 100 });
    expect(resolveOptions({ leaseMs: 7_000, waitMs: undefined }, module)).toMatchObject({ leaseMs: 7_000, waitMs: 100 });
  });

  it('make the default lease shorter where a grace leaves no room for it', () => {
    expect(resolveDefaults({ graceMs: 50_000 })).toMatchObject({ leaseMs: 10_000, graceMs: 50_000 });
  });

  it('do not let the default lease outgrow a shorter maxLeaseMs', () => {
    expect(resolveDefaults({ maxLeaseMs: 10_000 }).leaseMs).toBe(10_000);
  });

  it.each<[object, RegExp]>([
    [{ leaseMs: 0 }, /leaseMs.*whole number.*got 0/],
    [{ leaseMs: 10 }, /leaseMs to be a whole number from 100 to 60000, got 10 \(100 ms is the shortest lease, because .* could not be renewed in time/],
    [{ leaseMs: 60_001 }, /leaseMs.*60000.*maxLeaseMs/],
    [{ leaseMs: '5s' }, /leaseMs.*got '5s'/],
    [{ leaseMs: 1_000.5 }, /whole number/],
    [{ waitMs: -1 }, /waitMs/],
    [{ waitMs: NaN }, /waitMs/],
    [{ renew: 'no' }, /renew.*true or false/],
    [{ mode: 'exclusive' }, /'read' or 'write'/],
    [{ minHoldMs: 61_000 }, /minHoldMs.*maxLeaseMs/],
    [{ graceMs: -1 }, /graceMs.*whole number from 0/],
    [{ graceMs: '5s' }, /graceMs.*got '5s'/],
    [{ graceMs: 30_001 }, /leaseMs \(30000\) and graceMs \(30001\) together are longer than maxLeaseMs \(60000\)/],
    [{ graceMs: 10_000, minHoldMs: 55_000 }, /minHoldMs \(55000\) and graceMs \(10000\) together/],
    [{ maxHoldMs: 99 }, /maxHoldMs .* from 100/],
    [{ maxHoldMs: 500, minHoldMs: 1_000 }, /shorter than minHoldMs/],
    [{ maxHoldMs: 0 }, /maxHoldMs/],
    [{ owner: '' }, /owner/],
    [{ owner: 'x'.repeat(129) }, /owner/],
    [{ owner: 'a\ud800' }, /owner to be a string of 1 to 128 characters without half a surrogate pair/],
    [{ signal: {} }, /AbortSignal/],
    [{ minReplicas: -1 }, /minReplicas/],
    [{ onLost: 'retry' }, /onLost/],
  ])('%j are refused with the reason and the key', (given, message) => {
    const act = (): unknown => resolveOptions(given, defaults, 'order:1');
    expect(act).toThrow(LockUsageError);
    expect(act).toThrow(message);
    expect(act).toThrow(/order:1/);
  });

  it.each<[object, RegExp]>([
    [{ handOn: 0 }, /handOn/],
    [{ commandTimeoutMs: 0 }, /commandTimeoutMs/],
    [{ shutdownGraceMs: -1 }, /shutdownGraceMs/],
    [{ maxLeaseMs: 5 }, /maxLeaseMs/],
    [{ maxLeaseMs: 10_000, leaseMs: 20_000 }, /leaseMs/],
  ])('%j of a module are refused', (given, message) => {
    expect(() => resolveDefaults(given)).toThrow(message);
  });
});
