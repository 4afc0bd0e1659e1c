import { describe, expect, it } from '@jest/globals';
import { messageOf } from '../../../lib/core/port/errors.js';

describe('The words of what was thrown', () => {
  it.each([
    ['an error', new Error('it broke'), 'it broke'],
    ['an error of another realm', { name: 'Error', message: 'it broke there' }, 'it broke there'],
    ['a string', 'no', 'no'],
    ['nothing', undefined, 'undefined'],
    ['an object without a prototype', Object.create(null), '[object Object]'],
    ['an object whose message has no text', { message: Object.create(null) as unknown }, '[object Object]'],
  ])('are found in %s', (_name, thrown: unknown, words) => {
    expect(messageOf(thrown)).toBe(words);
  });
});
