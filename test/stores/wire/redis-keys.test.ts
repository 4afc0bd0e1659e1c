/** Key names are part of the wire format: what is written here may not change without a new format version. */
import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { lockHome } from '../../../lib/nest/lock-module-options.js';
import { decodeKey, encodeKey, RedisKeys } from '../../../lib/stores/wire/redis-keys.js';

describe('redis keys', () => {
  const keys = new RedisKeys('lock');

  it('stand in the slot group that every process has always computed', () => {
    expect(['order:1', 'order:2', '', 'käse', '鍵', '🔑', 'a'.repeat(500)].map((key) => keys.groupOf(key))).toEqual([182, 228, 197, 247, 152, 212, 139]);
  });

  it('use all groups evenly', () => {
    const counts = new Array<number>(256).fill(0);
    for (let i = 0; i < 25_600; i++) counts[keys.groupOf(`order:${i}`)]!++;
    expect(Math.min(...counts)).toBeGreaterThan(50);
    expect(Math.max(...counts)).toBeLessThan(170);
  });

  const bit = fc.oneof(fc.constantFrom('%', '%25', '%7B', '%C2%80', '{', '}', '}:l:', '\n', '\u0085', 'a', 'é'), fc.string({ unit: 'binary', maxLength: 3 }));
  const anyKey = fc.array(bit, { minLength: 1, maxLength: 6 }).map((bits) => bits.join(''));

  it('are read back as the key they were made from, whatever is in it', () => {
    fc.assert(
      fc.property(anyKey, (key) => {
        expect(decodeKey(encodeKey(key))).toBe(key);
        expect(keys.keyOf(keys.lock(key))).toBe(key);
      }),
      { numRuns: 3_000 },
    );
  });

  it('hold no brace and no control character of the key, so that it cannot choose its slot', () => {
    expect(encodeKey('{a}\n\u0000\u007f\u009f%')).toBe('%7Ba%7D%0A%00%7F%C2%9F%25');
    expect(encodeKey('wallet:ä 7*')).toBe('wallet:ä 7*');
    fc.assert(fc.property(anyKey, (key) => expect(encodeKey(key)).not.toMatch(/[{}\p{Cc}]/u)));
  });

  it('begin alike where the keys begin alike, and nowhere else', () => {
    fc.assert(fc.property(anyKey, anyKey, (key, start) => expect(encodeKey(key).startsWith(encodeKey(start))).toBe(key.startsWith(start))));
    fc.assert(fc.property(anyKey, anyKey, (start, rest) => expect(encodeKey(start + rest).startsWith(encodeKey(start))).toBe(true)));
  });

  it('of the locks that a boot tries the scripts on are those of no key', () => {
    const { lockKey: lock, queueKey: queue } = keys.probe(7, 'boot:p@127.0.0.1:6379');
    expect([lock, queue]).toEqual(['{lock:7}:l:%probe:boot:p@127.0.0.1:6379', '{lock:7}:q:%probe:boot:p@127.0.0.1:6379']);
    expect(keys.keysAmong([lock], '')).toEqual([]);
    fc.assert(fc.property(anyKey, (key) => expect(encodeKey(`%p${key}`)).not.toMatch(/^%p/)));
  });

  it.each([
    ['another prefix that begins alike', '{lock:eu:7}:l:a'],
    ['a prefix that ends in a number', '{lock:7:7}:l:a'],
    ['another slot group', '{lock:7}:l:order:1'],
    ['a key that is not encoded', `{lock:${keys.groupOf('a%b')}}:l:a%b`],
    ['something else of ours', '{lock:7}:f'],
  ])('of %s are no locks of this prefix', (_what, redisKey) => expect(keys.keyOf(redisKey)).toBeUndefined());

  it('of one lock share its hash tag', () => {
    const { group, shard: _shard, ...spot } = keys.spotOf('order:1');
    const [lockKey, queueKey, fenceKey] = [`{lock:${group}}:l:order:1`, `{lock:${group}}:q:order:1`, `{lock:${group}}:f`];
    expect(spot).toEqual({ key: 'order:1', lockKey, queueKey, fenceKey, redisKeys: [lockKey, queueKey, fenceKey] });
    expect([keys.channel('p'), keys.format]).toEqual(['{lock}:c:p', '{lock}:format']);
  });

  it.each(['', 'a{b', 'a}b', 'a b', 'a*', 'a?', 'a[b', 'a]b', 'a\\b', 'a\0b', '\ud800', 'ä'.repeat(33), 7])('refuse the prefix %p, as the lock module does', (prefix) => {
    const refusal = expect.objectContaining({ code: 'LOCK_USAGE', message: expect.stringContaining('expected prefix to be 1 to 64 bytes') });
    expect(() => new RedisKeys(prefix as string)).toThrow(refusal);
    expect(() => lockHome({ embedded: true, prefix: prefix as string }, 'test')).toThrow(refusal);
  });

  it.each(['lock', 'a:b', 'käse', 'a'.repeat(64)])('take the prefix %p, as the lock module does', (prefix) => {
    expect(new RedisKeys(prefix).format).toBe(`{${prefix}}:format`);
    expect(lockHome({ embedded: true, prefix }, 'test').kind).toBe('embedded');
  });
});
