import { describe, expect, it } from '@jest/globals';
import { failureText } from '../../../lib/core/hold/candidacy.js';

describe('The log line about a function of a leader that failed', () => {
  const withStack = Object.assign(new Error('disk full'), { stack: 'Error: disk full\n    at writeIndex' });
  it.each<[string, unknown, string]>([
    ['an error, with where it came from', withStack, 'Error: disk full\n    at writeIndex'],
    ['an error whose stack is no text', Object.assign(new Error('disk full'), { stack: 7 }), 'disk full'],
    ['text', 'disk full', 'disk full'],
    ['null', null, 'null'],
    ['an object without a stack', { message: 'disk full' }, 'disk full'],
  ])('tells %s', (_what, cause, told) => {
    expect(failureText('indexer', cause, 2_000.4).endsWith(` This process stands for election again in 2000 ms. ${told}`)).toBe(true);
  });

  it('says when this process does not stand any more', () => {
    expect(failureText('indexer', 'x', undefined)).toBe(`Role 'indexer': the function of the leader failed, so the term is over. This process does not stand for election any more. x`);
  });
});
