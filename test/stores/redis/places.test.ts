import { describe, expect, it } from '@jest/globals';
import type { AcquireRequest } from '../../../lib/core/port/lock-store.js';
import { Place } from '../../../lib/stores/redis/acquiring.js';
import type { PushedGrant } from '../../../lib/stores/wire/wake-channel.js';

const request: AcquireRequest = {
  key: 'k', id: 'p.1', mode: 'write', leaseMs: 1_000, queue: true, fences: 1, minHoldMs: 0, owner: undefined, label: undefined, minReplicas: 0, replaces: undefined, notAfter: 0,
};
const message: PushedGrant = { key: 'k', id: 'p.1', fence: 7, fences: 1, mode: 'write', end: 1, lengthMs: 1_000, contended: false };

describe('A place that is asked for again', () => {
  it('keeps the floor of the first time: whatever was granted since must be above it', () => {
    expect(new Place(request, 0, 5).askedAgain(request).floor).toBe(5);
  });

  it('forgets the message that came before: it was for the place of then, and would be believed again at every answer', () => {
    const place = new Place(request, 0, 5).askedAgain(request);
    place.messageCame(message);
    expect(place.askedAgain(request).answerCame()).toBeUndefined();
  });
});
