/** What the watchdog does with all leases at once: when the store may have forgotten them, when the machine slept, and when a clock jumped. */
import { describe, expect, it, jest } from '@jest/globals';
import type { StoreLease } from '../../../lib/core/lease/store-lease.js';
import { Watchdog } from '../../../lib/core/lease/watchdog.js';
import { LockStoreError } from '../../../lib/core/port/errors.js';
import type { AcquireOutcome, AcquireRequest, Doubt, RenewOutcome, RenewRequest } from '../../../lib/core/port/lock-store.js';
import { readTicket, ticketIdOf } from '../../../lib/core/port/ticket.js';
import type { LockService } from '../../../lib/lock.service.js';
import { MemoryStore } from '../../../lib/stores/memory/memory-store.js';
import { FakeClock } from '../../support/fake-clock.js';
import { leaseWith, seen } from '../../support/leases.js';
import { alone, Fleet, gate, type Wire } from '../../support/locks.js';
import { StoreAround } from '../../support/store-around.js';

class ForgetfulStore extends StoreAround {
  doubt: (doubt: Doubt) => void = () => {};
  /** The ids that were asked for in one turn. */
  readonly batches: string[][] = [];
  private batch: string[] | undefined;

  override onDoubt(listener: (doubt: Doubt) => void): void {
    this.doubt = listener;
  }

  override async renew({ id }: RenewRequest): Promise<never> {
    if (this.batch === undefined) {
      this.batches.push((this.batch = []));
      process.nextTick(() => (this.batch = undefined));
    }
    this.batch.push(id);
    return new Promise(() => {});
  }
}

/** A watchdog with so many leases, in so many groups, and nothing else of the library. */
function watchdogOf(count: number, groups?: number) {
  const clock = new FakeClock({ now: 1_000 });
  const store = new ForgetfulStore(new MemoryStore(clock), { groupOf: groups === undefined ? undefined : (key) => Number(key) % groups });
  const watchdog = new Watchdog(store, clock, () => undefined);
  const leases = Array.from({ length: count }, (_, n): StoreLease => Object.assign(leaseWith({}, {}, { ...seen(), guard: watchdog }), { id: String(n), key: String(n) }));
  for (const lease of leases) watchdog.watch(lease, clock.now());
  return { clock, store, watchdog, leases };
}

describe('A store that may have forgotten what it granted', () => {
  it('is asked at most for a thousand leases in one turn of the event loop, and for every one in the end', async () => {
    const { clock, store, leases } = watchdogOf(9_500);
    const looked: number[] = [];
    const nextTurn = clock.nextTurn.bind(clock);
    clock.nextTurn = (callback) => {
      looked.push(leases.filter(({ isRenewing }) => isRenewing).length);
      nextTurn(callback);
    };
    store.doubt('all');
    await clock.settle();
    looked.push(leases.filter(({ isRenewing }) => isRenewing).length);
    const steps = [...new Set(looked)].map((count, n, all) => count - (all[n - 1] ?? 0));
    expect(Math.max(...steps)).toBeLessThanOrEqual(1_000);
    expect(looked.at(-1)).toBe(9_500);
    expect(new Set(store.batches.flat()).size).toBe(9_500);
  });

  it('hears that all is done when it has answered the renewal of every lease, also of those that were looked at in a later turn', async () => {
    const { clock, store } = watchdogOf(1_001);
    const [early, last] = [gate<RenewOutcome>(), gate<RenewOutcome>()];
    let [asked, isDone] = [0, false];
    Object.assign(store, { renew: () => ((asked += 1) > 1_000 ? last : early).promise });
    void Promise.resolve(store.doubt('all') as unknown).then(() => (isDone = true));
    early.open({ kind: 'lost' });
    await clock.settle();
    expect([asked, isDone]).toEqual([1_001, false]);
    last.open({ kind: 'lost' });
    await clock.settle();
    expect(isDone).toBe(true);
  });

  it('is asked for no lease whose trust has ended, though nobody was told of that by then', async () => {
    const { clock, store } = watchdogOf(1);
    clock.block(8_000);
    store.doubt('all');
    await clock.settle();
    expect(store.batches).toEqual([]);
  });

  it('is asked again for a lease of fixed length, as for every other, until it has answered', async () => {
    const { fleet, locks, wire } = alone();
    const fixed = await locks.acquire('fixed', { leaseMs: 20_000, renew: false });
    wire.cut = true;
    wire.reconnect('all');
    await fleet.clock.advance(300);
    wire.cut = false;
    await fleet.store.forceRelease('fixed');
    await fleet.clock.advance(1_000);
    expect(fixed.signal.aborted).toBe(true);
    const kept = await locks.acquire('kept', { leaseMs: 20_000, renew: false });
    wire.cut = true;
    wire.reconnect('all');
    await fleet.clock.advance(300);
    wire.cut = false;
    await fleet.clock.advance(15_000);
    expect(wire.sent.renew).toBe(2);
    expect(kept.remainingMs).toBeLessThan(5_000);
  });

  it('is asked for those of one slot group together', async () => {
    const { clock, store } = watchdogOf(8_000, 8);
    store.doubt('all');
    await clock.settle();
    expect(store.batches.map((batch) => new Set(batch.map((id) => Number(id) % 8)).size)).toEqual([1, 1, 1, 1, 1, 1, 1, 1]);
  });

  it('is asked, where it can say so, for what it says that it may have forgotten, and for nothing else', async () => {
    const { clock, store } = watchdogOf(3);
    store.mayHaveForgotten = ({ id }) => id === '1';
    store.doubt('some');
    await clock.settle();
    expect(store.batches).toEqual([['1']]);
    const other = watchdogOf(3);
    Object.assign(other.store, { mayHaveForgotten: undefined });
    other.store.doubt('some');
    await other.clock.settle();
    expect(other.store.batches).toEqual([]);
  });

  it('is believed in what it answers by then when it was only reached anew', async () => {
    const { fleet, locks, wire } = alone();
    wire.slowMs = 50;
    const asked = locks.acquire('k');
    await fleet.clock.advance(10);
    wire.reconnect('all');
    await fleet.clock.runUntil(asked);
    wire.reconnect('all');
    await fleet.clock.advance(10);
    wire.reconnect('all');
    await fleet.clock.advance(1_000);
    expect([wire.sent.acquire, wire.sent.renew]).toEqual([1, 1]);
  });

  it('is asked once more only after the answer to the renewal that is on its way', async () => {
    const { fleet, locks, wire } = alone();
    await locks.acquire('k');
    wire.mayHaveForgotten = () => wire.sent.renew < 2;
    wire.slowMs = 50;
    wire.reconnect('all');
    await fleet.clock.advance(10);
    wire.reconnect('all');
    await fleet.clock.advance(30);
    expect(wire.sent.renew).toBe(1);
    await fleet.clock.advance(30);
    expect(wire.sent.renew).toBe(2);
  });
});

describe('The watchdog', () => {
  it('declares a lease lost that the store does not know any more, and releases it all the same: a renewal on its way may bring it back', async () => {
    const { fleet, locks, wire } = alone();
    const lease = await locks.acquire('k', { leaseMs: 3_000 });
    wire.renew = async () => ({ kind: 'lost' });
    await fleet.clock.advance(1_000);
    expect(lease.signal.reason).toHaveProperty('message', expect.stringContaining('the store no longer knows it'));
    expect([await lease.release(), wire.sent.release]).toEqual(['lost', 1]);
  });

  it('remembers until when a renewal without an answer may still bring the lease back: it is released once more then', async () => {
    const { fleet, locks, wire } = alone();
    const lease = await locks.acquire('k', { leaseMs: 30_000 });
    const renew = wire.renew.bind(wire);
    wire.renew = async () => ({ kind: 'unknown', cause: new LockStoreError('no answer'), lateUntil: fleet.clock.now() + 4_000 });
    wire.reconnect('all');
    await fleet.clock.advance(10);
    // A later one of which nothing can come late changes nothing.
    wire.renew = async () => ({ kind: 'unknown', cause: new LockStoreError('no answer') });
    wire.reconnect('all');
    await fleet.clock.advance(10);
    wire.renew = renew;
    expect(await lease.release()).toBe('released');
    await fleet.clock.advance(3_500);
    const before = wire.sent.release;
    await fleet.clock.advance(1_000);
    expect(wire.sent.release).toBeGreaterThan(before);
    const after = wire.sent.release;
    await fleet.clock.advance(5_000);
    expect(wire.sent.release).toBe(after);
  });

  it('renews all leases as soon as it sees that the wall clock jumped', async () => {
    const { fleet, locks, wire } = alone();
    const lease = await locks.acquire('k', { leaseMs: 30_000 });
    await fleet.clock.advance(1_000);
    fleet.clock.stepWall(-3_600_000);
    lease.assertHeld();
    await fleet.clock.advance(1);
    expect(wire.sent.renew).toBe(1);
  });

  it('renews no more leases before their time than fill a batch', async () => {
    let drawn = 0;
    const random = jest.spyOn(Math, 'random').mockImplementation(() => (drawn++ / 1_000) * 0.4);
    const { clock, store } = watchdogOf(1_000);
    random.mockRestore();
    await clock.advance((0.7 * 8_000) / 3 + 1);
    expect(store.batches.map((batch) => batch.length)).toEqual([250]);
    await clock.advance(400);
    expect(store.batches.map((batch) => batch.length)).toEqual([250, 250, 250, 250]);
  });

  it('spreads the first renewals of leases that were taken together over the last third of the time until then', async () => {
    const { clock, store } = watchdogOf(400);
    const times: number[] = [];
    store.renew = () => {
      times.push(clock.now() - 1_000);
      return new Promise(() => {});
    };
    await clock.advance(8_000 / 3);
    expect(times).toHaveLength(400);
    expect(times[0]).toBeGreaterThanOrEqual((0.7 * 8_000) / 3);
    expect(times[0]).toBeLessThan((0.75 * 8_000) / 3);
    expect(times.at(-1)! - times[0]!).toBeGreaterThan(300);
  });
});

/**
 * A store whose data are replaced by an earlier state while it runs, as when a server loads a snapshot: its memory has the same name as
 * before. What it answered before that and what comes later says nothing of what it has.
 */
interface Stage {
  readonly fleet: Fleet;
  readonly locks: LockService;
  readonly wire: Wire;
  /** The memories under which renewals were asked for. */
  readonly renewedUnder: (string | undefined)[];
}

/** A process with a store that names its memory. */
function stage(): Stage {
  const { fleet, locks, wire } = alone({ leaseMs: 6_000 });
  const renewedUnder: (string | undefined)[] = [];
  const { acquire, renew } = { acquire: wire.acquire.bind(wire), renew: wire.renew.bind(wire) };
  wire.acquire = async (request: AcquireRequest): Promise<AcquireOutcome> => {
    const outcome = await acquire(request);
    return outcome.kind === 'granted' ? { ...outcome, grant: { ...outcome.grant, memory: 'M1' } } : outcome;
  };
  wire.renew = async (request: RenewRequest): Promise<RenewOutcome> => {
    renewedUnder.push(request.held?.memory);
    const outcome = await renew(request);
    return outcome.kind === 'renewed' ? { ...outcome, memory: 'M1' } : outcome;
  };
  wire.mayHaveForgotten = ({ memory }) => memory !== 'M1';
  return { fleet, locks, wire, renewedUnder };
}

/** The next answer to such a request comes when the test lets it come. */
function holdBack(wire: Wire, verb: 'acquire' | 'renew' | 'adopt'): () => void {
  const original = wire[verb].bind(wire) as (request: never) => Promise<unknown>;
  const { promise, open } = gate();
  Object.assign(wire, {
    [verb]: async (request: never) => {
      Object.assign(wire, { [verb]: original });
      const answer = await original(request);
      await promise;
      return answer;
    },
  });
  return open;
}

describe('When the data of the store were replaced by an earlier state, a lease is brought back at once', () => {
  it('whose renewal had been answered before, though that answer comes later', async () => {
    const { fleet, locks, wire, renewedUnder } = stage();
    const lease = await locks.acquire('k');
    const answer = holdBack(wire, 'renew');
    await fleet.clock.advance(2_100);
    wire.reconnect('rolled back');
    await fleet.clock.advance(10);
    answer();
    await fleet.clock.advance(10);
    expect(renewedUnder).toEqual(['M1', '-']);
    lease.assertHeld();
  });

  it('that its holder renews by hand at that moment', async () => {
    const { fleet, locks, wire, renewedUnder } = stage();
    const lease = await locks.acquire('k');
    const [answer, renewal] = [holdBack(wire, 'renew'), lease.renew()];
    await fleet.clock.advance(5);
    wire.reconnect('rolled back');
    await fleet.clock.advance(10);
    answer();
    await renewal;
    await fleet.clock.advance(10);
    expect(renewedUnder).toEqual(['M1', '-', '-']);
  });

  it('that was made of a ticket, and with that ticket, so that the ticket is not adopted once more', async () => {
    const { fleet, locks, wire } = stage();
    const ticket = await (await fleet.process().locks.acquire('k')).handOff();
    await fleet.clock.runUntil(locks.adopt(ticket));
    await locks.acquire('other');
    const tickets: [string, string | undefined][] = [];
    const renew = wire.renew.bind(wire);
    wire.renew = (request) => {
      tickets.push([request.key, request.held?.ticketId]);
      return renew(request);
    };
    wire.reconnect('rolled back');
    await fleet.clock.advance(10);
    expect(tickets.sort()).toEqual([['k', ticketIdOf(readTicket(ticket))], ['other', undefined]]);
  });

  it('once, and renewed as always then', async () => {
    const { fleet, locks, wire, renewedUnder } = stage();
    await locks.acquire('k');
    wire.reconnect('rolled back');
    await fleet.clock.advance(10);
    expect(renewedUnder).toEqual(['-']);
    await fleet.clock.advance(2_100);
    expect(renewedUnder).toEqual(['-', 'M1']);
  });
});

describe('When the data of the store were replaced by an earlier state, the store is asked once more', () => {
  it('by a call whose grant was on its way', async () => {
    const { fleet, locks, wire } = stage();
    const answer = holdBack(wire, 'acquire');
    const call = locks.withLock('k', async () => (await locks.inspect('k')).holders.length);
    await fleet.clock.advance(5);
    expect(await fleet.store.forceRelease('k')).toBe(true);
    wire.reconnect('rolled back');
    answer();
    expect(await fleet.clock.runUntil(call)).toBe(1);
    expect(wire.sent.acquire).toBe(2);
  });

  it('by an adoption whose answer was on its way', async () => {
    const { fleet, locks, wire } = stage();
    const ticket = await (await fleet.process().locks.acquire('k')).handOff();
    const [answer, adoption] = [holdBack(wire, 'adopt'), locks.adopt(ticket)];
    await fleet.clock.advance(5);
    wire.reconnect('rolled back');
    answer();
    (await fleet.clock.runUntil(adoption)).assertHeld();
    expect(wire.sent.adopt).toBe(2);
  });

  it('by a waiter whose grant is being made longer', async () => {
    const { fleet, locks, wire } = stage();
    const first = await fleet.process().locks.acquire('k');
    const waiter = locks.acquire('k', { renew: false });
    await fleet.clock.advance(5);
    const answer = holdBack(wire, 'renew');
    void first.release();
    await fleet.clock.advance(5);
    const asked = wire.sent.acquire;
    wire.reconnect('rolled back');
    answer();
    (await fleet.clock.runUntil(waiter)).assertHeld();
    expect(wire.sent.acquire).toBe(asked + 1);
  });
});
