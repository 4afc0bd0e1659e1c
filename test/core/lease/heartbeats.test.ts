import { describe, expect, it } from '@jest/globals';
import { Heartbeats, type Pulse } from '../../../lib/core/lease/heartbeats.js';
import { Schedule } from '../../../lib/core/lease/schedule.js';
import type { HeartbeatOutcome, HolderRef } from '../../../lib/core/port/lock-store.js';
import { MemoryStore } from '../../../lib/stores/memory/memory-store.js';
import { FakeClock } from '../../support/fake-clock.js';
import { StoreAround } from '../../support/store-around.js';

/** A store that keeps every place, and the batches in which it was told of the waiters. */
class Places extends StoreAround {
  readonly batches: { at: number; ids: string[] }[] = [];
  /** Answers come when it opens. */
  answers = Promise.resolve();

  constructor(private readonly clock: FakeClock) {
    super(new MemoryStore({ clock, maxLeaseMs: 60_000 }));
  }

  override async heartbeat(waiters: readonly HolderRef[]): Promise<readonly HeartbeatOutcome[]> {
    this.batches.push({ at: this.clock.now(), ids: waiters.map(({ id }) => id) });
    await this.answers;
    return waiters.map(() => ({ kind: 'waiting' }));
  }
}

function setUp(): { clock: FakeClock; places: Places; beats: Heartbeats; heard: string[]; start: (id: string, pulse?: Pulse) => Pulse } {
  const clock = new FakeClock({ now: 0 });
  const places = new Places(clock);
  const beats = new Heartbeats(places, clock, new Schedule(clock));
  const heard: string[] = [];
  const start = (id: string, pulse?: Pulse): Pulse => beats.start({ key: 'k', id, heartbeatAnswered: ({ kind }) => void heard.push(`${id} ${kind}`) }, pulse);
  return { clock, places, beats, heard, start };
}

describe('The heartbeats of waiters', () => {
  it('are sent every 700 ms until they are stopped', async () => {
    const { clock, places, beats, heard, start } = setUp();
    const pulse = start('a');
    await clock.advance(2_000);
    beats.stop(pulse);
    await clock.advance(2_000);
    expect(places.batches).toEqual([{ at: 700, ids: ['a'] }, { at: 1_400, ids: ['a'] }]);
    expect(heard).toEqual(['a waiting', 'a waiting']);
    expect(clock.pendingTimers).toBe(0);
  });

  it('leave in batches of 250 at most, one in each turn of the event loop', async () => {
    const { clock, places, start } = setUp();
    for (let n = 0; n < 501; n++) start(`${n}`);
    const turns: number[] = [];
    const nextTurn = clock.nextTurn.bind(clock);
    clock.nextTurn = (callback) => (turns.push(places.batches.length), nextTurn(callback));
    await clock.advance(700);
    expect(places.batches.map(({ ids }) => ids.length)).toEqual([250, 250, 1]);
    expect(new Set(places.batches.flatMap(({ ids }) => ids)).size).toBe(501);
    expect(turns).toEqual([0, 1, 2]);
  });
});
