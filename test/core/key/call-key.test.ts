import { describe, expect, it } from '@jest/globals';
import { compileCallKey } from '../../../lib/core/key/call-key.js';

const keyOf = (made: string): unknown => compileCallKey(() => made, 'OrderService.pay')([]);

describe('The key that a function makes', () => {
  it.each(['article:handling-null-values', 'article:undefined-behavior', 'flag:is_null', 'order:nullable', 'a.null.b'])('may be %s', (key) => {
    expect(keyOf(key)).toBe(key);
  });

  it.each(['order:undefined', 'undefined:order', 'order:null:line', 'a/NaN/b', 'a|undefined', 'order-undefined', 'order_NaN', 'order.undefined', 'order:[object Object]'])(
    'is refused when it is %s: a value got lost',
    (key) => {
      expect(() => keyOf(key)).toThrow(`OrderService.pay: its key function made '${key}', from a value that is missing or is no id.`);
    },
  );
});
