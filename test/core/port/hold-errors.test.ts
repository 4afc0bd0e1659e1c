/** What the errors of calls and holds say. */
import { describe, expect, it } from '@jest/globals';
import { LockStoreError, LockUsageError, type BusyHolder } from '../../../lib/core/port/errors.js';
import {
  asStoreError,
  busyError,
  givenUpError,
  isSilence,
  lateError,
  notHeldError,
  outageError,
  permitsError,
  silenceError,
  tooManyHoldsError,
  waitedStory,
} from '../../../lib/core/port/hold-errors.js';

const holder = (facts: Partial<BusyHolder> = {}): BusyHolder => ({ process: 'p1', fence: 7, isHere: false, ...facts });
const storyOf = (...holders: BusyHolder[]): string => waitedStory({ holders }, false);

describe('The error of a lock that the running code must hold', () => {
  it.each([
    ['write', false, 'must be held for writing by the code that runs here, but that code does not hold it.'],
    ['write', true, 'must be held for writing by the code that runs here, but that code holds it for reading only.'],
    ['read', false, 'must be held for reading by the code that runs here, but that code does not hold it.'],
  ] as const)('says how it must be held, and how it is: for %s, held for reading: %s', (mode, isHeldForReading, told) => {
    expect(notHeldError('k', mode, isHeldForReading)).toBeInstanceOf(LockUsageError);
    expect(notHeldError('k', mode, isHeldForReading).message).toBe(`Lock 'k' ${told} Call it inside withLock or a locked method.`);
  });
});

describe('The error of a wait that was in vain', () => {
  it('says how long the call waited, or that it did not', () => {
    expect(busyError('k', 300).message).toBe(`Lock 'k' was still busy after 300 ms. It was not taken; try again later.`);
    expect(busyError('k', 0).message).toBe(`Lock 'k' is busy. It was not taken; try again later.`);
  });

  it('says nothing more when nothing more is known', () => {
    expect(waitedStory({}, false)).toBe('');
  });

  it('names the one lock that the waiting call held', () => {
    expect(waitedStory({ held: ['a'] }, false)).toBe(` The call that waited holds 'a'.`);
  });

  it('names all of three holders, and of four the first three', () => {
    const names = ['p1', 'p2', 'p3', 'p4'].map((process) => holder({ process }));
    expect(storyOf(...names.slice(0, 3))).toBe(' Held by process p1; process p2; process p3.');
    expect(storyOf(...names)).toBe(' Held by process p1; process p2; process p3; and 1 more.');
  });

  it.each<[string, Partial<BusyHolder>, string]>([
    ['its process', {}, 'process p1'],
    ['host and pid of its process', { host: 'web-1', pid: 42 }, 'web-1, pid 42'],
    ['this process', { isHere: true, host: 'web-1', pid: 42 }, 'this process'],
    ['its label', { label: 'Orders.pay' }, 'Orders.pay in process p1'],
    ['its owner', { owner: 'ann' }, `owner 'ann' in process p1`],
    ['label and owner', { label: 'Orders.pay', owner: 'ann' }, `Orders.pay, owner 'ann' in process p1`],
    ['when it began', { since: new Date(0) }, 'process p1 since 1970-01-01T00:00:00.000Z'],
    ['the ticket with which it was handed off', { handedOff: true }, 'process p1, handed off with a ticket that nobody has adopted yet'],
  ])('tells of a holder %s', (_what, facts, told) => {
    expect(storyOf(holder(facts))).toBe(` Held by ${told}.`);
  });

  it('names a deadlock of calls as a circle, and tells a caller who may wait for itself', () => {
    expect(waitedStory({ cycle: ['a', 'b'] }, false)).toContain(` Deadlock in this process: 'a' -> 'b' -> 'a', each held`);
    expect(waitedStory({}, true)).toMatch(/^ A holder in this process got its lease from acquire\(\).*waits for itself/);
  });
});

describe('The error of an owner with too many holds', () => {
  it('says how many there can be, and what to do', () => {
    expect(tooManyHoldsError('k', 'ann').message).toContain(`Lock 'k': owner 'ann' has 1000 holds of it already, which is the most there can be. Give some back first`);
  });
});

describe('The error of permits that do not agree', () => {
  it.each([
    [1, 3, 'this call names 1 permit, but those who hold the lock or wait for it name 3 permits.'],
    [undefined, 2, 'this call names no permits, but those who hold the lock or wait for it name 2 permits.'],
    [5, undefined, 'this call names 5 permits, but those who hold the lock or wait for it name no permits.'],
  ])('counts both sides: %s and %s', (given, present, told) => {
    expect(permitsError('k', given, present).message).toContain(`Lock 'k': ${told}`);
  });
});

describe('The error of a store that failed', () => {
  const nodes = [{ node: 'a:6379', reason: 'refused' }, { node: 'b:6379', reason: 'timeout' }];
  const passing = new LockStoreError('The store failed.', { nodes });
  const lasting = new LockStoreError('The store failed.', { nodes, retryable: false });

  it('says whether to try again or to call an operator', () => {
    expect(outageError('k', 300, passing).message).toBe(
      `Lock 'k' could not be acquired within 300 ms, because the store failed: a:6379: refused; b:6379: timeout. ` +
        'The work did not begin, and what may have been granted is released in the background; it is safe to try again.',
    );
    expect(outageError('k', 0, lasting).message).toMatch(/could not be acquired in time, .*; trying again does not help until an operator has corrected the server\.$/);
    expect(outageError('k', 0, passing)).toMatchObject({ key: 'k', cause: passing, nodes, retryable: true });
    expect(outageError('k', 0, lasting)).toMatchObject({ cause: lasting, retryable: false });
  });

  it('is passed on as it is where it says itself what to do: without servers, or for an operator', () => {
    const complete = new LockStoreError(`Lock 'k': the request reached the store too late. It is safe to try again.`);
    expect(givenUpError('k', 300, complete)).toBe(complete);
    expect(givenUpError('k', 300, lasting)).toBe(lasting);
    expect(givenUpError('k', 300, passing)).toMatchObject({ key: 'k', cause: passing });
  });

  it('is that of a defect when a store throws something else', () => {
    const thrown = new TypeError('x is not a function');
    expect(asStoreError(passing, 'k')).toBe(passing);
    expect(asStoreError(thrown, 'k')).toBeInstanceOf(LockStoreError);
    expect(asStoreError(thrown, 'k')).toMatchObject({ key: 'k', cause: thrown, retryable: false });
    expect(asStoreError(thrown, 'k').message).toContain(`Lock 'k': the store failed: TypeError: x is not a function. This is a defect`);
  });

  it('names the server that was asked too late, where there is one', () => {
    expect(lateError('k', 'a:6379')).toMatchObject({ nodes: [{ node: 'a:6379', reason: 'late' }], retryable: true });
    expect(lateError('k', 'a:6379').message).toContain('the request reached a:6379 too late');
    expect(lateError('k')).toMatchObject({ nodes: [] });
    expect(lateError('k').message).toContain('the request reached the store too late');
  });
});

describe('A store that does not answer', () => {
  it.each([
    ['no wait', 0, 100],
    ['a short wait', 60, 100],
    ['a wait', 300, 300],
    ['a long wait', 10_000, 500],
  ])('is silent after %s (%d ms) once it has not answered for %d ms, or up to one less', (_what, waitMs, ms) => {
    expect(isSilence(ms - 0.5, waitMs)).toBe(true);
    expect(isSilence(ms - 1, waitMs)).toBe(false);
  });

  it('is told from a lock that is busy', () => {
    expect(silenceError('k', 300).message).toContain(`Lock 'k': the store did not respond within 300 ms. The work did not begin`);
    expect(silenceError('k', 0).message).toContain(`Lock 'k': the store did not respond in time.`);
  });
});
