import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { type CallKey, compileCallKey } from '../../../lib/core/key/call-key.js';
import { roleKey, roleOf } from '../../../lib/core/key/check-key.js';
import { lockKey, parseKeyTemplate } from '../../../lib/core/key/key-template.js';
import { LockKeyError } from '../../../lib/core/port/errors.js';

const keyOf = (made: unknown): unknown => compileCallKey((() => made) as CallKey, 'OrderService.pay')([]);

describe('The key of a decorator', () => {
  it('may be a list of templates and functions, which names the locks of all of them', () => {
    const keys = compileCallKey(['order:<0>', (_id: string, line: number) => `line:${line}`, () => ['a', 'b']], 'OrderService.pay');
    expect(keys(['7', 3])).toEqual(['order:7', 'line:3', 'a', 'b']);
  });

  it('may be a list of one template', () => {
    expect(compileCallKey(['order:<0>'], 'OrderService.pay')(['7'])).toEqual(['order:7']);
  });

  it('is refused when it is an empty list, for the method would run without a lock', () => {
    expect(() => compileCallKey([], 'OrderService.pay')).toThrow('OrderService.pay: a lock needs at least one key, got an empty array.');
  });

  it.each<[string, unknown]>([
    ['number', 7],
    ['undefined', undefined],
    ['object', { key: 'order:<0>' }],
  ])('is refused when it is no template and no function: %s', (got, key) => {
    const told = `OrderService.pay: expected a key template or a function that makes a key, got ${got}.`;
    expect(() => compileCallKey(key as CallKey, 'OrderService.pay')).toThrow(LockKeyError);
    expect(() => compileCallKey(key as CallKey, 'OrderService.pay')).toThrow(told);
    expect(() => compileCallKey(['order:<0>', key] as CallKey, 'OrderService.pay')).toThrow(told);
  });
});

describe('The key that a function makes', () => {
  it.each(['article:handling-null-values', 'article:undefined-behavior', 'flag:is_null', 'order:nullable', 'a.null.b', 'user:null', 'order:null:line'])('may be %s', (key) => {
    expect(keyOf(key)).toBe(key);
  });

  it.each(['order:undefined', 'undefined:order', 'a/NaN/b', 'a|undefined', 'order-undefined', 'order_NaN', 'order.undefined', 'order:[object Object]'])(
    'is refused when it is %s: a value got lost',
    (key) => {
      expect(() => keyOf(key)).toThrow(`OrderService.pay: its key function made '${key}', from a value that is missing or is no id.`);
    },
  );

  it.each<[string, unknown]>([
    ['a promise (a key function cannot be async)', Promise.resolve('order:7')],
    ['undefined', undefined],
    ['number', 7],
  ])('is refused when it is no string, and the error says what it is: %s', (got, made) => {
    const told = `OrderService.pay: its key function must return a string, got ${got}.`;
    expect(() => keyOf(made)).toThrow(LockKeyError);
    expect(() => keyOf(made)).toThrow(told);
    expect(() => keyOf(['order:7', made])).toThrow(told);
  });
});

/** Keys that are made outside of decorators. */
const by = (template: string, ...args: unknown[]): string => parseKeyTemplate(template, 'test')(args);

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
