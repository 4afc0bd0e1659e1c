/** How the callers of several processes take turns on the permits of one lock: who comes when, with which fences, at how many commands. */
import { describe, expect, it } from '@jest/globals';
import { delay } from '../../../lib/core/port/clock.js';
import type { Lease } from '../../../lib/core/port/lease.js';
import type { LockService } from '../../../lib/lock.service.js';
import { alone, Fleet, gate } from '../../support/locks.js';

/** Callers that take turns on the permits of one lock until there were enough; each turn checks who is inside, and the fences. */
class Turns {
  readonly servedBy = new Map<string, number>();
  served = 0;
  most = 0;
  private inside = 0;
  /** The highest fence of a turn that has ended. */
  private endedFence = 0;
  private readonly fences = new Set<number>();

  constructor(
    private readonly fleet: Fleet,
    private readonly permits: number,
    private readonly enough: number,
    private readonly holdMs: number | undefined = undefined,
  ) {}

  async take(name: string, locks: LockService): Promise<void> {
    while (this.served < this.enough) {
      await locks.withLock('hot', { permits: this.permits, waitMs: Infinity }, (lease) => this.turn(name, lease));
    }
  }

  get counts(): number[] {
    return [...this.servedBy.values()];
  }

  private async turn(name: string, { fence }: Lease): Promise<void> {
    if (this.served >= this.enough) return;
    this.served += 1;
    this.servedBy.set(name, (this.servedBy.get(name) ?? 0) + 1);
    this.most = Math.max(this.most, (this.inside += 1));
    if (this.inside > this.permits || this.fences.has(fence) || fence <= this.endedFence) {
      throw new Error(`turn ${this.served}: ${this.inside} inside, fence ${fence}${this.fences.has(fence) ? ' again' : ''}, and ${this.endedFence} has ended`);
    }
    this.fences.add(fence);
    const { clock } = this.fleet;
    await (this.holdMs === undefined ? new Promise<void>((resolve) => clock.nextTurn(resolve)) : delay(clock, (this.holdMs * (1 + ((this.served * 7) % 5))) / 2));
    this.endedFence = Math.max(this.endedFence, fence);
    this.inside -= 1;
  }
}

const many = <T>(count: number, make: (index: number) => T): T[] => Array.from({ length: count }, (_, index) => make(index));

describe('The callers of a process that take turns on permits', () => {
  it('run as many at a time as there are permits, each in its turn, with one command a turn', async () => {
    const { fleet, locks, wire } = alone();
    const turns = new Turns(fleet, 4, 2_000);
    await fleet.clock.runUntil(Promise.all(many(16, (caller) => turns.take(`${caller}`, locks))));
    expect(turns.most).toBe(4);
    expect(Math.max(...turns.counts) - Math.min(...turns.counts)).toBeLessThanOrEqual(4);
    expect(wire.commands / 2_000).toBeLessThanOrEqual(1.1);
    expect(fleet.store.size).toBe(0);
  });

  it.each([
    { permits: 4, handOn: 16, holdMs: undefined },
    { permits: 3, handOn: 16, holdMs: 1 },
    { permits: 4, handOn: 1, holdMs: 5 },
  ])('share the permits fairly with three other processes, at one command a hold, with fences that rise (handOn $handOn, $permits permits, $holdMs ms)', async ({ permits, handOn, holdMs }) => {
    const fleet = new Fleet();
    const processes = many(4, () => fleet.process({ handOn }));
    const turns = new Turns(fleet, permits, 2_000, holdMs);
    await fleet.clock.runUntil(Promise.all(processes.flatMap(({ locks }, process) => many(16, () => turns.take(`${process}`, locks)))));
    expect(turns.most).toBe(permits);
    expect(Math.max(...turns.counts) / Math.min(...turns.counts)).toBeLessThanOrEqual(1.2);
    const commands = processes.reduce((sum, { wire }) => sum + wire.sent.acquire + wire.sent.release, 0);
    expect(commands / 2_000).toBeLessThanOrEqual(1.1);
    expect(fleet.store.size).toBe(0);
  });

  it('have fences above that of another process which was granted one of their permits meanwhile', async () => {
    const fleet = new Fleet();
    const [here, there] = [fleet.process().locks, fleet.process().locks];
    const granted: { readonly fence: number; readonly isOther: boolean }[] = [];
    const early = gate();
    const first = here.withLock('k', { permits: 2 }, () => early.promise);
    await fleet.clock.advance(40);
    // The second permit brings fences for many turns, because nobody else waits.
    const callers = many(12, () => here.withLock('k', { permits: 2 }, async ({ fence }) => {
      granted.push({ fence, isOther: false });
      await delay(fleet.clock, 3);
    }));
    await fleet.clock.advance(4);
    const other = there.withLock('k', { permits: 2 }, async ({ fence }) => {
      granted.push({ fence, isOther: true });
      await delay(fleet.clock, 100);
    });
    await fleet.clock.advance(11);
    // The first permit may not be handed on any more, and the second one may.
    early.open();
    await fleet.clock.runUntil(Promise.all([first, ...callers, other]));
    const at = granted.findIndex(({ isOther }) => isOther);
    expect(at).toBeGreaterThan(0);
    expect(at).toBeLessThan(granted.length - 1);
    for (const { fence } of granted.slice(at + 1)) expect(fence).toBeGreaterThan(granted[at]!.fence);
  });

  it('have fences above that of a process which was granted the permit that an operator took from this one', async () => {
    const fleet = new Fleet();
    const [here, there] = [fleet.process().locks, fleet.process().locks];
    const taken = here.acquire('k', { permits: 2 });
    const work = gate();
    const calls = [() => work.promise, async ({ fence }: Lease) => fence].map((fn) => here.withLock<number | void>('k', { permits: 2 }, fn));
    const other = there.acquire('k', { permits: 2 });
    await there.forceRelease('k', { fence: (await taken).fence });
    const { fence } = await fleet.clock.runUntil(other);
    work.open();
    expect((await fleet.clock.runUntil(Promise.all(calls)))[1]).toBeGreaterThan(fence);
  });

  it('have a permit handed on to them by the store, sixteen in a row, before another process has its turn', async () => {
    const fleet = new Fleet();
    const [here, there] = [fleet.process(), fleet.process()];
    const held = await there.locks.acquire('k', { permits: 2 });
    const order: string[] = [];
    const begun = gate();
    const hold = (): Promise<void> => here.locks.withLock('k', { permits: 2 }, () => {
      order.push('here');
      return begun.promise;
    });
    const first = hold();
    await fleet.clock.settle();
    const waits = there.locks.withLock('k', { permits: 2 }, async () => void order.push('there'));
    await fleet.clock.settle();
    const others = many(19, hold);
    await fleet.clock.settle();
    const before = here.wire.commands;
    begun.open();
    await fleet.clock.runUntil(Promise.all([first, ...others, waits]));
    expect(order.indexOf('there')).toBe(16);
    // Each command gives a permit back and asks for the next caller. The last one only gives back, and one request of the other lane is withdrawn.
    expect(here.wire.commands - before).toBeLessThanOrEqual(20 + 2);
    await fleet.clock.runUntil(held.release());
    expect(fleet.store.size).toBe(0);
  });

  it('give a permit to whoever has waited longest, in whichever process, with one command that asks for the next call here, where nothing is handed on', async () => {
    const fleet = new Fleet();
    const [here, there] = [fleet.process({ handOn: 1 }), fleet.process()];
    const order: string[] = [];
    const first = await here.locks.acquire('k', { permits: 1 });
    const call = ({ locks }: typeof here, name: string): Promise<void> => locks.withLock('k', { permits: 1 }, async () => void order.push(name));
    const calls = [call(here, 'here 1'), call(here, 'here 2')];
    await fleet.clock.settle();
    calls.push(call(there, 'there'));
    await fleet.clock.settle();
    const before = here.wire.commands;
    await first.release();
    await fleet.clock.runUntil(Promise.all(calls));
    expect(order).toEqual(['there', 'here 1', 'here 2']);
    expect(here.wire.commands - before).toBe(3);
    expect(fleet.store.size).toBe(0);
  });

  it('have a fence above that of a process which was granted the permit of a lease that ended while this one was blocked', async () => {
    const fleet = new Fleet();
    const [here, there] = [fleet.process().locks, fleet.process().locks];
    const options = { permits: 2, leaseMs: 3_000 };
    const [held, work] = [await here.acquire('k', { ...options, maxHoldMs: 4_000 }), gate()];
    await fleet.clock.advance(3_600);
    const calls = [async () => 0, () => work.promise, async ({ fence }: Lease) => fence].map((fn) => here.withLock<number | void>('k', options, fn));
    await fleet.clock.settle();
    fleet.clock.block(450);
    const granted = there.acquire('k', options);
    work.open();
    const fences = await fleet.clock.runUntil(Promise.all(calls));
    const other = await granted;
    expect(fences[2]).toBeGreaterThan(other.fence);
    await fleet.clock.advance(1);
    expect(await other.release()).toBe('released');
    expect(held.signal.aborted).toBe(true);
  });
});
