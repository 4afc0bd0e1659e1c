import { describe, expect, it } from '@jest/globals';
import { Alarm, Schedule } from '../../../lib/core/lease/schedule.js';
import { FakeClock } from '../../support/fake-clock.js';

describe('The schedule', () => {
  it('keeps every appointment in order of time with one timer, however they are made, moved and cancelled', async () => {
    const clock = new FakeClock({ now: 0 });
    const schedule = new Schedule(clock);
    const rang: number[] = [];
    const alarms = Array.from({ length: 500 }, () => new Alarm((now) => rang.push(now)));
    const wanted = new Map<Alarm, number>();
    // A fixed pseudo-random sequence: the same every time.
    let seed = 42;
    const random = (below: number): number => (seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31) % below;
    for (let step = 0; step < 5_000; step++) {
      const alarm = alarms[random(alarms.length)]!;
      if (random(3) === 0) {
        schedule.cancel(alarm);
        wanted.delete(alarm);
      } else {
        const at = 1 + random(10_000);
        schedule.set(alarm, at);
        wanted.set(alarm, at);
      }
      expect(schedule.size).toBe(wanted.size);
      expect(clock.pendingTimers).toBeLessThanOrEqual(1);
      if (wanted.size > 0) expect(clock.pendingTimers).toBe(1);
    }
    await clock.advance(10_001);
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
});
