import { describe, expect, it } from '@jest/globals';
import { Alarm, Schedule } from '../../../lib/core/lease/schedule.js';
import { FakeClock } from '../../support/fake-clock.js';

describe('The schedule', () => {
  it('keeps every appointment in order of time with one timer, however they are made, moved and cancelled', async () => {
    const clock = new FakeClock({ now: 0 });
    const schedule = new Schedule(clock);
    const rang: number[] = [];
    const alarms = Array.from({ length: 200 }, () => new Alarm((now) => rang.push(now)));
    const wanted = new Map<Alarm, number>();
    // A fixed pseudo-random sequence: the same every time.
    let seed = 42;
    const random = (below: number): number => Math.floor(((seed = (Math.imul(seed, 1_103_515_245) + 12_345) >>> 0) / 2 ** 32) * below);
    for (let step = 0; step < 2_000; step++) {
      // From here on they are sorted.
      if (step === 1_000) await clock.advance(30);
      const alarm = alarms[random(alarms.length)]!;
      if (random(3) === 0) {
        schedule.cancel(alarm);
        wanted.delete(alarm);
      } else {
        const at = 31 + random(10_000);
        schedule.set(alarm, at);
        wanted.set(alarm, at);
      }
      expect(schedule.size).toBe(wanted.size);
      expect(clock.pendingTimers).toBeLessThanOrEqual(1);
      if (wanted.size > 0) expect(clock.pendingTimers).toBe(1);
    }
    await clock.advance(10_031);
    expect(rang).toEqual([...wanted.values()].sort((a, b) => a - b));
    expect(clock.pendingTimers).toBe(0);
  });

  it('may be changed by what is due', async () => {
    const clock = new FakeClock({ now: 0 });
    const schedule = new Schedule(clock);
    const rang: string[] = [];
    const never = new Alarm(() => rang.push('never'));
    const again: Alarm = new Alarm((now) => {
      rang.push(`again at ${now}`);
      schedule.cancel(never);
      if (now < 30) schedule.set(again, now + 10);
    });
    schedule.set(never, 10);
    schedule.set(again, 10);
    schedule.set(new Alarm(() => rang.push('once')), 5);
    schedule.set(never, 11);
    await clock.advance(100);
    expect(rang).toEqual(['once', 'again at 10', 'again at 20', 'again at 30']);
  });

  it('looks at the time before it calls what is due, and again after it, because the machine may have slept', async () => {
    const clock = new FakeClock({ now: 0 });
    const seen: string[] = [];
    const schedule = new Schedule(clock, (now) => {
      seen.push(`looked at ${now}`);
      clock.block(5);
    });
    schedule.set(new Alarm((now) => seen.push(`called at ${now}`)), 10);
    await clock.advance(30);
    expect(seen.slice(0, 2)).toEqual(['looked at 10', 'called at 15']);
  });

  it('calls what is due at once in the same turn, and nothing early', async () => {
    const clock = new FakeClock({ now: 0 });
    const schedule = new Schedule(clock);
    const rang: string[] = [];
    for (const at of [100, 101, 100]) schedule.set(new Alarm((now) => rang.push(`${at} at ${now}`)), at);
    await clock.advance(100);
    expect(rang).toEqual(['100 at 100', '100 at 100']);
    await clock.advance(1);
    expect(rang).toHaveLength(3);
  });

  it('sets no timer while a call is over within 20 ms, and one for all that are noted in that time', async () => {
    const clock = new FakeClock({ now: 0 });
    let set = 0;
    const setTimer = clock.setTimer.bind(clock);
    clock.setTimer = (...given) => ((set += 1), setTimer(...given));
    const schedule = new Schedule(clock);
    for (let n = 0; n < 100; n++) {
      const alarm = new Alarm(() => undefined);
      schedule.set(alarm, 1_000);
      schedule.cancel(alarm);
    }
    expect(set).toBe(1);
    await clock.advance(20);
    expect([set, clock.pendingTimers]).toEqual([1, 0]);
  });

  it('knows what has an appointment, and cancels one by Infinity', async () => {
    const clock = new FakeClock({ now: 0 });
    const schedule = new Schedule(clock);
    const [early, sorted, noted] = [1, 2, 3].map(() => new Alarm(() => undefined));
    schedule.set(sorted!, 500);
    schedule.set(early!, 400);
    await clock.advance(20);
    schedule.set(noted!, 300);
    expect(schedule.has(early!)).toBe(true);
    expect([schedule.size, schedule.has(sorted!), schedule.has(noted!), schedule.peek() === early, new Set(schedule.all())]).toEqual([3, true, true, true, new Set([early, sorted, noted])]);
    for (const alarm of [sorted!, noted!, early!]) schedule.set(alarm, Infinity);
    expect([schedule.size, schedule.has(sorted!), schedule.has(noted!), schedule.peek()]).toEqual([0, false, false, undefined]);
    expect([sorted, noted, early].map((alarm) => [alarm!.at, alarm!.heapIndex, alarm!.notedIndex])).toEqual([1, 2, 3].map(() => [Infinity, -1, -1]));
  });

  it('keeps no timer for an appointment that was cancelled, nor any at shutdown when there is none', async () => {
    const clock = new FakeClock({ now: 0 });
    const schedule = new Schedule(clock);
    const alarm = new Alarm(() => undefined);
    schedule.set(alarm, 60_000);
    await clock.advance(20);
    expect(clock.pendingTimers).toBe(1);
    schedule.cancel(alarm);
    expect(clock.pendingTimers).toBe(0);
    schedule.set(alarm, 60_000);
    schedule.close();
    expect(clock.pendingTimers).toBe(1);
    schedule.cancel(alarm);
    expect(clock.pendingTimers).toBe(1);
    schedule.close();
    expect(clock.pendingTimers).toBe(0);
    const rang: number[] = [];
    schedule.set(new Alarm((now) => rang.push(now)), 1_000);
    await clock.advance(1_000);
    expect(rang).toEqual([1_000]);
  });

  it('sorts what was noted 20 ms after the first of it, so that nothing is called late', async () => {
    const clock = new FakeClock({ now: 0 });
    const schedule = new Schedule(clock);
    const rang: number[] = [];
    schedule.set(new Alarm((now) => rang.push(now)), 25);
    await clock.advance(15);
    const moved = new Alarm((now) => rang.push(now));
    schedule.set(moved, 1_000);
    schedule.set(moved, 18);
    expect(schedule.size).toBe(2);
    await clock.advance(1_000);
    expect(rang).toEqual([18, 25]);
  });

  it('keeps its timer for what is left when others are cancelled, and for what is noted next', async () => {
    const clock = new FakeClock({ now: 0 });
    const schedule = new Schedule(clock);
    const rang: string[] = [];
    const [first, second, third, fourth] = ['first', 'second', 'third', 'fourth'].map((name) => new Alarm((now) => rang.push(`${name} at ${now}`)));
    schedule.set(first!, 1_000);
    schedule.set(second!, 2_000);
    await clock.advance(20);
    schedule.cancel(first!);
    await clock.advance(1_980);
    expect(rang).toEqual(['second at 2000']);
    schedule.set(first!, 4_000);
    await clock.advance(20);
    schedule.set(third!, 4_000);
    for (const alarm of [third!, first!]) schedule.cancel(alarm);
    schedule.set(fourth!, 3_000);
    await clock.advance(2_000);
    expect(rang).toEqual(['second at 2000', 'fourth at 3000']);
  });

  it('moves what is sorted, also to before all others', async () => {
    const clock = new FakeClock({ now: 0 });
    const schedule = new Schedule(clock);
    const rang: string[] = [];
    const alarms = [100, 200, 300, 400].map((name) => new Alarm((now) => rang.push(`${name} at ${now}`)));
    alarms.forEach((alarm, n) => schedule.set(alarm, 100 * (n + 1)));
    await clock.advance(20);
    schedule.set(alarms[3]!, 50);
    schedule.set(alarms[0]!, 350);
    await clock.advance(1_000);
    expect(rang).toEqual(['400 at 50', '200 at 200', '300 at 300', '100 at 350']);
  });

  describe('keeps the process alive for calls that wait', () => {
    function setUp() {
      const clock = new FakeClock({ now: 0 });
      const alive = { begun: 0, open: 0 };
      clock.keepAlive = () => {
        alive.begun += 1;
        alive.open += 1;
        return () => void (alive.open -= 1);
      };
      return { clock, alive, schedule: new Schedule(clock), never: new Alarm(() => undefined) };
    }

    it('once for all of them, until the last has stopped', () => {
      const { schedule, alive } = setUp();
      for (const round of [1, 2]) {
        schedule.waitBegins();
        schedule.waitBegins();
        schedule.waitEnds();
        expect(alive).toEqual({ begun: round, open: 1 });
        schedule.waitEnds();
        expect(alive).toEqual({ begun: round, open: 0 });
      }
    });

    it('once for all short ones: it is let go when the appointments of that time are sorted', async () => {
      const { clock, schedule, alive, never } = setUp();
      schedule.set(never, 1_000);
      for (let n = 0; n < 10; n++) {
        schedule.waitBegins();
        schedule.waitEnds();
      }
      expect(alive).toEqual({ begun: 1, open: 1 });
      await clock.advance(20);
      expect(alive).toEqual({ begun: 1, open: 0 });
    });

    it('also when the appointments are sorted while one waits', async () => {
      const { clock, schedule, alive, never } = setUp();
      schedule.set(never, 1_000);
      schedule.waitBegins();
      await clock.advance(20);
      expect(alive.open).toBe(1);
      schedule.waitEnds();
      expect(alive.open).toBe(0);
    });

    it('no longer than until a shutdown at which nobody waits', () => {
      const { schedule, alive, never } = setUp();
      schedule.set(never, 1_000);
      schedule.waitBegins();
      schedule.waitEnds();
      schedule.cancel(never);
      schedule.close();
      expect(alive).toEqual({ begun: 1, open: 0 });
    });
  });
});
