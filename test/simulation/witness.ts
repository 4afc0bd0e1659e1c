/**
 * Sees all holds of all simulated processes at once, and says when two trust what excludes each other, when a fence does
 * not rise, and when the end of a lease is not told. It asks what the application would ask: `remainingMs` and `assertHeld`.
 */
import type { Lease } from '../../lib/core/port/lease.js';
import type { LockMode } from '../../lib/core/port/lock-options.js';
import type { SimProcess } from './sim-process.js';

export interface WitnessedHold {
  readonly process: SimProcess;
  readonly lease: Lease;
  readonly keys: readonly string[];
  /** What was asked for; a lease may be stronger. */
  readonly mode: LockMode;
  readonly owner: string | undefined;
  /** How many permits the call named. */
  readonly permits: number | undefined;
  /** The hold that this one runs inside of. */
  readonly inside: WitnessedHold | undefined;
  readonly since: number;
}

/** What the world's faults excuse at an instant. */
export interface Excuses {
  /** Two holders may trust one lock: the store lost its memory, without a recovery, or its clock was set, a lease ago or less. */
  overlap(at: number): boolean;
  /** What was granted then was granted by a server that had just gone back to older data: a permit too many is out until one of them ends. */
  blind(at: number): boolean;
  /** Fences need not rise. */
  fences(at: number): boolean;
  /** An operator took a vote for the hold with this fence away, and no renewal has found a quorum for it since. */
  forced(key: string, fence: number): boolean;
  /** Whether the store has the lease with this fence in its records, for so long at least. */
  knows(key: string, fence: number, forMs: number): boolean;
  /** Fences are only compared within a process: the data is gone and the clock was set back. */
  readonly fencesByProcess: boolean;
}

interface Highest {
  any: number;
  write: number;
}

/** Clocks of servers differ by less than this. */
const CLOCKS_APART_MS = 10;
/** A signal aborts when the event loop next turns; timers are a little late. */
const SIGNAL_LATE_MS = 3;

/** A lease in the records of a server that does not decide about its lock. */
interface Stray {
  readonly key: string;
  readonly until: number;
  /** Whether the lease has this fence. */
  readonly isIt: (fence: number) => boolean;
}

export class Witness {
  readonly violations: string[] = [];
  private readonly holds = new Set<WitnessedHold>();
  /** How many holds have begun on each key, by mode and owner. */
  private readonly counts = new Map<string, { readonly mode: LockMode; readonly owner: string | undefined; count: number }[]>();
  /** The highest fences of holds that began before, by key (and process). */
  private readonly fences = new Map<string, Highest>();
  /** The highest fence that an operator took a lock away from, by key. */
  private readonly forced = new Map<string, number>();
  /** Holds that the store may have forgotten, and that have not been brought back: until they are, nobody is kept from their lock. */
  private readonly doubted = new Set<WitnessedHold>();
  /** Until when a server that does not decide about its lock keeps a hold. */
  private readonly strayUntil = new Map<WitnessedHold, number>();
  /** The leases that servers had which did not decide about their locks. */
  private readonly strays: Stray[] = [];
  private forgot = false;
  private permitsExcused = false;
  /** The holds of which a process was told by a refusal or a place in the queue, and until when they lasted then, by process and key. */
  private readonly told = new Map<string, ReadonlyMap<WitnessedHold, number>>();
  /** When the store forgot last, and the keys on which a hold has begun since. */
  private forgotAt = Infinity;
  private readonly begunSince = new Set<string>();
  begun = 0;
  /** The fences of holds with permits: they begin in any order, and the history is judged by that of their grants. */
  private readonly ofPermits = new Set<string>();

  constructor(private readonly now: () => number, private readonly excuses: Excuses) {}

  /** Somebody works under this lock. */
  uses(key: string): boolean {
    return [...this.holds].some(({ keys }) => keys.includes(key));
  }

  begin(hold: WitnessedHold): void {
    this.begun++;
    if (hold.lease.remainingMs <= 0) this.violations.push(`at ${this.now().toFixed(1)} work begins without trust: ${tell(hold)}`);
    // Its lease may be from before the loss.
    if (this.forgot && !this.isKnown(hold)) this.doubted.add(hold);
    for (const stray of this.strays) if (stray.until > this.now()) this.doubtStray(hold, stray);
    this.look(hold);
    for (const key of hold.keys) this.judgeWhoWasTold(hold, key);
    if (hold.inside === undefined) for (const key of hold.keys) this.compareFences(hold, key);
    if (hold.inside === undefined) for (const key of hold.keys) this.countBegun(hold, key);
    this.holds.add(hold);
  }

  /** How many holds have begun on this key so far that exclude one in this mode, of this owner. */
  begunOn(key: string, mode: LockMode, owner: string | undefined): number {
    const other = (this.counts.get(key) ?? []).filter((one) => (mode === 'write' || one.mode === 'write') && (owner === undefined || one.owner !== owner));
    return other.reduce((sum, { count }) => sum + count, 0);
  }

  /** The store lost its memory, and recovers. */
  doubtAll(): void {
    this.forgot = true;
    this.forgotAt = this.now();
    this.begunSince.clear();
    for (const hold of this.holds) this.doubted.add(hold);
  }

  /** A process that asked for a lock at `sentAt` was told that it is held. */
  wasTold(process: SimProcess, key: string, sentAt: number): void {
    const known = [...this.holds].filter((hold) => hold.keys.includes(key) && hold.since < sentAt && hold.inside === undefined && this.isKnown(hold));
    if (this.now() < this.forgotAt || sentAt > this.forgotAt) this.told.set(`${process.name} ${key}`, new Map(known.map((hold) => [hold, sentAt + hold.lease.remainingMs])));
  }

  /**
   * Whoever was told of a hold is not granted its lock before the end that was told, also when the store has forgotten it and its holder could
   * not say so in time: that excuse is one for new callers, and for those who come after one.
   */
  private judgeWhoWasTold(hold: WitnessedHold, key: string): void {
    if (hold.inside !== undefined || this.begunSince.has(key)) return;
    if (this.now() > this.forgotAt) this.begunSince.add(key);
    for (const [other, until] of this.told.get(`${hold.process.name} ${key}`) ?? []) {
      if (!this.doubted.has(other) || this.strayUntil.has(other) || this.excuses.overlap(this.now())) continue;
      if (other === hold || !excludes(hold, other) || !trusts(other) || this.now() > until || hold.permits !== undefined) continue;
      this.violations.push(`at ${this.now().toFixed(1)} '${key}' is granted to one who was told that it is held: ${tell(hold)} beside ${tell(other)}`);
    }
  }

  /** A script ran: whoever reached the store in time is found there. */
  lookForDoubted(): void {
    for (const hold of this.doubted) if (this.isKnown(hold)) this.doubted.delete(hold);
  }

  /** A server that does not decide about this lock has granted it, or renewed it, for so long. The hold may begin only after that. */
  stray(key: string, forMs: number, isIt: (fence: number) => boolean): void {
    const stray = { key, until: this.now() + forMs, isIt };
    this.strays.push(stray);
    for (const hold of this.holds) this.doubtStray(hold, stray);
  }

  private doubtStray(hold: WitnessedHold, { key, until, isIt }: Stray): void {
    if (!isIt(hold.lease.fences.get(key) ?? 0)) return;
    this.doubted.add(hold);
    this.strayUntil.set(hold, until);
    // Whoever has a permit of a former master brings it back beside those of the present one, and hands it on.
    if (hold.permits !== undefined) this.permitsExcused = true;
  }

  /**
   * A lease was brought back to the server that decides about this lock. One that it did not know, because a former master had granted
   * it, with a higher fence, takes the place of those that it had granted itself: their holders are told, but may go on until then.
   */
  broughtBack(key: string, stands: (fence: number) => boolean): void {
    const isOn = ({ lease }: WitnessedHold): boolean => stands(lease.fences.get(key) ?? 0);
    const holds = [...this.holds].filter(({ keys }) => keys.includes(key));
    if (!holds.some((hold) => this.doubted.has(hold) && isOn(hold))) return;
    for (const hold of holds) if (!isOn(hold)) this.doubted.add(hold);
  }

  end(hold: WitnessedHold): void {
    this.doubted.delete(hold);
    this.strayUntil.delete(hold);
    this.holds.delete(hold);
  }

  /** In the middle of a hold: looks around, and at what the lease says of itself. */
  step(hold: WitnessedHold): void {
    const { lease, process } = hold;
    const trusted = lease.remainingMs > 0;
    if (trusted) this.look(hold);
    let said = true;
    try {
      lease.assertHeld();
    } catch {
      said = false;
    }
    if (said !== trusted) this.violations.push(`assertHeld says ${said ? 'held' : 'lost'} with ${lease.remainingMs} ms left: ${tell(hold)}`);
    // After a sleep the signal follows with the next timer.
    if (trusted || !this.holds.has(hold) || process.hasSlept) return;
    const ranFor = this.now() - process.changedAt;
    process.clock.setTimer(() => {
      if (this.holds.has(hold) && !lease.signal.aborted && process.state === 'running' && ranFor >= 0) {
        this.violations.push(`the signal has not aborted ${SIGNAL_LATE_MS} ms after the loss: ${tell(hold)}`);
      }
    }, SIGNAL_LATE_MS);
  }

  /** An operator took the lock away from holders with fences up to this one: they are told, but may go on until then. */
  force(key: string, fence: number): void {
    this.forced.set(key, Math.max(fence, this.forced.get(key) ?? 0));
  }

  /** The processes that trust a lease of this lock with such a fence, and have run since then. */
  whoTrusts(key: string, since: number, isIt: (fence: number) => boolean): readonly SimProcess[] {
    const holds = [...this.holds].filter((hold) => trusts(hold) && isIt(hold.lease.fences.get(key) ?? 0));
    return [...new Set(holds.map(({ process }) => process))].filter(({ state, changedAt }) => state === 'running' && changedAt <= since);
  }

  /** A fence of somebody who works under this lock, for an operator who names one. */
  fenceOn(key: string): number | undefined {
    return [...this.holds].find(({ keys }) => keys.includes(key))?.lease.fences.get(key);
  }

  /** The holds of a process that is no more. */
  forget(process: SimProcess): void {
    for (const hold of this.holds) if (hold.process === process) this.end(hold);
  }

  private look(hold: WitnessedHold): void {
    if (hold.permits !== undefined && hold.inside === undefined) this.countPermits(hold, hold.permits);
    for (const other of this.holds) {
      if (other === hold || !excludes(hold, other) || !trusts(other)) continue;
      for (const key of hold.keys) {
        if (!other.keys.includes(key) || this.excuses.overlap(this.now())) continue;
        if (this.doubted.has(hold) || this.doubted.has(other)) continue;
        if (this.wasForced(hold, key) || this.wasForced(other, key)) continue;
        this.violations.push(`at ${this.now().toFixed(1)} two hold '${key}': ${tell(hold)} beside ${tell(other)}`);
      }
    }
  }

  private countBegun({ mode, owner }: WitnessedHold, key: string): void {
    const counts = this.counts.get(key) ?? [];
    this.counts.set(key, counts);
    const known = counts.find((one) => one.mode === mode && one.owner === owner);
    if (known) known.count += 1;
    else counts.push({ mode, owner, count: 1 });
  }

  /** How many hold the lock beside this one. */
  private countPermits(hold: WitnessedHold, permits: number): void {
    const [key] = hold.keys as [string];
    const certain = (one: WitnessedHold): boolean => one.inside === undefined && !this.doubted.has(one) && !this.wasForced(one, key) && !this.excuses.blind(one.since);
    if (!certain(hold) || this.permitsExcused || this.excuses.overlap(this.now())) return;
    const others = [...this.holds].filter((other) => other !== hold && other.keys.includes(key) && trusts(other) && certain(other));
    if (others.length < permits) return;
    this.violations.push(`at ${this.now().toFixed(1)} ${others.length + 1} hold '${key}' with ${permits} permits: ${[hold, ...others].map(tell).join('; ')}`);
  }

  /** Whether the store knows it for as long as its holder may trust it. */
  private isKnown(hold: WitnessedHold): boolean {
    const { remainingMs, fences } = hold.lease;
    const forMs = Math.max(remainingMs, (this.strayUntil.get(hold) ?? 0) - this.now() - CLOCKS_APART_MS);
    return [...fences].every(([key, fence]) => this.excuses.knows(key, fence, forMs));
  }

  private wasForced({ lease }: WitnessedHold, key: string): boolean {
    const fence = lease.fences.get(key) ?? 0;
    return fence <= (this.forced.get(key) ?? -1) || this.excuses.forced(key, fence);
  }

  private compareFences(hold: WitnessedHold, key: string): void {
    const fence = hold.lease.fences.get(key) ?? 0;
    // The counter that it comes from may be one that the store has forgotten. Of several locks, one may be of a former master long before the hold begins.
    if (this.doubted.has(hold) || this.strays.some((stray) => stray.key === key && stray.isIt(fence))) return;
    const name = this.excuses.fencesByProcess ? `${key} ${hold.process.name}` : key;
    const highest = this.fences.get(name) ?? { any: 0, write: 0 };
    this.fences.set(name, highest);
    if (hold.permits !== undefined) {
      const isTwice = this.ofPermits.has(`${name} ${fence}`) && !this.excuses.fences(this.now());
      if (isTwice) this.violations.push(`at ${this.now().toFixed(1)} fence ${fence} of '${key}' is there twice: ${tell(hold)}`);
      return void this.ofPermits.add(`${name} ${fence}`);
    }
    const before = hold.mode === 'write' ? highest.any : highest.write;
    // Who shares the hold of an owner shares its fence.
    const fits = hold.owner === undefined ? fence > before : fence >= before;
    if (!fits && !this.excuses.fences(this.now()) && !this.wasForced(hold, key)) {
      this.violations.push(`at ${this.now().toFixed(1)} fence ${fence} of '${key}' comes after ${before}: ${tell(hold)}`);
    }
    highest.any = Math.max(highest.any, fence);
    if (hold.mode === 'write' || hold.lease.mode === 'write') highest.write = Math.max(highest.write, fence);
  }
}

/** Whether its holder may do something under it now. A process whose machine sleeps does nothing, and looks at once when it wakes. */
function trusts({ lease, process }: WitnessedHold): boolean {
  return process.alive && !process.isAsleep && lease.remainingMs > 0;
}

function excludes(one: WitnessedHold, other: WitnessedHold): boolean {
  if (one.mode === 'read' && other.mode === 'read') return false;
  if (one.permits !== undefined && one.permits === other.permits) return false;
  if (one.owner !== undefined && one.owner === other.owner) return false;
  return !within(one, other) && !within(other, one);
}

function within(inner: WitnessedHold, outer: WitnessedHold): boolean {
  for (let hold = inner.inside; hold !== undefined; hold = hold.inside) if (hold === outer) return true;
  return false;
}

function tell({ process, mode, keys, lease, since, owner }: WitnessedHold): string {
  return `${process.name} ${mode} [${keys.join()}] since ${since.toFixed(1)} fences ${[...lease.fences.values()].join()} ${lease.remainingMs.toFixed(1)} ms left${owner ? ` owner ${owner}` : ''}`;
}
