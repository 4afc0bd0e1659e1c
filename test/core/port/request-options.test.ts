/** The options of calls that take no lock: an invalid filter must not mean everything. */
import { describe, expect, it } from '@jest/globals';
import { LockUsageError } from '../../../lib/core/port/errors.js';
import type { LockMode } from '../../../lib/core/port/lock-options.js';
import { checkForceRelease, checkList, checkMode, type ForceReleaseOptions } from '../../../lib/core/port/options.js';

describe('The fence of the only hold that an operator wants to end', () => {
  it.each<[ForceReleaseOptions | undefined]>([[undefined], [{}], [{ fence: undefined }], [{ fence: 1 }], [{ fence: 1_795_392_000_000_000 }]])('may be %j', (options) => {
    expect(checkForceRelease(options, 'k')).toBeUndefined();
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
    const check = (): void => checkForceRelease(options as ForceReleaseOptions, 'k');
    expect(check).toThrow(LockUsageError);
    expect(check).toThrow(told);
    expect(check).toThrow(/^Lock 'k': .*\. Leave it out to take the lock from all holders\.$/);
  });
});

describe('The filter of a list', () => {
  it.each([[undefined], [{}], [{ startsWith: undefined }], [{ startsWith: '' }], [{ startsWith: 'order:' }]])('may be %j', (options) => {
    expect(checkList(options)).toBeUndefined();
  });

  it.each<[unknown, string]>([
    [{ startsWith: 7 }, 'expected startsWith to be a string, got 7'],
    [{ startsWith: null }, 'got null'],
    ['order:', `expected options to be an object such as { startsWith: 'order:' }, got 'order:'`],
    [{ prefix: 'order:' }, `unknown option 'prefix'`],
  ])('is refused when it is %j', (options, told) => {
    const check = (): void => checkList(options as object);
    expect(check).toThrow(LockUsageError);
    expect(check).toThrow(told);
    expect(check).toThrow(/^Options of list: .*\. Leave them out to see all locks\.$/);
  });
});

describe('The mode of a question', () => {
  it.each([[undefined], ['read'], ['write']] as const)('may be %s', (mode) => {
    expect(checkMode(mode, 'k')).toBeUndefined();
  });

  it.each([['exclusive', `'exclusive'`], [null, 'null'], [{}, 'an object'], [() => 1, 'a function']])('is refused when it is %p', (mode, shown) => {
    const check = (): void => checkMode(mode as LockMode, 'k');
    expect(check).toThrow(LockUsageError);
    expect(check).toThrow(`Lock 'k': expected mode to be 'read' or 'write', got ${shown}.`);
  });
});
