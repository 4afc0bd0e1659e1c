import { describe, expect, it } from '@jest/globals';
import { isLockError, LockClosedError, LockLostError, LockStoreError, LockTimeoutError, messageOf } from '../../../lib/core/port/errors.js';

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
    expect(new LockTimeoutError(`Lock 'k' is busy.`, { key: 'k', waitMs: 0 })).toMatchObject({ key: 'k', waitMs: 0, holders: [], held: [], cycle: undefined });
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
    ['an object without a prototype', Object.create(null), '[object Object]'],
    ['an object that lets nobody look at it', new Proxy({}, { get: () => { throw new Error('no'); }, has: () => { throw new Error('no'); } }), 'an object that lets nobody look at it'],
    ['an object whose message has no text', { message: Object.create(null) as unknown }, '[object Object]'],
  ])('are found in %s', (_name, thrown: unknown, words) => {
    expect(messageOf(thrown)).toBe(words);
  });
});
