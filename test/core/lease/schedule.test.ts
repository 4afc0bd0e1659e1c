import { describe, expect, it } from '@jest/globals';
import { Alarm, type Appointment, Schedule } from '../../../lib/core/lease/schedule.js';
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

  it('has them in the order of their times, also when they were made in another', () => {
    const schedule = new Schedule(new FakeClock({ now: 0 }));
    const times = Array.from({ length: 99 }, (_, n) => (n * 37) % 99);
    for (const at of [Infinity, ...times]) schedule.set(new Alarm(() => undefined), at);
    for (let at = 0; at < times.length; at++) {
      expect(schedule.firstAt).toBe(at);
      schedule.cancel(schedule.first!);
    }
    expect(schedule.firstAt).toBe(Infinity);
    expect(schedule.size).toBe(0);
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
    schedule.close();
    await clock.advance(30);
    expect(seen.slice(0, 2)).toEqual(['looked at 10', 'called at 15']);
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

  describe('keeps the process alive for calls that wait', () => {
    function setUp() {
      const clock = new FakeClock({ now: 0 });
      const alive = { begun: 0, open: 0 };
      clock.keepAlive = () => {
        alive.begun += 1;
        alive.open += 1;
        return () => void (alive.open -= 1);
      };
      return { clock, alive, schedule: new Schedule(clock) };
    }

    it('once for all of them, until the last has stopped, also for one that is never due', async () => {
      const { clock, schedule, alive } = setUp();
      for (const round of [1, 2]) {
        const [short, endless, other] = [new Wait(), new Wait(), new Alarm(() => undefined)];
        schedule.set(short, clock.now() + 50);
        for (const at of [clock.now() + 500, Infinity]) schedule.set(endless, at);
        schedule.set(other, 70);
        schedule.cancel(other);
        await clock.advance(60);
        schedule.set(endless, Infinity);
        expect(alive).toEqual({ begun: round, open: 1 });
        schedule.cancel(endless);
        expect(alive).toEqual({ begun: round, open: 0 });
      }
    });

    it('once for many that follow each other beside a lease, and for 20 ms after the last', async () => {
      const { clock, schedule, alive } = setUp();
      schedule.set(new Alarm(() => undefined), 10_000);
      await clock.advance(30);
      for (let n = 0; n < 100; n++) {
        const wait = new Wait();
        schedule.set(wait, clock.now() + 1_000);
        schedule.cancel(wait);
      }
      await clock.advance(19);
      expect(alive).toEqual({ begun: 1, open: 1 });
      await clock.advance(1);
      expect([alive.open, clock.pendingTimers]).toEqual([0, 1]);
    });
  });
});

class Wait implements Appointment {
  index = -1;
  readonly keepsAlive = true;

  due(): void {}
}
