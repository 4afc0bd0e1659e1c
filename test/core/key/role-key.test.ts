import { describe, expect, it } from '@jest/globals';
import { LockKeyError } from '../../../lib/core/port/errors.js';
import { roleKey, roleOf } from '../../../lib/core/key/check-key.js';

describe('The lock of a role', () => {
  it('is known by its key, in which the role stands as it was given', () => {
    expect(roleKey('indexer')).toBe('leader:indexer');
    expect(roleOf('leader:indexer')).toBe('indexer');
    expect(roleOf(roleKey('leader:of leaders'))).toBe('leader:of leaders');
  });

  it.each(['indexer', 'order:1234567', 'leader', 'leader:', 'my-leader:indexer'])('is not the lock %s, which is one like any other', (key) => {
    expect(roleOf(key)).toBeUndefined();
  });

  it.each<[string, unknown]>([
    [`''`, ''],
    ['undefined', undefined],
    ['7', 7],
    ['null', null],
  ])('is refused for a role that is %s, and the error says so', (got, role) => {
    const made = (): string => roleKey(role as string);
    expect(made).toThrow(LockKeyError);
    expect(made).toThrow(`Role: expected a text that is not empty, such as 'indexer', got ${got}.`);
  });
});
