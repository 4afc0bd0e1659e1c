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

  it('takes whatever may stand in a template', () => {
    expect(lockKey`order:${7}:${3n}:${true}:${new Date(0)}`).toBe('order:7:3:true:1970-01-01T00%3A00%3A00.000Z');
    expect(lockKey`order:${{ toString: () => '0f-1a' }}`).toBe('order:0f-1a');
    expect(lockKey`nightly-draw`).toBe('nightly-draw');
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

  it('keeps the error of a toString as the cause', () => {
    const cause = new Error('lazy');
    const lazy = {
      toString: () => {
        throw cause;
      },
    };
    expect(() => lockKey`order:${lazy}`).toThrow(expect.objectContaining({ code: 'LOCK_KEY', cause }) as never);
  });

  it('is refused when it is malformed, in the words of a template', () => {
    expect(() => lockKey`order:${'a'}${'b'}`).toThrow("lockKey: the key template 'order:${0}${1}' is malformed: two placeholders need a separator");
    expect(() => lockKey`order:${'a'}3A${'b'}`).toThrow('could be part of a value');
    expect(() => lockKey`\ud800${'a'}`).toThrow('surrogate');
    expect(() => lockKey`\u{x}${'a'}`).toThrow('an escape that means no character');
    expect(() => lockKey``).toThrow('lockKey: a key must not be empty');
    expect(() => lockKey`order:${'x'.repeat(512)}`).toThrow(/^lockKey: the key .* 518 bytes/);
  });

  it('called like a function says that it is a tag', () => {
    const called = lockKey as unknown as (key: string) => string;
    expect(() => called('order:7')).toThrow('lockKey is a tag of a template');
  });
});
