/** What becomes of a grant that comes as a message, without a server; pushed-grants.test.ts shows the same on one. */
import { ToldHolds } from '../../../lib/stores/redis/told-holds.js';
import { describe, expect, it } from '@jest/globals';
import type { Grant, Wake } from '../../../lib/core/port/lock-store.js';
import { Places } from '../../../lib/stores/redis/places.js';
import { PushedGrants, type PushedGrantsParts } from '../../../lib/stores/redis/pushed-grants.js';
import type { PushedGrant } from '../../../lib/stores/wire/wake-channel.js';
import { acquireRequest } from '../../support/acquire-request.js';
import { FakeClock } from '../../support/fake-clock.js';

const message: PushedGrant = { key: 'k', id: 'p.1', fence: 7, fences: 1, mode: 'write', end: 5_000, lengthMs: 1_500, contended: false };
const grant = { fence: 7 } as Grant;

/** The judge of the messages of process `p`; `trusted` is what its messages are trusted for. */
function stage(trusted: Grant | undefined) {
  const [told, judged, kept]: [Wake[], unknown[], PushedGrant[]] = [[], [], []];
  const places = new Places();
  const parts = {
    places,
    toldHolds: new ToldHolds(60_000),
    clock: new FakeClock({ now: 400 }),
    process: 'p',
    acquiring: { underway: (id: string) => (id === 'p.underway' ? { messageCame: (push: PushedGrant) => void kept.push(push) } : undefined) },
    trust: { pushed: (...given: unknown[]) => (judged.push(given), trusted) },
    memories: { madeBy: (group: number, at: number) => `memory of ${group} at ${at}` },
    tell: (wake: Wake) => void told.push(wake),
  } as unknown as PushedGrantsParts;
  return { came: (push: Partial<PushedGrant>) => new PushedGrants(parts).came({ ...message, ...push }), told, judged, kept, places };
}

const waiting = acquireRequest({ key: 'k', id: 'p.1' });

describe('The message of a grant', () => {
  it('to a place that waits is its grant when it is trusted, by the memory that the server had then, and ends the place', () => {
    const { came, told, judged, places } = stage(grant);
    const place = places.add(waiting, 3, 5);
    place.answerCame();
    came({});
    expect(told).toEqual([{ kind: 'granted', key: 'k', id: 'p.1', grant }]);
    expect(judged).toEqual([[place, message, 400, 'memory of 3 at 3500']]);
    expect([places.count, places.get('p.1')]).toEqual([0, undefined]);
  });

  it('that is not enough makes the waiter ask, who keeps the place', () => {
    const { came, told, places } = stage(undefined);
    const place = places.add(waiting, 3, 5);
    place.answerCame();
    came({});
    expect(told).toEqual([{ kind: 'ask', key: 'k', id: 'p.1' }]);
    expect(places.has(place)).toBe(true);
  });

  it('that comes before the answer which gave the place is kept for it', () => {
    const { came, told, judged, places } = stage(grant);
    const place = places.add(waiting, 3, 5);
    came({});
    expect([told, judged]).toEqual([[], []]);
    expect(place.answerCame()).toEqual(message);
  });

  it('to a request that is not answered yet is kept by the request', () => {
    const { came, told, kept } = stage(grant);
    came({ id: 'p.underway' });
    expect(kept).toEqual([{ ...message, id: 'p.underway' }]);
    expect(told).toEqual([]);
  });

  it('to nobody is given back, when its id is one of this process and of no other', () => {
    const { came, told } = stage(grant);
    for (const id of ['p.gone', 'p', 'pp.1', 'q.1', 'x.p.1']) came({ id });
    expect(told).toEqual([{ kind: 'stray', key: 'k', id: 'p.gone' }]);
  });
});
