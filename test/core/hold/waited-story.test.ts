/** What the error of a wait that was in vain tells of the holders and of the caller. */
import { describe, expect, it } from '@jest/globals';
import { waitedStory } from '../../../lib/core/hold/timeouts.js';
import type { BusyHolder } from '../../../lib/core/port/errors.js';

const holder = (facts: Partial<BusyHolder> = {}): BusyHolder => ({ process: 'p1', fence: 7, isHere: false, ...facts });
const storyOf = (...holders: BusyHolder[]): string => waitedStory({ holders }, false);

describe('The error of a wait that was in vain', () => {
  it('says nothing more when nothing more is known', () => {
    expect(waitedStory({}, false)).toBe('');
  });

  it('names the one lock that the waiting call held', () => {
    expect(waitedStory({ held: ['a'] }, false)).toBe(` The call that waited holds 'a'.`);
  });

  it('names all of three holders, and of four the first three', () => {
    const names = ['p1', 'p2', 'p3', 'p4'].map((process) => holder({ process }));
    expect(storyOf(...names.slice(0, 3))).toBe(' Held by process p1; process p2; process p3.');
    expect(storyOf(...names)).toBe(' Held by process p1; process p2; process p3; and 1 more.');
  });

  it.each<[string, Partial<BusyHolder>, string]>([
    ['its process', {}, 'process p1'],
    ['host and pid of its process', { host: 'web-1', pid: 42 }, 'web-1, pid 42'],
    ['this process', { isHere: true, host: 'web-1', pid: 42 }, 'this process'],
    ['its label', { label: 'Orders.pay' }, 'Orders.pay in process p1'],
    ['its owner', { owner: 'ann' }, `owner 'ann' in process p1`],
    ['label and owner', { label: 'Orders.pay', owner: 'ann' }, `Orders.pay, owner 'ann' in process p1`],
    ['when it began', { since: new Date(0) }, 'process p1 since 1970-01-01T00:00:00.000Z'],
    ['the ticket with which it was handed off', { handedOff: true }, 'process p1, handed off with a ticket that nobody has adopted yet'],
  ])('tells of a holder %s', (_what, facts, told) => {
    expect(storyOf(holder(facts))).toBe(` Held by ${told}.`);
  });

  it('names a deadlock of calls as a circle, and tells a caller who may wait for itself', () => {
    expect(waitedStory({ cycle: ['a', 'b'] }, false)).toContain(` Deadlock in this process: 'a' -> 'b' -> 'a', each held`);
    expect(waitedStory({}, true)).toMatch(/^ A holder in this process got its lease from acquire\(\).*waits for itself/);
  });
});
