/** Where locks stand in Redis, and what of it is remembered. */
import { describe, expect, it, jest } from '@jest/globals';
import { Spots } from '../../../lib/stores/redis/spots.js';
import { RedisKeys } from '../../../lib/stores/wire/redis-keys.js';

const keys = new RedisKeys('lock');

describe('The spot of a lock', () => {
  it('has its Redis keys and the source of its group', () => {
    const spots = new Spots(keys, (group) => group + 1_000);
    const spot = spots.of('order:7');
    expect(spot).toEqual({ ...keys.spotOf('order:7'), source: keys.groupOf('order:7') + 1_000 });
    expect(spots.of('order:8')).toMatchObject({ key: 'order:8' });
    expect(spots.of('order:7')).toEqual(spot);
  });

  it('is found once for the acquire and the release, for 256 locks; then all are forgotten, so that a process with many locks keeps its memory', () => {
    const found = jest.spyOn(RedisKeys.prototype, 'spotOf');
    const spots = new Spots(keys, () => 0);
    const all = Array.from({ length: 256 }, (_, n) => `order:${n}`);
    for (const key of [...all, ...all]) spots.of(key);
    expect(found).toHaveBeenCalledTimes(256);
    spots.of('one more');
    spots.of('one more');
    expect(found).toHaveBeenCalledTimes(257);
    spots.of('order:0');
    expect(found).toHaveBeenCalledTimes(258);
    found.mockRestore();
  });
});
