/** Which grants of a Redis are trusted, and until when: of an answer, and of a message, which anybody may have sent. */
import { describe, expect, it } from '@jest/globals';
import type { AcquireRequest } from '../../../lib/core/port/lock-store.js';
import { Trust } from '../../../lib/stores/redis/trust.js';
import { marginOf } from '../../../lib/stores/wire/server-clock.js';
import type { PushedGrant } from '../../../lib/stores/wire/wake-channel.js';
import { acquireRequest } from '../../support/acquire-request.js';

/** The server's clock when ours is 0. */
const SERVER = 1_795_236_000_000;
const GROUP = 7;
const DAY = 86_400_000;
/** A fence that is made now: the server's clock in µs. */
const FENCE = 1_000 * (SERVER + 1_000);

function trusting(): Trust {
  const trust = new Trust((group) => group + 100);
  trust.observe(GROUP, { sentAt: 1_000, receivedAt: 1_000, serverNow: SERVER + 1_000 });
  return trust;
}

/** What the trust says of a message that comes at the instant at which the server's clock was read. */
function pushed(push: Partial<PushedGrant> = {}, request: Partial<AcquireRequest> = {}, { trust = trusting(), floor = 0, group = GROUP, at = 1_000 } = {}) {
  const message: PushedGrant = { key: 'k', id: 'p.1', fence: FENCE, fences: 1, mode: 'write', end: SERVER + 2_500, lengthMs: 1_500, contended: false, ...push };
  return trust.pushed({ request: acquireRequest({ leaseMs: 1_500, ...request }), group, floor }, message, at, 'memory');
}

describe('A grant in an answer', () => {
  it('is trusted from the question for what was left of it, and its last fence is the floor from then on', () => {
    const trust = trusting();
    const grant = { fence: 50, fences: 4, mode: 'read', end: SERVER + 3_000, contended: true } as const;
    const exchange = { sentAt: 900, receivedAt: 1_100, serverNow: SERVER + 1_000 };
    expect(trust.answered(GROUP, grant, exchange, 'memory')).toEqual({
      fence: 50, fences: 4, mode: 'read', trustedUntil: 900 + 2_000 - marginOf(2_000), contended: true, memory: 'memory',
    });
    expect([trust.floors.of(GROUP), trust.floors.of(GROUP + 1)]).toEqual([53, 0]);
  });
});

describe('A grant in a message', () => {
  it('is trusted until its end, and its last fence is the floor from then on', () => {
    const trust = trusting();
    expect(pushed({ fences: 3, contended: true }, { fences: 3 }, { trust })).toEqual({
      fence: FENCE, fences: 3, mode: 'write', trustedUntil: 1_000 + 1_500 - marginOf(1_500), contended: true, memory: 'memory',
    });
    expect(trust.floors.of(GROUP)).toBe(FENCE + 2);
  });

  it('is not enough for a request that replicas must acknowledge', () => {
    expect(pushed({}, { minReplicas: 1 })).toBeUndefined();
  });

  it('is not believed with a fence that was seen before the place was asked for', () => {
    expect(pushed({}, {}, { floor: FENCE })).toBeUndefined();
    expect(pushed({}, {}, { floor: FENCE - 1 })).toBeDefined();
  });

  it('is not believed with a fence that is more than a day ahead of the server', () => {
    expect(pushed({ fence: FENCE + 1_000 * DAY })).toBeDefined();
    expect(pushed({ fence: FENCE + 1_000 * DAY + 1 })).toBeUndefined();
  });

  it('is not enough when the clock of the server is not known, or was forgotten', () => {
    const trust = trusting();
    expect(pushed({}, {}, { trust, group: GROUP + 1 })).toBeUndefined();
    trust.reset();
    expect(pushed({}, {}, { trust })).toBeUndefined();
    expect(trust.floors.of(GROUP)).toBe(0);
  });

  it('is judged by the clock at the time at which it comes', () => {
    const at = 9_000;
    const fence = 1_000 * (SERVER + at + DAY);
    // One hundredth of the time since the clock was read is drift.
    expect(pushed({ fence: fence - 1_000 * 80, end: SERVER + at + 1_500 }, {}, { at })).toBeDefined();
    expect(pushed({ fence, end: SERVER + at + 1_500 }, {}, { at })).toBeUndefined();
  });

  it.each<[string, Partial<PushedGrant>, Partial<AcquireRequest>]>([
    ['in another mode', { mode: 'read' }, {}],
    ['for longer than was asked', { lengthMs: 1_501 }, {}],
    ['for longer than any first lease', { lengthMs: 1_501 }, { leaseMs: 60_000 }],
    ['of no fence', { fences: 0 }, {}],
    ['of more fences than were asked for', { fences: 3 }, { fences: 2 }],
    ['with a fence that is no number', { fence: FENCE + 0.5 }, {}],
    ['with a number of fences that is none', { fences: 1.5 }, { fences: 2 }],
    ['with an end that is no number', { end: NaN }, {}],
    ['with a length that is no number', { lengthMs: 0.5 }, {}],
  ])('that says more than its request, %s, comes from somebody else', (_what, push, request) => {
    expect(pushed(push, request)).toBeUndefined();
  });

  it.each<[string, Partial<PushedGrant>, Partial<AcquireRequest>]>([
    ['as long as was asked', { lengthMs: 1_000, end: SERVER + 2_000 }, { leaseMs: 1_000 }],
    ['as long as the first lease of a long one', {}, { leaseMs: 60_000 }],
    ['of as many fences as were asked for', { fences: 2 }, { fences: 2 }],
    ['of fewer fences than were asked for', { fences: 1 }, { fences: 2 }],
    ['in the mode of the present hold of its owner', { mode: 'read' }, { owner: 'me' }],
  ])('that says what its request may be granted, %s, is believed', (_what, push, request) => {
    expect(pushed(push, request)).toMatchObject({ mode: push.mode ?? 'write', fences: push.fences ?? 1 });
  });
});
