/** Server time to local time: what may be trusted from which sample, worst cases included. */
import { describe, expect, it } from '@jest/globals';
import { marginOf, ServerClock, trustOf } from '../../../lib/stores/wire/server-clock.js';

const SERVER_START = 1_795_236_000_000;

/** A server whose clock stood at SERVER_START when ours was 0, and a reply that took `upMs` up and `downMs` down. */
function sampleAt(clock: ServerClock, sentAt: number, upMs: number, downMs: number, offset = 0): void {
  clock.observe(0, { sentAt, serverNow: Math.floor(SERVER_START + offset + sentAt + upMs), receivedAt: sentAt + upMs + downMs });
}

describe('the margin', () => {
  it('is one hundredth of the length and five milliseconds, and trust is counted from the question less that', () => {
    expect(marginOf(30_000)).toBe(305);
    expect(marginOf(0)).toBe(5);
    expect(trustOf(30_000, 1_000)).toBe(1_000 + 30_000 - 305);
  });
});

describe('trust in a pushed grant', () => {
  it('never outlasts the lease on the server, whichever way the sample was slow', () => {
    for (const [up, down] of [[0, 0], [0, 400], [400, 0], [150, 250]] as const) {
      const clock = new ServerClock();
      sampleAt(clock, 1_000, up, down);
      const granted = 3_000;
      const until = clock.trustedUntil(0, SERVER_START + granted + 1_500, 1_500, granted + 5)!;
      expect(until).toBeLessThanOrEqual(granted + 1_500);
    }
  });

  it('is not lengthened by a message that came late', () => {
    const clock = new ServerClock();
    sampleAt(clock, 1_000, 1, 1);
    const early = clock.trustedUntil(0, SERVER_START + 3_000 + 1_500, 1_500, 3_001)!;
    const late = clock.trustedUntil(0, SERVER_START + 3_000 + 1_500, 1_500, 4_400)!;
    expect(late).toBe(early);
    expect(late).toBeLessThan(4_500);
  });

  it('counts the drift since the sample in', () => {
    const clock = new ServerClock();
    sampleAt(clock, 0, 0, 0);
    const until = clock.trustedUntil(0, SERVER_START + 9_000 + 1_500, 1_500, 9_001)!;
    expect(until).toBeCloseTo(10_500 - marginOf(10_500), 5);
  });

  it('is refused without a sample, with one older than 10 s, and after a reset', () => {
    const clock = new ServerClock();
    expect(clock.trustedUntil(0, SERVER_START + 1_500, 1_500, 0)).toBeUndefined();
    sampleAt(clock, 0, 1, 1);
    expect(clock.trustedUntil(1, SERVER_START + 1_500, 1_500, 5)).toBeUndefined();
    expect(clock.trustedUntil(0, SERVER_START + 9_000, 1_500, 9_999)).toBeDefined();
    expect(clock.trustedUntil(0, SERVER_START + 12_000, 1_500, 10_003)).toBeUndefined();
    clock.reset();
    expect(clock.trustedUntil(0, SERVER_START + 1_500, 1_500, 5)).toBeUndefined();
  });

  it.each([3_600_000, -3_600_000, 200, -200])('is refused for a while after the server clock jumped by %d ms', (jump) => {
    const clock = new ServerClock();
    sampleAt(clock, 0, 1, 1);
    sampleAt(clock, 100, 1, 1, jump);
    expect(clock.trustedUntil(0, SERVER_START + jump + 1_600, 1_500, 200)).toBeUndefined();
    sampleAt(clock, 10_200, 1, 1, jump);
    expect(clock.trustedUntil(0, SERVER_START + jump + 11_700, 1_500, 10_210)).toBeDefined();
  });

  it('is not refused because of a reply that was slow', () => {
    const clock = new ServerClock();
    sampleAt(clock, 0, 1, 1);
    sampleAt(clock, 100, 900, 900);
    expect(clock.trustedUntil(0, SERVER_START + 3_500, 1_500, 2_001)).toBeGreaterThan(3_400);
  });
});

describe('the limit of a request on the server clock', () => {
  it('is never later than the local limit', () => {
    for (const [up, down] of [[0, 0], [0, 400], [400, 0]] as const) {
      const clock = new ServerClock();
      sampleAt(clock, 1_000, up, down);
      expect(clock.lowerBound(0, 5_000, 2_000)).toBeLessThanOrEqual(SERVER_START + 5_000);
      expect(clock.lowerBound(0, 5_000, 2_000)).toBeGreaterThan(SERVER_START + 4_500);
    }
  });

  it('is not later either where the local limit lies before what it is told from', () => {
    const clock = new ServerClock();
    sampleAt(clock, 5_000, 0, 0);
    expect(clock.lowerBound(0, 1_000, 5_000)).toBeLessThanOrEqual(SERVER_START + 1_000);
    expect(clock.lowerBound(0, 1_000, 5_000)).toBeGreaterThan(SERVER_START + 900);
  });

  it('is told from an answer of any server when the last one of its own is older than a minute', () => {
    const clock = new ServerClock();
    clock.observe(7, { sentAt: 0, serverNow: SERVER_START, receivedAt: 1 });
    sampleAt(clock, 61_000, 0, 0);
    expect(clock.lowerBound(7, 62_000, 61_002)).toBeLessThanOrEqual(SERVER_START + 62_000);
    expect(clock.lowerBound(7, 62_000, 61_002)).toBeGreaterThan(SERVER_START + 61_900);
  });

  it('is none when there is nothing to tell it from', () => {
    const clock = new ServerClock();
    expect(clock.lowerBound(0, 5_000, 2_000)).toBe(0);
    sampleAt(clock, 0, 1, 1);
    expect(clock.lowerBound(0, 62_000, 61_000)).toBe(0);
  });
});
