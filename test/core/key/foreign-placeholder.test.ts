import { describe, expect, it } from '@jest/globals';
import { foreignPlaceholder } from '../../../lib/core/key/foreign-placeholder.js';

describe('a key that holds a placeholder of another notation', () => {
  it.each([
    ['order:{0}', '{0}', 'order:<0>'],
    ['order:{0.id}', '{0.id}', 'order:<0.id>'],
    ['order:{id}', '{id}', 'order:<0>'],
    ['order:{order.id}', '{order.id}', 'order:<0.id>'],
    ['order:{{id}}', '{{id}}', 'order:<0>'],
    ['order:$0', '$0', 'order:<0>'],
    ['order:$0.id', '$0.id', 'order:<0.id>'],
    ['order:$id', '$id', 'order:<0>'],
    ['order:${0}', '${0}', 'order:<0>'],
    ['order:${order.id}', '${order.id}', 'order:<0.id>'],
    ['order:${order.lines[0]}', '${order.lines[0]}', 'order:<0>'],
    ['#{id}', '#{id}', '<0>'],
    ['order:#order.id', '#order.id', 'order:<0.id>'],
    ['order:#0', '#0', 'order:<0>'],
    ['order:%s', '%s', 'order:<0>'],
    ['order:0', ':0', 'order:<0>'],
    ['order::0', '::0', 'order:<0>'],
    [':0', ':0', '<0>'],
    ['order/:id', ':id', 'order/<0>'],
    ['q:0', ':0', 'q:<0>'],
    ['move:{from}:{to}', '{from}', 'move:<0>:<1>'],
    ['pair:{a}:{a}:{b}', '{a}', 'pair:<0>:<0>:<1>'],
    ['move:${order.from}:${order.to}', '${order.from}', 'move:<0.from>:<0.to>'],
    ['order:<0>:{1}', '{1}', 'order:<0>:<1>'],
  ])('%s: %s is told, and that %s is meant', (template, text, meant) => {
    const told = foreignPlaceholder(template, 2, 'arguments');
    expect(told).toContain(`'${text}' in its key '${template}' is text, the same for every call. Probably '${meant}' is meant`);
    expect(told).toContain(`give a function: () => '${template}'`);
  });

  it.each([
    ['cart:{user.id}', 'cart:<user.id>'],
    ['cart:${id}', 'cart:<params.id>'],
    ['cart/:id', 'cart/<params.id>'],
    ['cart:$0', 'cart:<params.id>'],
    ['cart:{no}', 'cart:<params.no>'],
    ['cart:%s', 'cart:<params.id>'],
    ['cart:${user.carts[0]}', 'cart:<params.id>'],
  ])('of a route, %s: %s is meant', (template, meant) => {
    expect(foreignPlaceholder(template, 2, 'request')).toContain(`Probably '${meant}' is meant: a placeholder is a path into the request`);
  });

  it.each([
    'nightly',
    'order:<0>',
    'order:<0.id>:<1>',
    'order:<<0>',
    'order:id',
    'order:2',
    'a%3Ab',
    '100%',
    'price in $',
    'channel:#general',
    'order:<0>:1',
    '{order}:<0>',
  ])('is not seen in %s', (template) => {
    expect(foreignPlaceholder(template, 2, 'arguments')).toBeUndefined();
  });

  it.each([
    ['order:{id}', 'order:<0>'],
    ['order:$0', 'order:<0>'],
  ])('%s: %s is meant, though the method has one parameter only', (template, meant) => {
    expect(foreignPlaceholder(template, 1, 'arguments')).toContain(`Probably '${meant}' is meant`);
  });

  it.each(['shard:0', '{reports}', 'report/:daily', '$reports'])('is not seen in %s, the key of a method without parameters', (template) => {
    expect(foreignPlaceholder(template, 0, 'arguments')).toBeUndefined();
  });
});
