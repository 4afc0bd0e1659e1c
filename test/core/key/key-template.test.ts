import { runInNewContext } from 'node:vm';
import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { type CallKey, compileCallKey } from '../../../lib/nest/call-key.js';
import { checkKey, LONGEST_KEY_BYTES, roleKey, roleOf } from '../../../lib/core/key/check-key.js';
import { foreignPlaceholder, lockKey, parseKeyTemplate } from '../../../lib/nest/key-template.js';
import { LockKeyError } from '../../../lib/core/port/errors.js';

const render = (template: string, ...args: unknown[]): string => parseKeyTemplate(template, 'OrderService.pay')(args);

describe('a key template', () => {
  it.each([
    ['order:<0>', ['7'], 'order:7'],
    ['order:<1>', ['x', 7], 'order:7'],
    ['order:<0.customer.id>', [{ customer: { id: 3n } }], 'order:3'],
    ['order:<0>:item:<1.sku>:end', ['a', { sku: true }], 'order:a:item:true:end'],
    ['<0>-to-<1>', ['a-t', 'o'], 'a%2Dt-to-o'],
    ['<0>x<1>', ['ax', 'b-c'], 'a%78xb-c'],
    ['order:<0.items.1.id>', [{ items: [{ id: 'a' }, { id: 'b' }] }], 'order:b'],
    ['<0>', ['7'], '7'],
    ['nightly-draw', [], 'nightly-draw'],
    ['a<<b>:<0>', ['7'], 'a<b>:7'],
    ['<<<0>', ['7'], '<7'],
    ['at:<0>', [new Date(0)], 'at:1970-01-01T00:00:00.000Z'],
    ['zero:<0>', [0], 'zero:0'],
    ['no:<0>', [false], 'no:false'],
    ['grüße:<0>', ['ä€😀'], 'grüße:ä€😀'],
    ['length:<0.length>', ['four'], 'length:4'],
    ['title:<0>', ['an [object in view'], 'title:an [object in view'],
  ])('%s renders as documented', (template, args, key) => expect(render(template, ...args)).toBe(key));

  it('renders an id object by its own text', () => {
    class Uuid {
      constructor(readonly text: string) {}
      toString() {
        return this.text;
      }
    }
    expect(render('order:<0>', new Uuid('0f-1a'))).toBe('order:0f-1a');
    expect(render('order:<0.id>', { id: new Uuid('0f-1a') })).toBe('order:0f-1a');
  });

  it('reads inherited properties and getters', () => {
    class Order {
      get id() {
        return 'g';
      }
    }
    expect(render('order:<0.id>', new (class extends Order {})())).toBe('order:g');
  });

  it.each([
    ['', 'it is empty'],
    ['order:<0', `'<0' is not closed`],
    ['order:<>', `'<>' has a part that is empty or has a space; expected <0> or <0.id>`],
    ['order:<a>', 'does not start with the position of an argument'],
    ['order:<-1>', 'does not start with the position of an argument'],
    ['order:<01>', 'does not start with the position of an argument'],
    ['order:<0.>', 'empty or has a space'],
    ['order:<0..id>', 'empty or has a space'],
    ['order:< 0>', 'empty or has a space'],
    ['order:<0><1>', 'need a separator'],
    ['order:<0>a<1>', 'could be part of a value'],
    ['order:<0>%3A<1>', 'could be part of a value'],
    ['order:\ud800', 'surrogate'],
    ['order:\ud800<0>', 'surrogate'],
  ])('%j is refused when the class is defined, naming class and method', (template, problem) => {
    expect(() => parseKeyTemplate(template, 'OrderService.pay')).toThrow(LockKeyError);
    expect(() => parseKeyTemplate(template, 'OrderService.pay')).toThrow(problem);
    expect(() => parseKeyTemplate(template, 'OrderService.pay')).toThrow(/^OrderService\.pay: /);
  });
});

describe('a value that is no id', () => {
  it.each<[string, unknown, string]>([
    ['undefined', undefined, 'is undefined'],
    ['null', null, 'is null'],
    ['an empty string', '', 'is an empty string'],
    [`the text 'undefined'`, 'undefined', `is the text 'undefined'`],
    ['the text of an object', 'a[object Object]', 'is the text of an object'],
    ['NaN', NaN, 'is NaN'],
    ['Infinity', Infinity, 'is Infinity'],
    ['a symbol', Symbol('x'), 'is a symbol'],
    ['a function', () => 1, 'is a function'],
    ['a plain object', {}, 'without an id-like toString'],
    ['an object without a prototype', Object.create(null), 'without an id-like toString'],
    ['a Map', new Map(), 'without an id-like toString'],
    ['a Set', new Set(), 'without an id-like toString'],
    ['an array', ['a'], 'is an array'],
    ['a Promise', Promise.resolve('7'), 'is a promise'],
    ['a thenable', { then: () => undefined, toString: () => 'x' }, 'is a promise'],
    ['an Error', new Error('x'), 'is of type Error'],
    ['a RegExp', /x/, 'is of type RegExp'],
    ['an object of another realm', runInNewContext('({ id: 7 })'), 'is an object (Object) without an id-like toString'],
    ['a document that prints its fields', { toString: () => "{ _id: 7, name: 'A' }" }, 'without an id-like toString'],
    ['an object of a class without a name', new (class {})(), 'is an object (without a class) without an id-like toString'],
    ['an object with a tag of its own', { [Symbol.toStringTag]: 'a]b' }, 'without an id-like toString'],
    ['a Buffer', Buffer.from('x'), 'is of type Uint8Array'],
    ['an invalid Date', new Date(NaN), 'is an invalid Date'],
    ['an object whose text is empty', { toString: () => '' }, 'whose toString is an empty string'],
    ['an object whose text is that of a missing value', { toString: () => 'undefined' }, `whose toString is the text 'undefined'`],
    ['an object whose text holds that of an object', { toString: () => 'a[object Object]' }, 'whose toString is the text of an object without an id'],
    ['an object whose text is no text', { toString: () => 7 }, 'without an id-like toString'],
    ['half a surrogate pair', 'a\ud800b', 'half a surrogate pair'],
  ])('%s is never locked, and the error names method, placeholder and argument', (_name, value, got) => {
    expect(() => render('order:<1>', 'x', value)).toThrow(LockKeyError);
    expect(() => render('order:<1>', 'x', value)).toThrow(got);
    expect(() => render('order:<1>', 'x', value)).toThrow(/OrderService\.pay.*'order:<1>'.*<1> \(argument 1\)/);
  });

  it('is refused half way along a path as well', () => {
    expect(() => render('order:<0.customer.id>', {})).toThrow('<0.customer.id> (argument 0) is undefined');
    expect(() => render('order:<0.customer.id>', null)).toThrow('is null');
    expect(() => render('order:<0.customer.id>')).toThrow('is undefined');
    expect(() => render('order:<0.customer.constructor.name>', {})).toThrow('is undefined');
  });

  it('does not put the value into the error', () => {
    expect(() => render('order:<0>', { password: 'hunter2' })).toThrow(expect.not.stringContaining('hunter2') as never);
  });
});

/** A character that parts values, escapes of some, pieces of escapes, and what a Redis key must not hold. */
const bit = fc.oneof(fc.constantFrom('%', '%25', '%3A', '%2D', '%253A', '25', '3A', ':', '-', '{', '}', '\n', 'a', 'A', 'é', '%C3%A9', '%C3', '😀'), fc.string({ unit: 'binary', maxLength: 3 }));

const value = fc.array(bit, { minLength: 1, maxLength: 5 }).map((bits) => bits.join('')).filter((text) => text !== '' && !text.includes('undefined') && !text.includes('[object '));
const separator = fc.oneof(fc.constantFrom(':', '-', '%3A:', '3A-', '25:', 'é', '😀', '{', '}{'), fc.string({ unit: 'grapheme', minLength: 1, maxLength: 4 })).filter((text) => /[^0-9A-Fa-f%]/u.test(text));
const literal = fc.oneof(fc.constantFrom('', 'order:', 'a<b', '%3A', '{x}'), fc.string({ unit: 'grapheme', maxLength: 4 }));

describe('a template with one placeholder', () => {
  it('makes the string that one would write by hand, for every value', () => {
    fc.assert(
      fc.property(literal, value, literal, (before, text, after) => {
        const key = `${before}${text}${after}`;
        expect(render(`${escaped(before)}<0>${escaped(after)}`, text)).toBe(key);
        expect(lockKey`${text}`).toBe(text);
        expect(checkKey(key)).toBe(key);
      }),
      { numRuns: 1_000 },
    );
  });

  it.each(['urn:isbn:0451450523', '::1', '2026-11-22T00:00:00.000Z', '100%', 'a%3Ab', '{a}', 'a\nb'])('makes order:%s of %s', (id) => {
    expect(render('order:<0>', id)).toBe(`order:${id}`);
    expect(lockKey`order:${id}`).toBe(`order:${id}`);
  });
});

describe('a template with several placeholders', () => {
  it('escapes only what parts values in it, and a percent sign only where it would read as such an escape', () => {
    expect(render('x:<0>-<1>', 'a:b', '{c}\n%7B')).toBe('x:a:b-{c}\n%7B');
    expect(render('x:<0>:<1>', '100%', '%2D%3a%')).toBe('x:100%:%2D%3a%');
    expect(render('x:<0>:<1>', 'a%3Ab', 'a%253Ab')).toBe('x:a%253Ab:a%25253Ab');
    expect(render('x:<0>é<1>', 'é%C3', '%C3%A9')).toBe('x:%C3%A9%C3é%25C3%A9');
  });

  it('escapes of a separator of several characters the one that is rarest in ids: the colon, or what is no letter and no digit', () => {
    expect(render('x:<0>-:<1>', 'a-b:c', 'd')).toBe('x:a-b%3Ac-:d');
    expect(render('x:<0>to-<1>', 'tom-b', 'd')).toBe('x:tom%2Dbto-d');
  });

  it('writes two digits for every byte that it escapes', () => expect(render('x:<0>\n<1>', 'a\nb', 'c')).toBe('x:a%0Ab\nc'));

  it('makes different keys of different values, whatever the separators', () => {
    fc.assert(
      fc.property(separator, separator, fc.tuple(value, value, value), fc.tuple(value, value, value), (first, second, one, two) => {
        fc.pre(one.some((text, at) => text !== two[at]));
        const template = parseKeyTemplate(`k<0>${escaped(first)}<1>${escaped(second)}<2>`, 'test');
        expect(template(one)).not.toBe(template(two));
      }),
      { numRuns: 1_000 },
    );
  });
});

describe('a key given whole', () => {
  it.each(['order:7%41/x', '{a}:b\r', 'a\u0000\u009f', 'käse 😀', ' '])('stays as its caller wrote it: %j', (key) => expect(checkKey(key)).toBe(key));

  it.each<[string, unknown]>([
    ['empty', ''],
    ['undefined', undefined],
    ['a number', 7],
    ['null', null],
    ['half a surrogate pair', '\udc00'],
    ['made of undefined', `order:${undefined}`],
    ['made of an object', `order:${{}}`],
    ['made of a promise', `order:${Promise.resolve()}:x`],
  ])('is refused when it is %s', (_name, key) => expect(() => checkKey(key as string)).toThrow(LockKeyError));

  it('is refused with an error that says at once what is wrong with it', () => {
    expect(() => checkKey('')).toThrow(/^Lock key: a key must not be empty\. Name what is locked, such as 'order:7'\.$/);
    expect(() => checkKey(undefined as never)).toThrow(/^Lock key: expected a text such as 'order:7', got undefined\.$/);
    expect(() => checkKey('order:undefined', 'lockKey')).toThrow(/^lockKey: the key 'order:undefined' was made of a value that is missing or is no id\./);
  });

  it('is refused beyond the stated length, counted in bytes', () => {
    const longest = 'ä'.repeat(LONGEST_KEY_BYTES / 2);
    expect(checkKey(longest)).toBe(longest);
    expect(() => checkKey(`${longest}a`)).toThrow(expect.objectContaining({ key: `${longest}a` }));
    expect(() => checkKey(`${longest}a`)).toThrow(`has ${LONGEST_KEY_BYTES + 1} bytes, more than the ${LONGEST_KEY_BYTES} allowed`);
    expect(checkKey('{'.repeat(LONGEST_KEY_BYTES))).toHaveLength(LONGEST_KEY_BYTES);
    expect(() => render('order:<0>', 'x'.repeat(LONGEST_KEY_BYTES))).toThrow(/OrderService\.pay: the key .* 518 bytes/);
  });

  it('that is too long stands in the error with its beginning only', () => {
    const start = 'tenant:12:document:0123456789abcdefghijk';
    expect(() => checkKey(`${start}${'x'.repeat(LONGEST_KEY_BYTES)}`)).toThrow(`the key '${start}…' has ${LONGEST_KEY_BYTES + start.length} bytes`);
  });
});

describe('a template of a request', () => {
  const route = (template: string) => parseKeyTemplate(template, 'a route', 'request');

  it('starts with a property of the request', () => {
    expect(route('cart:<user.id>:<params.id>')({ user: { id: 7 }, params: { id: 'b' } })).toBe('cart:7:b');
  });

  it('has no arguments', () => expect(() => route('cart:<0>')).toThrow(`'<0>' starts with the position of an argument, and a route has none`));

  it('is refused with an example of a path into the request', () => {
    expect(() => route('cart:<user.>')).toThrow(`'<user.>' has a part that is empty or has a space; expected <user.id>`);
  });

  it('names the missing part of the request', () => expect(() => route('cart:<user.id>')({})).toThrow('<user.id> of the request is undefined'));
});

/** As the author of a template writes it. */
const escaped = (literal: string): string => literal.replaceAll('<', '<<');

describe('a key that holds a placeholder of another notation', () => {
  it.each([
    ['order:{0}', '{0}'],
    ['order:{order.id}', '{order.id}'],
    ['order:{{id}}', '{id}'],
    ['order:$0', '$0'],
    ['order:$id', '$id'],
    ['order:${order.lines[0]}', '${order.lines[0]}'],
    ['#{id}', '#{id}'],
    ['order:#order.id', '#order.id'],
    ['order:%s', '%s'],
    ['order/:id', ':id'],
    ['move:{from}:{to}', '{from}'],
  ])('%s: %s is told', (template, text) => {
    const told = foreignPlaceholder(template, 1);
    expect(told).toContain(`'${text}' in its key '${template}' is text, the same for every call. A placeholder is <0>`);
    expect(told).toContain(`give a function: () => '${template}'`);
  });

  it.each(['nightly', 'order:<0>', 'order:<0.id>:<1>', 'order:<<0>', 'order:id', 'order:2', 'a%3Ab', '100%', 'price in $', 'channel:#general', '{order}:<0>'])(
    'is not seen in %s',
    (template) => expect(foreignPlaceholder(template, 2)).toBeUndefined(),
  );

  it.each(['{reports}', 'report/:daily', '$reports'])('is not seen in %s, the key of a method without parameters', (template) => {
    expect(foreignPlaceholder(template, 0)).toBeUndefined();
  });
});

const keyOf = (made: unknown): unknown => compileCallKey((() => made) as CallKey, 'OrderService.pay')([]);

describe('The key of a decorator', () => {
  it('may be a list of templates and functions, which names the locks of all of them', () => {
    const keys = compileCallKey(['order:<0>', (_id: string, line: number) => `line:${line}`, () => ['a', 'b']], 'OrderService.pay');
    expect(keys(['7', 3])).toEqual(['order:7', 'line:3', 'a', 'b']);
  });

  it('may be a list of one template', () => expect(compileCallKey(['order:<0>'], 'OrderService.pay')(['7'])).toEqual(['order:7']));

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
    (key) => expect(() => keyOf(key)).toThrow(`OrderService.pay: its key function made '${key}', from a value that is missing or is no id.`),
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
