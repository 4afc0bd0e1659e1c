import { describe, expect, it } from '@jest/globals';
import { LockKeyError } from '../../../lib/core/port/errors.js';
import { compileCallKey, type CallKey } from '../../../lib/core/key/call-key.js';

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
