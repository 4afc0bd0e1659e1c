/** Key names are part of the wire format: what is written here may not change without a new format version. */
import { describe, expect, it } from '@jest/globals';
import { whereabouts } from '../../lib/nest/lock-module-options.js';
import { RedisKeys } from '../../lib/stores/wire/redis-keys.js';

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

  it('are read back as the key they were made from', () => {
    for (const key of ['a', 'a}:l:b', ':l:', 'ä b']) expect(keys.keyOf(keys.lock(7, key))).toBe(key);
  });

  it('of one lock share its hash tag', () => {
    expect(keys.all(7, 'order:1')).toEqual(['{lock:7}:l:order:1', '{lock:7}:q:order:1', '{lock:7}:f']);
    expect([keys.channel('p'), keys.format]).toEqual(['{lock}:c:p', '{lock}:format']);
  });

  it.each(['', 'a{b', 'a}b', 'a b', 'a*', 'a?', 'a[b', 'a]b', 'a\\b', 'a\0b', '\ud800', 'ä'.repeat(33), 7])('refuse the prefix %p, as the lock module does', (prefix) => {
    const refusal = expect.objectContaining({ code: 'LOCK_USAGE', message: expect.stringContaining('expected prefix to be 1 to 64 bytes') });
    expect(() => new RedisKeys(prefix as string)).toThrow(refusal);
    expect(() => whereabouts({ embedded: true, prefix: prefix as string }, 'test')).toThrow(refusal);
  });

  it.each(['lock', 'a:b', 'käse', 'a'.repeat(64)])('take the prefix %p, as the lock module does', (prefix) => {
    expect(new RedisKeys(prefix).format).toBe(`{${prefix}}:format`);
    expect(whereabouts({ embedded: true, prefix }, 'test').kind).toBe('embedded');
  });
});
