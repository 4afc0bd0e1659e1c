import { describe, expect, it } from '@jest/globals';
import {
  isLockError, LockClosedError, LockLostError, LockStoreError, LockTimeoutError, LockUsageError, messageOf,
} from '../../../lib/core/port/errors.js';
import {
  asStoreError, busyError, givenUpError, lateError, notHeldError, outageError, silenceError, } from '../../../lib/core/port/hold-errors.js';

describe('An error of this library', () => {
  it('has a cause only where there was one, so that logs do not print an empty one', () => {
    const cause = new Error('ECONNRESET');
    expect(new LockStoreError('The store failed.', { cause })).toHaveProperty('cause', cause);
    expect('cause' in new LockStoreError('The store failed.')).toBe(false);
  });

  it('writes a line break in a key, a label or an answer of a server as text, so that nobody can write lines into a log; its key is as it was', () => {
    const key = 'a\r\nERROR all is lost\u2028\u001b]0;';
    const error = new LockTimeoutError(`Lock '${key}' is busy.`, { key, waitMs: 0 });
    expect(error.message).toBe(String.raw`Lock 'a\u000d\u000aERROR all is lost\u2028\u001b]0;' is busy.`);
    expect(error.key).toBe(key);
    expect(String(error.stack).split('\n').filter((line) => line.startsWith('ERROR'))).toEqual([]);
  });

  it('of a wait of which nothing more is known names no holders and no locks of the caller', () => {
    expect(new LockTimeoutError(`Lock 'k' is busy.`, { key: 'k', waitMs: 0 })).toMatchObject({ key: 'k', waitMs: 0, holders: [], held: [] });
  });

  it('of a lease that was lost tells how the work ended, where there was work', () => {
    const outcome = { status: 'fulfilled', value: 7 } as const;
    expect(new LockLostError(`Lock 'k' was lost.`, { key: 'k', outcome })).toMatchObject({ key: 'k', outcome });
    expect(new LockLostError(`Lock 'k' was lost.`, { key: 'k' }).outcome).toBeUndefined();
  });

  it.each<[string, unknown]>([
    ['an error of this package', new LockClosedError('The lock module has shut down.')],
    ['one of another copy of it', Object.assign(new Error('busy'), { code: 'LOCK_TIMEOUT' })],
  ])('is known by its code: %s', (_name, error) => {
    expect(isLockError(error)).toBe(true);
  });

  it.each<[string, unknown]>([
    ['an error of the system', Object.assign(new Error('busy'), { code: 'EBUSY' })],
    ['an error whose code only holds the word', Object.assign(new Error('no'), { code: 'ERR_LOCK_FILE' })],
    ['an error without a code', new Error('LOCK_TIMEOUT')],
    ['a text', 'LOCK_TIMEOUT'],
    ['null', null],
    ['undefined', undefined],
  ])('is not %s', (_name, error) => {
    expect(isLockError(error)).toBe(false);
  });
});

describe('The words of what was thrown', () => {
  it.each([
    ['an error', new Error('it broke'), 'it broke'],
    ['an error of another realm', { name: 'Error', message: 'it broke there' }, 'it broke there'],
    ['a string', 'no', 'no'],
    ['nothing', undefined, 'undefined'],
    ['null', null, 'null'],
    ['an error of several', Object.assign(new Error(''), { errors: [new Error('refused'), 'gone'], code: 'ECONNREFUSED' }), 'refused; gone'],
    ['an error of a single one', Object.assign(new Error(''), { errors: [new Error('refused')] }), 'refused'],
    ['an error of none', Object.assign(new Error(''), { errors: [], code: 'ECONNREFUSED' }), 'ECONNREFUSED'],
    ['an error without anything', new Error(''), ''],
    ['an object without a prototype', Object.create(null), 'an object without a text'],
    ['an object that lets nobody look at it', new Proxy({}, { get: () => { throw new Error('no'); }, has: () => { throw new Error('no'); } }), 'an object without a text'],
    ['an object whose message has no text', { message: Object.create(null) as unknown }, 'an object without a text'],
  ])('are found in %s', (_name, thrown: unknown, words) => {
    expect(messageOf(thrown)).toBe(words);
  });
});

/** What the errors of calls and holds say. */
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
  it('is told from a lock that is busy', () => {
    expect(silenceError('k', 300).message).toContain(`Lock 'k': the store did not respond within 300 ms. The work did not begin`);
    expect(silenceError('k', 0).message).toContain(`Lock 'k': the store did not respond in time.`);
    expect(silenceError('k', 0, { server: 'a:6379' })).toMatchObject({ nodes: [{ node: 'a:6379', reason: 'no answer in time' }], message: expect.stringContaining(`the store (a:6379) did not respond in time.`) });
    expect(silenceError('k', 300)).toMatchObject({ nodes: [] });
    expect(silenceError('k', 300, { minReplicas: 1 }).message).toContain('or fewer than 1 replicas acknowledged the grant');
    expect(silenceError('k', 300, { server: 'a:6379', minReplicas: 2 }).nodes).toEqual([{ node: 'a:6379', reason: 'no answer within 300 ms, or fewer than 2 replicas acknowledged the grant' }]);
  });
});
