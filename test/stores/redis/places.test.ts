import { describe, expect, it } from '@jest/globals';
import type { AcquireRequest } from '../../../lib/core/port/lock-store.js';
import { Places } from '../../../lib/stores/redis/places.js';
import type { PushedGrant } from '../../../lib/stores/wire/wake-channel.js';

const request: AcquireRequest = {
  key: 'k', id: 'p.1', mode: 'write', leaseMs: 1_000, queue: true, fences: 1, minHoldMs: 0, owner: undefined, label: undefined, minReplicas: 0, replaces: undefined, notAfter: 0,
};
const message: PushedGrant = { key: 'k', id: 'p.1', fence: 7, fences: 1, mode: 'write', end: 1, lengthMs: 1_000, contended: false };

describe('A place that is asked for again', () => {
  it('keeps the floor of the first time: whatever was granted since must be above it', () => {
    const places = new Places();
    places.add(request, 0, 5);
    expect(places.askAgain(request)?.floor).toBe(5);
  });

  it('forgets the message that came before: it was for the place of then, and would be believed again at every answer', () => {
    const places = new Places();
    places.add(request, 0, 5);
    places.askAgain(request)!.messageCame(message);
    expect(places.askAgain(request)!.answerCame()).toBeUndefined();
  });

  it('keeps the message that comes before its answer for that answer, and leaves later ones to be judged at once', () => {
    const places = new Places();
    places.add(request, 0, 5);
    const place = places.askAgain(request)!;
    expect(place.messageCame(message)).toBe(false);
    expect(place.answerCame()).toBe(message);
    expect(place.messageCame({ ...message, fence: 8 })).toBe(true);
    expect(place.answerCame()).toBe(message);
  });

  it('leaves what is known of its id to the later request', () => {
    const places = new Places();
    const first = places.add(request, 0, 5);
    const second = places.askAgain(request)!;
    expect([places.has(first), places.has(second)]).toEqual([false, true]);
    places.forget(first);
    expect(places.has(second)).toBe(true);
    places.forget(second);
    expect(places.all()).toEqual([]);
  });

  it('is none where the store has given none', () => {
    expect(new Places().askAgain(request)).toBeUndefined();
  });
});

describe('The places of a process', () => {
  it('are counted, and each is found by its id until it is released', () => {
    const places = new Places();
    expect(places.count).toBe(0);
    const other = { ...request, id: 'p.2' };
    const [one, two] = [places.add(request, 3, 5), places.add(other, 4, 6)];
    expect([places.count, places.get('p.1'), places.get('p.2'), places.all()]).toEqual([2, one, two, [one, two]]);
    expect([one.group, one.floor, one.request]).toEqual([3, 5, request]);
    expect(places.askAgain(request)?.group).toBe(3);
    expect(places.count).toBe(2);
    places.drop('p.1');
    expect([places.count, places.get('p.1'), places.all()]).toEqual([1, undefined, [two]]);
    places.drop('p.1');
    places.forget(two);
    expect([places.count, places.all()]).toEqual([0, []]);
  });

  it('may know the message of the grant before the place', () => {
    const place = new Places().add(request, 0, 5, message);
    expect(place.answerCame()).toBe(message);
  });
});
