import { describe, expect, it } from '@jest/globals';
import { LockUsageError } from '../../../lib/core/port/errors.js';
import { covers, type HandOffOptions, type LockMode } from '../../../lib/core/port/lock-options.js';
import {
  ACQUIRE_OPTIONS, checkOptions, checkPermitsOf, checkRenewal, FORCE_RELEASE_OPTIONS, optionsProblem, resolveDefaults, resolveOptions, withinMsOf,
} from '../../../lib/core/port/options.js';

const defaults = resolveDefaults();

describe('Options', () => {
  it('have the documented defaults', () => {
    expect(resolveDefaults()).toMatchObject({
      mode: 'write', leaseMs: 30_000, waitMs: 10_000, renew: true, maxHoldMs: Infinity, minHoldMs: 0, minReplicas: 0, onLost: 'throw',
      maxLeaseMs: 60_000, handOn: 16, commandTimeoutMs: 2_000, shutdownGraceMs: 10_000,
    });
    expect(resolveDefaults({ profiles: { long: { leaseMs: 5_000 } } }).profiles).toEqual({ long: { leaseMs: 5_000 } });
  });

  it('of a call win over those of the module, each of them, and else, also for undefined, those of the module are taken', () => {
    const { signal } = new AbortController();
    const set = { leaseMs: 5_000, waitMs: 100, renew: false, maxHoldMs: 9_000, minHoldMs: 10, graceMs: 20, minReplicas: 1, onLost: 'ignore', awaitRelease: true } as const;
    const module = resolveDefaults(set);
    const own = {
      mode: 'read', leaseMs: 7_000, waitMs: 0, renew: true, maxHoldMs: 8_000, minHoldMs: 0, graceMs: 0, owner: 'ann', permits: undefined,
      signal, minReplicas: 0, onLost: 'throw', awaitRelease: false, label: 'Orders.pay', template: 'order:<0>', expectsBusy: true,
    } as const;
    expect(resolveOptions(own, module)).toMatchObject(own);
    expect(resolveOptions({ permits: 3 }, module).permits).toBe(3);
    expect(resolveOptions(undefined, module)).toMatchObject(set);
    expect(resolveOptions({ waitMs: undefined }, module)).toMatchObject({ ...set, mode: 'write' });
  });

  it('make the default lease shorter where a grace or maxLeaseMs leaves no room for it', () => {
    expect(resolveDefaults({ graceMs: 50_000 })).toMatchObject({ leaseMs: 10_000, graceMs: 50_000 });
    expect(() => resolveDefaults({ maxLeaseMs: 120, graceMs: 50 })).toThrow('leaseMs (100) and graceMs (50) together are longer than maxLeaseMs (120)');
    expect(resolveDefaults({ maxLeaseMs: 10_000 }).leaseMs).toBe(10_000);
  });

  it.each<object>([
    { leaseMs: 100 }, { leaseMs: 60_000 }, { waitMs: 0 }, { waitMs: 2 ** 40 }, { waitMs: Infinity }, { minHoldMs: 60_000 },
    { maxHoldMs: 100 }, { maxHoldMs: 2 ** 40 }, { maxHoldMs: 1_000, minHoldMs: 1_000 }, { graceMs: 30_000 }, { graceMs: 10_000, minHoldMs: 50_000 },
    { leaseMs: 100, graceMs: 59_900 }, { owner: 'x' }, { owner: 'x'.repeat(128) }, { label: 'x' }, { label: 'ä'.repeat(24) }, { permits: 1 }, { permits: 10_000 },
    { minReplicas: 100 }, { onLost: 'ignore' }, { mode: 'read' }, { renew: false },
  ])('%j are valid to the last', (given) => expect(resolveOptions(given, defaults, 'order:1')).toMatchObject(given));

  it.each<object>([
    { handOn: 1 }, { handOn: 1_000_000 }, { commandTimeoutMs: 10 }, { commandTimeoutMs: 600_000 }, { shutdownGraceMs: 0 }, { shutdownGraceMs: 3_600_000 },
    { maxLeaseMs: 100 }, { maxLeaseMs: 2 ** 40 },
  ])('%j of a module are valid to the last', (given) => expect(resolveDefaults(given)).toMatchObject(given));

  it.each<[object, RegExp]>([
    [{ leaseMs: 0 }, /leaseMs.*whole number.*got 0/],
    [{ leaseMs: '20000' as never }, /leaseMs to be a whole number from 100 to 60000, got '20000' \(a text; make a number of it, as Number\(\) does\)/],
    [{ leaseMs: 10 }, /leaseMs to be a whole number from 100 to 60000, got 10 \(100 ms is the shortest lease, and maxLeaseMs the longest; raise that\)/],
    [{ leaseMs: 99 }, /100 ms is the shortest lease/],
    [{ leaseMs: 60_001 }, /got 60001 \(.*maxLeaseMs the longest; raise that\)/],
    [{ leaseMs: 99.5 }, /got 99.5 \(/],
    [{ waitMs: 2 ** 40 + 1 }, /waitMs to be a whole number from 0 to 1099511627776, got 1099511627777\.$/],
    [{ maxHoldMs: 2 ** 40 + 1 }, /maxHoldMs .* to 1099511627776/],
    [{ minReplicas: 101 }, /minReplicas .* from 0 to 100/],
    [{ permits: 0 }, /permits to be a whole number from 1 to 10000, got 0/],
    [{ permits: 10_001 }, /permits .* got 10001/],
    [{ permits: 2, mode: 'read' }, /permits do not go with mode 'read'/],
    [{ permits: 2, owner: 'ann' }, /permits do not go with owner/],
    [{ label: '' }, /label to be a string of 1 to 48 bytes, got ''/],
    [{ label: `${'ä'.repeat(24)}x` }, /label to be a string of 1 to 48 bytes/],
    [{ label: 7 }, /label .* got 7/],
    [{ owner: 7 }, /owner .* got 7/],
    [{ owner: ['ann'] }, /owner .* got an array/],
    [{ signal: () => 1 }, /AbortSignal, got a function/],
    [{ signal: { addEventListener: true } }, /AbortSignal, got an object/],
    [{ leaseMs: '5s' }, /leaseMs.*got '5s'/],
    [{ leaseMs: 1_000.5 }, /whole number/],
    [{ waitMs: -1 }, /waitMs/],
    [{ waitMs: NaN }, /waitMs/],
    [{ renew: 'no' }, /renew.*true or false/],
    [{ mode: 'exclusive' }, /'read' or 'write'/],
    [{ minHoldMs: 60_001 }, /minHoldMs .* from 0 to 60000, got 60001 \(maxLeaseMs bounds it/],
    [{ graceMs: 60_001 }, /graceMs .* from 0 to 60000, got 60001 \(maxLeaseMs bounds it/],
    [{ graceMs: -1 }, /graceMs.*whole number from 0/],
    [{ graceMs: '5s' }, /graceMs.*got '5s'/],
    [{ graceMs: 30_001 }, /leaseMs \(30000\) and graceMs \(30001\) together are longer than maxLeaseMs \(60000\)/],
    [{ graceMs: 10_000, minHoldMs: 55_000, leaseMs: 55_000 }, /leaseMs \(55000\) and graceMs \(10000\) together/],
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
    [{ handOn: 0 }, /^Lock options: expected handOn to be a whole number from 1 to 1000000, got 0\.$/],
    [{ handOn: 1_000_001 }, /handOn/],
    [{ commandTimeoutMs: 9 }, /commandTimeoutMs .* from 10 to 600000, got 9/],
    [{ commandTimeoutMs: 600_001 }, /commandTimeoutMs/],
    [{ shutdownGraceMs: -1 }, /shutdownGraceMs .* from 0 to 3600000, got -1/],
    [{ shutdownGraceMs: 3_600_001 }, /shutdownGraceMs/],
    [{ maxLeaseMs: 99 }, /maxLeaseMs .* from 100 to 1099511627776, got 99/],
    [{ maxLeaseMs: 2 ** 40 + 1 }, /maxLeaseMs/],
    [{ maxLeaseMs: 10_000, leaseMs: 20_000 }, /leaseMs/],
  ])('%j of a module are refused', (given, message) => expect(() => resolveDefaults(given)).toThrow(message));
});

describe('The length of a renewal', () => {
  it('may be what maxLeaseMs leaves beside the grace, and no more', () => {
    expect(checkRenewal(50_000, 10_000, defaults, 'order:1')).toBeUndefined();
    expect(() => checkRenewal(50_001, 10_000, defaults, 'order:1')).toThrow(`Lock 'order:1': expected leaseMs to be a whole number from 100 to 50000, got 50001`);
    expect(() => checkRenewal(99, 0, defaults, 'order:1')).toThrow('is the shortest lease');
  });
});

describe('Permits', () => {
  const counting = { queue: true, permits: true, replicas: true, maxLeaseMs: 60_000 };
  const redlock = { ...counting, permits: false };

  it('are those of one lock in a store that counts them, or in one that is not known yet', () => {
    expect(checkPermitsOf(['k'], 3, counting)).toBeUndefined();
    expect(checkPermitsOf(['k'], 3, undefined)).toBeUndefined();
    expect(() => checkPermitsOf(['k', 'l'], 3, counting)).toThrow(`Lock 'k': permits (3) are those of one lock, and this call is for 2. Take`);
  });

  it('of a Redlock are refused, and the error names the lock if its key is known', () => {
    const told = 'permits (3) need one place that counts them, and a Redlock has none';
    expect(() => checkPermitsOf(['k'], 3, redlock)).toThrow(`Lock 'k': ${told}`);
    expect(() => checkPermitsOf([() => 'k'], 3, redlock)).toThrow(`Lock options: ${told}`);
  });
});

const problemOf = (given: unknown): string | undefined => optionsProblem(given, ACQUIRE_OPTIONS);

describe('What is wrong with options', () => {
  const list = { names: { size: true }, example: '{ size: 1 }', of: 'Boxes' } as const;

  it('is one sentence, behind which stands what the caller can do instead, if the list says so', () => {
    expect(() => checkOptions({ colour: 1 }, list)).toThrow(/^Boxes: unknown option 'colour'; expected size\.$/);
    expect(() => checkOptions({ colour: 1 }, { ...list, advice: 'Leave it out' })).toThrow(/^Boxes: unknown option 'colour'; expected size\. Leave it out\.$/);
  });
});

describe('The name of an option', () => {
  it.each(['leaseMS', 'TTL', 'wt', '_'])('%s is refused, with those that there are', (name) => {
    expect(problemOf({ [name]: 1 })).toBe(
      `unknown option '${name}'; expected mode, leaseMs, waitMs, renew, maxHoldMs, minHoldMs, graceMs, minReplicas, owner, permits, signal, label, profile`,
    );
  });

  it('is refused alone where there are more than a message can hold', () => {
    const names = Object.fromEntries(Array.from({ length: 31 }, (_, n) => [`n${n}`, true as const]));
    expect(optionsProblem({ m: 1 }, { names, example: '{}' })).toBe(`unknown option 'm'`);
  });

  it('is not looked for among what every object has, for options may be an instance of a class of the old kind', () => {
    class Old {}
    const given: unknown = Object.assign(Object.create({ constructor: Old, toString: () => 'options' }) as object, { leaseMs: 5_000 });
    expect(problemOf(given)).toBeUndefined();
  });

  it('is known to every call that takes it', () => {
    expect(problemOf({ leaseMs: 5_000, owner: 'ann', template: 'order:<0>' })).toBeUndefined();
    expect(problemOf({})).toBeUndefined();
  });
});

/** The options of calls that take no lock: an invalid filter must not mean everything. */
describe('The fence of the only hold that an operator wants to end', () => {
  it.each<[object]>([[{}], [{ fence: undefined }], [{ fence: 1 }], [{ fence: 1_795_392_000_000_000 }]])('may be %j', (options) => {
    expect(() => checkOptions(options, FORCE_RELEASE_OPTIONS, 'k')).not.toThrow();
  });

  it.each<[unknown, string]>([
    [{ fence: 0 }, 'expected fence to be the number of a hold, got 0'],
    [{ fence: -1 }, 'got -1'],
    [{ fence: 1.5 }, 'got 1.5'],
    [{ fence: 2 ** 53 }, 'got 9007199254740992'],
    [{ fence: '7' }, `got '7'`],
    [{ fence: null }, 'expected fence to have a value or to be left out, got null'],
    [null, 'expected options to be an object such as { fence: 7 }, got null'],
    [[7], 'got an array'],
    [7, 'got 7'],
    [{ token: 7 }, `unknown option 'token'`],
  ])('is refused when it is %j, and nobody loses a lock', (options, told) => {
    const check = (): void => checkOptions(options, FORCE_RELEASE_OPTIONS, 'k');
    expect(check).toThrow(LockUsageError);
    expect(check).toThrow(told);
    expect(check).toThrow(/^Lock 'k': .*\. Leave it out to take the lock from all holders\.$/);
  });
});

const timeOf = (given: unknown): number => withinMsOf(given as HandOffOptions, 30_000, { maxLeaseMs: 60_000 }, 'k');

describe('The time in which a ticket can be adopted', () => {
  it.each([
    [undefined, 30_000],
    [{}, 30_000],
    [{ withinMs: undefined }, 30_000],
    [{ withinMs: 1 }, 1],
    [{ withinMs: 60_000 }, 60_000],
  ])('of %j is %d ms, where the lease has 30000', (given, ms) => expect(timeOf(given)).toBe(ms));

  it.each<[unknown, string]>([
    [{ withinMs: 0 }, 'expected withinMs to be a whole number from 1 to 60000, got 0'],
    [{ withinMs: 60_001 }, 'got 60001 (no lock stays taken for longer than maxLeaseMs without a sign of life; raise it)'],
    [{ withinMs: 1.5 }, 'got 1.5'],
    [{ withinMs: null }, 'expected withinMs to have a value or to be left out, got null'],
    [{ within: 5 }, `unknown option 'within'`],
    [5_000, 'expected options to be an object such as { withinMs: 60000 }, got 5000'],
  ])('is refused when it is given as %j', (given, told) => {
    expect(() => timeOf(given)).toThrow(LockUsageError);
    expect(() => timeOf(given)).toThrow(/^Lock 'k': /);
    expect(() => timeOf(given)).toThrow(told);
  });
});

describe('A hold', () => {
  it.each<[LockMode, LockMode, boolean]>([
    ['write', 'write', true],
    ['write', 'read', true],
    ['read', 'read', true],
    ['read', 'write', false],
  ])('for %s lets in a nested call for %s: %s', (held, wanted, isIn) => expect(covers(held, wanted)).toBe(isIn));
});
