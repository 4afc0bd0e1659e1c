import { describe, expect, it } from '@jest/globals';
import { BackgroundRelease } from '../../../lib/core/lease/background-release.js';
import type { StoreLease } from '../../../lib/core/lease/store-lease.js';
import { Schedule } from '../../../lib/core/lease/schedule.js';
import { LockStoreError } from '../../../lib/core/port/errors.js';
import type { Doubt, ReleaseRequest } from '../../../lib/core/port/lock-store.js';
import { MemoryStore } from '../../../lib/stores/memory/memory-store.js';
import { FakeClock } from '../../support/fake-clock.js';
import { StoreAround } from '../../support/store-around.js';

/** A store that writes down what it is asked to release, and fails as often as it is told to. */
class Releases extends StoreAround {
  readonly asked: { at: number; request: ReleaseRequest }[] = [];
  failures = 0;
  forgets: string | undefined;
  memory: string | undefined;
  doubt: (doubt: Doubt) => void = () => {};

  constructor(private readonly clock: FakeClock) {
    super(new MemoryStore(clock));
  }

  override onDoubt(listener: (doubt: Doubt) => void): void {
    this.doubt = listener;
  }

  override memoryOf(): string | undefined {
    return this.memory;
  }

  override mayHaveForgotten({ memory }: { readonly memory: string | undefined }): boolean {
    return memory === this.forgets;
  }

  override async release(request: ReleaseRequest): Promise<'released' | 'lost'> {
    this.asked.push({ at: this.clock.now(), request });
    if (this.failures > 0) {
      this.failures -= 1;
      throw new LockStoreError('no answer');
    }
    return 'released';
  }

  get times(): number[] {
    return this.asked.map(({ at }) => at);
  }
}

function setUp(): { clock: FakeClock; store: Releases; background: BackgroundRelease } {
  const clock = new FakeClock({ now: 0 });
  const store = new Releases(clock);
  return { clock, store, background: new BackgroundRelease(store, clock, new Schedule(clock)) };
}

const lease = (facts: Partial<StoreLease> = {}): StoreLease =>
  ({ key: 'k', id: 'p.1', abandoned: true, lateUntil: -Infinity, storeLengthMs: 1_000, memory: 'M1', ...facts }) as StoreLease;

describe('A release in the background', () => {
  it('is sent once when it is answered, for the id and as it was asked for', async () => {
    const { clock, store, background } = setUp();
    background.release(lease(), 1_000);
    await clock.advance(5_000);
    expect(store.asked).toEqual([{ at: 0, request: { key: 'k', id: 'p.1', abandoned: true } }]);
  });

  it('C3: is repeated less often beside thousands, as after an outage, so that they do not keep the process busy', async () => {
    const { clock, store, background } = setUp();
    store.failures = Infinity;
    for (let n = 1; n <= 2_000; n++) background.release(lease({ id: `p.${n}` }), 60_000);
    await clock.advance(10_000);
    expect(store.asked.length).toBeLessThan(20_000);
    store.failures = 0;
    await clock.advance(5_000);
    const before = store.asked.length;
    await clock.advance(60_000);
    expect(store.asked).toHaveLength(before);
    store.failures = Infinity;
    background.release(lease(), 60_000);
    await clock.advance(2_000);
    expect(store.asked.length).toBeGreaterThan(before + 9);
  });

  it('is repeated until it is answered, after pauses that double from 20 to 200 ms', async () => {
    const { clock, store, background } = setUp();
    store.failures = 6;
    background.release(lease(), 60_000);
    await clock.advance(60_000);
    const pauses = store.times.slice(1).map((at, n) => at - store.times[n]!);
    expect(pauses).toHaveLength(6);
    [20, 40, 80, 160, 200, 200].forEach((most, n) => {
      expect(pauses[n]).toBeLessThanOrEqual(most);
      expect(pauses[n]).toBeGreaterThanOrEqual(most / 2);
    });
  });

  it('is not sent again when no request could act behind it', async () => {
    const { clock, store, background } = setUp();
    await clock.advance(500);
    background.releaseLate(lease());
    background.releaseLate(lease({ lateUntil: 500 }));
    background.releaseLate(lease({ lateUntil: 400, askedAt: 400 }));
    await clock.advance(5_000);
    expect(store.asked).toEqual([]);
    // It may act in its last instant.
    background.release(lease({ lateUntil: clock.now() }), 1_000);
    await clock.advance(1_000);
    expect(store.asked.splice(0)).toHaveLength(2);
    // It acted before the answer came, and behind the release.
    background.releaseLate(lease({ lateUntil: 400, askedAt: 399 }));
    await clock.advance(5_000);
    expect(store.asked).toHaveLength(1);
    store.failures = Infinity;
    const lateUntil = clock.now() + 100;
    background.releaseLate(lease({ lateUntil }));
    await clock.runUntil(background.settled());
    expect(store.times.at(-1)).toBeLessThanOrEqual(lateUntil);
  });

  describe('that the store has answered is sent again when the store may have forgotten it', () => {
    const asked = (store: Releases): string[] => store.asked.splice(0).map(({ request: { key, id } }) => `${key} ${id}`);

    async function released(...leases: readonly StoreLease[]): Promise<ReturnType<typeof setUp>> {
      const stage = setUp();
      for (const each of leases) stage.background.released(each);
      await stage.clock.settle();
      stage.store.asked.splice(0);
      return stage;
    }

    it('where it says so, once, with what was said of its work', async () => {
      const { clock, store } = await released(lease(), lease({ id: 'p.2', memory: 'M2' }));
      store.forgets = 'M2';
      store.doubt('some');
      store.doubt('some');
      await clock.advance(500);
      expect(store.asked.splice(0).map(({ request }) => request)).toEqual([{ key: 'k', id: 'p.2', abandoned: true }]);
      // What was not in doubt then may be later.
      store.forgets = 'M1';
      store.doubt('some');
      await clock.settle();
      expect(asked(store)).toEqual(['k p.1']);
    });

    it('but not for the sake of a request that came late, whose id may be that of a ticket or of nobody by now', async () => {
      const stage = setUp();
      stage.background.releaseLate({ ...lease(), lateUntil: 50 });
      await stage.clock.advance(500);
      expect(asked(stage.store).length).toBeGreaterThan(0);
      stage.store.doubt('rolled back');
      await stage.clock.settle();
      expect(asked(stage.store)).toEqual([]);
    });

    it('also when it was released after an earlier doubt', async () => {
      const { clock, store, background } = await released(lease({ memory: undefined }), lease({ id: 'p.2', memory: 'M2' }));
      store.forgets = 'M2';
      store.doubt('some');
      for (const id of ['p.3', 'p.4']) background.released(lease({ id }));
      await clock.settle();
      store.asked.length = 0;
      store.doubt('rolled back');
      await clock.settle();
      expect(asked(store)).toEqual(['k p.1', 'k p.3', 'k p.4', 'k p.2']);
    });

    it('also when it was one of an unknown outcome, which may have been granted', async () => {
      const { clock, store, background } = setUp();
      background.release({ key: 'k', id: 'p.1' }, 1_000);
      await clock.settle();
      [store.forgets, store.memory] = [undefined, 'M2'];
      store.doubt('some');
      store.memory = 'M3'; // in doubt before this release is answered
      await clock.advance(500);
      expect(asked(store)).toEqual(['k p.1', 'k p.1', 'k p.1']);
    });

    it('once for each time that the store forgets', async () => {
      const { clock, store } = await released(lease());
      for (const [before, after] of [['M1', 'M2'], ['M2', 'M3']] as const) {
        [store.forgets, store.memory] = [before, after];
        for (let times = 0; times < 2; times += 1) store.doubt('some');
        await clock.settle();
        expect(asked(store)).toEqual(['k p.1']);
        store.asked.length = 0;
      }
    });

    it('for a minute while it fails, and again when the store forgets within another minute', async () => {
      const { clock, store, background } = await released(lease());
      store.failures = Infinity;
      store.doubt('rolled back');
      await clock.runUntil(background.settled());
      expect(store.times.at(-1)).toBeLessThanOrEqual(60_000);
      expect(store.times.at(-1)).toBeGreaterThan(59_000);
      store.failures = 0;
      store.asked.length = 0;
      store.doubt('rolled back');
      await clock.settle();
      expect(asked(store)).toEqual(['k p.1']);
      await clock.advance(60_000);
      store.doubt('rolled back');
      await clock.settle();
      expect(asked(store)).toEqual([]);
    });

    it('for as long as a lease of this process may last', async () => {
      const { clock, store } = setUp();
      const background = new BackgroundRelease(store, clock, new Schedule(clock), 300_000);
      background.released(lease());
      await clock.advance(299_000);
      store.doubt('rolled back');
      await clock.settle();
      expect(asked(store)).toEqual(['k p.1']);
    });

    it('of as many as the last 256, the later ones in the place of the earliest', async () => {
      const { clock, store } = await released(...Array.from({ length: 300 }, (_, n) => lease({ id: `p.${n}` })));
      store.doubt('rolled back');
      await clock.settle();
      expect(new Set(asked(store))).toEqual(new Set(Array.from({ length: 256 }, (_, n) => `k p.${n + 44}`)));
    });
  });
});
