/**
 * The tickets of a simulated world: holds that were handed off, for any process to adopt, in time or late, once or twice. It judges
 * what comes of each: one adoption, not after its time, with nobody in between.
 */
import type { Lease } from '../../lib/core/port/lease.js';
import type { LockMode } from '../../lib/core/port/lock-options.js';
import { isLockError } from '../../lib/core/port/errors.js';
import type { Random } from './random.js';
import type { WitnessedHold } from './witness.js';
import type { Member, World } from './world.js';

/** A ticket, and what is known of it. All instants are the world's. */
interface Given {
  readonly text: string;
  readonly keys: readonly string[];
  readonly mode: LockMode;
  readonly owner: string | undefined;
  readonly permits: number | undefined;
  readonly handedOffAt: number;
  /** After this instant the server has ended it. */
  readonly goodUntil: number;
  /** How many holds that exclude this one had begun on each key by then. */
  readonly before: readonly number[];
  /** How many callers have brought it. Where it is several, any of them may be the one that gets the lock. */
  tries: number;
  adopted: boolean;
}

/** Tickets that are kept at a time; the oldest is forgotten, and ends by itself. */
const MAX_TICKETS = 6;
/** Clocks of servers are set by at most this in a run, and drift by less than a hundredth. */
const CLOCKS_DIFFER_MS = 10;
const LATE_MS = 30;
const SLOW = 1.005;
/** A call that does not want to wait waits for the store's answer this long at most. */
export const ANSWER_WITHIN_MS = 800;

export class Tickets {
  private readonly given: Given[] = [];

  constructor(private readonly world: World) {}

  /** Whether there is one that somebody could bring. */
  get any(): boolean {
    return this.given.length > 0;
  }

  /** Hands a hold off in place of its end. Rejects as the library does. */
  async handOff({ lease, keys, owner, permits }: Pick<WitnessedHold, 'lease' | 'keys' | 'owner' | 'permits'>, random: Random): Promise<void> {
    const { world } = this;
    const withinMs = Math.min(random.pick([50, 300, 2_000, 3_000]), world.plan.maxLeaseMs);
    const { mode } = lease;
    const handedOffAt = world.time.now;
    const handingOff = lease.handOff({ withinMs });
    if (lease.remainingMs > 0) world.violations.push(`at ${handedOffAt.toFixed(1)} the giver of '${keys.join()}' still trusts its lease`);
    const before = keys.map((key) => world.witness.begunOn(key, mode, owner));
    const text = await handingOff;
    const goodUntil = world.time.now + withinMs * 1.01 + CLOCKS_DIFFER_MS;
    this.given.push({ text, keys, mode, owner, permits, handedOffAt, goodUntil, before, tries: 0, adopted: false });
    if (this.given.length > MAX_TICKETS) this.given.shift();
  }

  /** Brings some ticket. Resolves with the hold that came of it; undefined when it came to nothing. */
  async adopt({ locks, process }: Member, random: Random): Promise<{ readonly lease: Lease; readonly given: Pick<Given, 'keys' | 'mode' | 'owner' | 'permits'> } | undefined> {
    const { world } = this;
    const given = random.pick(this.given);
    const waitMs = random.pick(world.plan.waitsMs);
    const [sentAt, paused] = [world.time.now, process.stoodStillMs];
    given.tries += 1;
    try {
      const lease = await locks.adopt(given.text, { leaseMs: random.pick(world.plan.leasesMs), waitMs, minReplicas: world.plan.minReplicas });
      this.judgeAdoption(given, sentAt, lease);
      return { lease, given };
    } catch (error) {
      if (!isLockError(error)) throw error;
      const isLost = error.code === 'LOCK_LOST';
      if (isLost && given.tries === 1 && world.time.now < given.handedOffAt + 40 && world.plan.faults.length === 0) {
        world.violations.push(`a good ticket of '${given.keys.join()}' was refused: ${error.message}`);
      }
      if (!isLost && error.code !== 'LOCK_STORE' && error.code !== 'LOCK_CLOSED') world.violations.push(`an adoption failed with ${error.code}: ${error.message}`);
      return undefined;
    } finally {
      const tookMs = world.time.now - sentAt - (process.stoodStillMs - paused);
      if (tookMs > Math.max(waitMs, ANSWER_WITHIN_MS) * SLOW + LATE_MS) world.violations.push(`an adoption of '${given.keys.join()}' was answered only after ${tookMs.toFixed(0)} ms`);
    }
  }

  private judgeAdoption(given: Given, sentAt: number, lease: Lease): void {
    const { world } = this;
    const what = `a ticket of '${given.keys.join()}' from ${given.handedOffAt.toFixed(1)}`;
    // What a server lost can come back with an old copy of its data: a ticket that was adopted, or a lock that others had since.
    const excused = world.forgottenAt >= given.handedOffAt || world.isParted || world.plan.faults.includes('force release') || world.time.now <= world.excusedUntil;
    if (given.adopted && !excused) world.violations.push(`${what} was adopted twice`);
    given.adopted = true;
    const jumps = world.plan.faults.includes('clock jump');
    if (sentAt > given.goodUntil && !jumps) world.violations.push(`${what}, good until ${given.goodUntil.toFixed(1)}, was adopted after it was asked for at ${sentAt.toFixed(1)}`);
    // Others may have the other permits.
    if (lease.remainingMs <= 0 || given.permits !== undefined) return;
    given.keys.forEach((key, n) => {
      if (!excused && !jumps && world.witness.begunOn(key, given.mode, given.owner) !== given.before[n]) world.violations.push(`${what} was adopted after somebody else had had '${key}'`);
    });
  }
}
