/** Keys that are made outside of decorators. */
import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { LockKeyError } from '../../../lib/core/port/errors.js';
import { parseKeyTemplate } from '../../../lib/core/key/key-template.js';
import { lockKey } from '../../../lib/core/key/lock-key.js';

const by = (template: string, ...args: unknown[]): string => parseKeyTemplate(template, 'test').render(args);
const text = fc.array(fc.constantFrom('%', '%3A', '%2D', '%25', ':', '-', '{', '\n', 'a', 'é'), { minLength: 1, maxLength: 5 }).map((bits) => bits.join(''));

describe('lockKey', () => {
  it('makes the same string as the template of a decorator', () => {
    fc.assert(
      fc.property(text, text, text, (a, b, c) => {
        expect(lockKey`order:${a}`).toBe(by('order:<0>', a));
        expect(lockKey`order:${a}:${b}`).toBe(by('order:<0>:<1>', a, b));
        expect(lockKey`a<b-${a}-to-${b}:${c}!`).toBe(by('a<<b-<0>-to-<1>:<2>!', a, b, c));
      }),
      { numRuns: 1_000 },
    );
  });

  it.each<[string, unknown]>([
    ['is undefined', undefined],
    ['is null', null],
    ['is an empty string', ''],
    ['is NaN', NaN],
    ['is an object (Object) without an id-like toString', {}],
    ['is a promise', Promise.resolve('7')],
    ['is an array', ['7']],
    ['is a symbol', Symbol('7')],
    ['holds half a surrogate pair', 'a\ud800'],
  ])('is refused where a value %s, and the error says which value', (reason, value) => {
    const made = (): string => lockKey`order:${'a'}:${value as string}`;
    expect(made).toThrow(LockKeyError);
    expect(made).toThrow("lockKey: no key can be made of 'order:${0}:${1}', because ${1} " + reason);
  });

  it('called like a function says that it is a tag', () => {
    const called = lockKey as unknown as (key: string) => string;
    expect(() => called('order:7')).toThrow('lockKey is a tag of a template');
  });
});
