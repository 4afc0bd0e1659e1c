/**
 * What the application in a simulated process does: several callers, each asking for locks again and again in all the ways
 * that the library offers, and looking around while it holds them.
 */
import type { Lease } from '../../lib/core/port/lease.js';
import type { LockMode, WithLockOptions } from '../../lib/core/port/lock-options.js';
import { isLockError } from '../../lib/core/port/errors.js';
import type { JudgedCall } from './phase-judge.js';
import { PERMIT_KEY } from './plan.js';
import type { Random } from './random.js';
import { ANSWER_WITHIN_MS, Tickets } from './tickets.js';
import type { WitnessedHold } from './witness.js';
import type { Member, World } from './world.js';

/** A call for a lock that has not been answered. */
export interface Call {
  readonly member: Member;
  /** For people. */
  readonly what: () => string;
  readonly keys: readonly string[];
  readonly since: number;
  /** Of its process, at that time. */
  readonly pausedMs: number;
  readonly waitMs: number;
  /** It is still refused. */
  waiting: boolean;
  readonly judged: JudgedCall;
}

/** A caller whose time is over is told in the next turn of the event loop, by a clock that may be slow. */
const LATE_MS = 30;
/** The store is asked for the holder of a lock that was waited for in vain. */
const TOLD_WITHIN_MS = 101;
const SLOW = 1.005;

export class Callers {
  readonly open = new Set<Call>();
  private readonly tickets: Tickets;
  private readonly loops = new Set<Promise<void>>();

  constructor(private readonly world: World, private readonly goOn: () => boolean) {
    this.tickets = new Tickets(world);
  }

  /** Callers of a member that were started and have not ended; those of the dead do not count. */
  get busy(): boolean {
    return [...this.open].some(({ member }) => member.process.alive);
  }

  start(member: Member): void {
    for (let n = 0; n < this.world.plan.callers; n++) {
      const loop = this.loop(member, this.world.random.fork());
      this.loops.add(loop);
    }
  }

  private async loop(member: Member, random: Random): Promise<void> {
    const { plan } = this.world;
    while (this.goOn() && !member.closing && member.process.alive) {
      await this.sleep(member, random.between(...plan.restsMs));
      if (!this.goOn() || member.closing) return;
      if (this.tickets.any && random.chance(0.3)) await this.bringTicket(member, random);
      else await this.call(member, random, undefined);
    }
  }

  /** One call for a lock, in some way. */
  private async call(member: Member, random: Random, inside: WitnessedHold | undefined): Promise<void> {
    const { plan } = this.world;
    const permits = inside === undefined ? this.permits(random) : inside.permits;
    const fancy = random.chance(plan.fancy);
    const keys = permits !== undefined ? [PERMIT_KEY] : fancy && inside === undefined && random.chance(0.25) ? [...plan.keys] : [random.pick(inside?.keys ?? plan.keys)];
    const common: WithLockOptions = {
      permits,
      minReplicas: plan.minReplicas,
      mode: permits === undefined && random.chance(plan.readers) ? 'read' : 'write',
      leaseMs: random.pick(plan.leasesMs),
      waitMs: random.pick(plan.waitsMs),
      onLost: random.chance(0.2) ? 'ignore' : 'throw',
      awaitRelease: plan.minReplicas > 0 || random.chance(0.7),
    };
    const drawn = fancy && inside === undefined ? this.fancyOptions(member, random) : undefined;
    const own = permits !== undefined && drawn?.owner !== undefined ? undefined : drawn;
    const options = { ...common, ...own };
    const judged: JudgedCall = {
      process: member.process, keys, mode: options.mode!, since: this.world.time.now,
      isPlain: keys.length === 1 && own === undefined && inside === undefined && permits === undefined,
    };
    const call: Call = {
      member, keys, waitMs: options.waitMs!, since: this.world.time.now, pausedMs: member.process.stoodStillMs, waiting: true, judged,
      what: () => `${member.process.name} ${options.mode} [${keys.join()}] ${JSON.stringify(options)}`,
    };
    this.open.add(call);
    this.world.phases.waits(judged);
    try {
      await this.perform(call, options, random, inside);
    } catch (error) {
      this.judge(call, error, inside !== undefined);
    } finally {
      this.open.delete(call);
      this.world.phases.ended(judged);
    }
  }

  /** How many permits a call names; undefined for a call that wants another lock. */
  private permits(random: Random): number | undefined {
    const { permits } = this.world.plan;
    if (permits === undefined || random.chance(0.4)) return undefined;
    return random.chance(0.03) ? permits + 1 : permits;
  }

  private fancyOptions(member: Member, random: Random): WithLockOptions {
    const { plan } = this.world;
    const options: WithLockOptions[] = [
      { owner: random.pick(['saga:1', 'saga:2']) },
      { minHoldMs: random.pick([50, 400]) },
      { graceMs: random.pick([200, 1_000]), leaseMs: 400 },
      { maxHoldMs: random.pick([100, 1_000]) },
      { renew: false },
      { waitMs: 0 },
      { signal: this.abortedIn(member, random.between(0, 1_000)) },
      { leaseMs: Math.min(plan.maxLeaseMs, 150) },
    ];
    return random.pick(options);
  }

  private async perform(call: Call, options: WithLockOptions, random: Random, inside: WitnessedHold | undefined): Promise<void> {
    const { locks } = call.member;
    const key = call.keys.length === 1 ? call.keys[0]! : call.keys;
    if (random.chance(0.7)) {
      await locks.withLock(key, options, (lease) => this.work(call, lease, options, random, inside));
      return;
    }
    const { onLost, awaitRelease, ...ours } = options;
    const lease = options.waitMs === 0 ? await locks.tryAcquire(key, ours) : await locks.acquire(key, ours);
    if (lease === null) return;
    await this.work(call, lease, options, random, inside, true);
  }

  /** The work under a lock. With `releases` it gives the lock back itself. */
  private async work(call: Call, lease: Lease, options: WithLockOptions, random: Random, inside: WitnessedHold | undefined, releases = false): Promise<void> {
    const { world } = this;
    const { witness, plan } = world;
    const { member, keys } = call;
    this.answered(call);
    this.world.phases.served(call.judged);
    const mode: LockMode = options.mode ?? 'write';
    const hold: WitnessedHold = { process: member.process, lease, keys, mode, owner: options.owner ?? inside?.owner, permits: options.permits, inside, since: world.time.now };
    witness.begin(hold);
    const steps = random.whole(1, 3);
    for (let step = 0; step < steps; step++) {
      await this.sleep(member, random.between(...plan.holdsMs) / steps);
      witness.step(hold);
      if (random.chance(0.05)) await lease.renew().catch(() => {});
    }
    const nested = !releases && inside === undefined && random.chance(plan.fancy / 2);
    if (nested) await this.nest(member, random, hold);
    witness.step(hold);
    witness.end(hold);
    // Calls that were left to themselves may be inside still, and then it cannot be handed off.
    try {
      if (!nested && inside === undefined && this.handsOn(random)) await this.tickets.handOff(hold, random);
    } finally {
      // A hold of several locks of which one was lost has the others still.
      if (releases) await this.release(call, lease);
    }
  }

  private async release({ member, what }: Call, lease: Lease): Promise<void> {
    const { world } = this;
    const asked = world.time.now;
    const paused = member.process.stoodStillMs;
    await lease.release();
    const tookMs = world.time.now - asked - (member.process.stoodStillMs - paused);
    if (tookMs > world.plan.commandTimeoutMs * SLOW + LATE_MS) world.violations.push(`a release took ${tookMs.toFixed(0)} ms: ${what()}`);
  }

  private handsOn(random: Random): boolean {
    const { topology, fancy } = this.world.plan;
    return topology !== 'redlock' && fancy > 0 && random.chance(0.3);
  }

  /** Adopts a hold that some process handed off, and works under it. */
  private async bringTicket(member: Member, random: Random): Promise<void> {
    const { world } = this;
    const { witness, plan } = world;
    const since = world.time.now;
    const judged: JudgedCall = { process: member.process, keys: [], mode: 'write', since, isPlain: false };
    const call: Call = { member, keys: [], waitMs: 0, since, pausedMs: member.process.stoodStillMs, waiting: false, judged, what: () => `${member.process.name} brings a ticket` };
    this.open.add(call);
    try {
      const adopted = await this.tickets.adopt(member, random);
      if (adopted === undefined) return;
      const { lease, given: { keys, mode, owner, permits } } = adopted;
      const hold: WitnessedHold = { process: member.process, lease, keys, mode, owner, permits, inside: undefined, since: world.time.now };
      if (lease.remainingMs > 0) {
        witness.begin(hold);
        await this.sleep(member, random.between(...plan.holdsMs));
        witness.step(hold);
        witness.end(hold);
      }
      if (random.chance(0.2)) await this.tickets.handOff(hold, random).catch((error: unknown) => this.judge(call, error, false));
      await lease.release();
    } finally {
      this.open.delete(call);
    }
  }

  /** Calls inside a hold: side by side, awaited or left to themselves. */
  private async nest(member: Member, random: Random, hold: WitnessedHold): Promise<void> {
    const calls = [this.call(member, random.fork(), hold), this.call(member, random.fork(), hold)];
    if (random.chance(0.6)) await Promise.all(calls);
    else await this.sleep(member, random.between(0, 5));
  }

  private answered(call: Call): void {
    call.waiting = false;
    this.checkWait(call);
  }

  private checkWait(call: Call): void {
    const { world } = this;
    const { process } = call.member;
    const tookMs = world.time.now - call.since - (process.stoodStillMs - call.pausedMs);
    // Who does not want to wait still waits for the store's answer; who takes several gives back what he has. Who waited in vain is
    // told who holds the lock.
    const answerMs = call.waitMs === 0 || call.keys.length > 1 ? Math.max(2 * world.plan.commandTimeoutMs, ANSWER_WITHIN_MS) : TOLD_WITHIN_MS;
    if (tookMs > call.waitMs * SLOW + answerMs + LATE_MS) world.violations.push(`a call was answered only after ${tookMs.toFixed(0)} ms: ${call.what()}`);
  }

  private judge(call: Call, error: unknown, nested: boolean): void {
    const { world } = this;
    const { plan } = world;
    if (call.waiting) this.answered(call);
    if (!isLockError(error)) {
      if (error !== ABORTED) world.violations.push(`a call ended with ${String((error as Error)?.stack ?? error)}: ${call.what()}`);
      return;
    }
    const expected = ['LOCK_TIMEOUT', ...(nested ? ['LOCK_USAGE', 'LOCK_LOST'] : []), ...(call.member.closing ? ['LOCK_CLOSED', 'LOCK_LOST'] : [])];
    const disturbed = plan.faults.length > 0;
    if (disturbed) expected.push('LOCK_LOST', 'LOCK_STORE');
    // Work may go on for longer than a fixed lease or a longest hold; an owner may ask for an upgrade.
    if (plan.fancy > 0) expected.push('LOCK_LOST', 'LOCK_USAGE');
    // Now and then a call names another number of permits, which the others name as soon as the lock is idle.
    if (call.keys[0] === PERMIT_KEY) expected.push('LOCK_USAGE');
    // Nodes of a Redlock agree within a time of their own, and a short lease may be over by then.
    if (plan.topology === 'redlock') expected.push('LOCK_STORE');
    if (!expected.includes(error.code)) world.violations.push(`a call failed with ${error.code}: ${error.message} (${call.what()})`);
  }

  private abortedIn({ process }: Member, ms: number): AbortSignal {
    const controller = new AbortController();
    process.clock.setTimer(() => controller.abort(ABORTED), ms);
    return controller.signal;
  }

  private sleep(member: Member, ms: number): Promise<void> {
    return new Promise((resolve) => void member.process.clock.setTimer(resolve, ms));
  }
}

const ABORTED = new Error('the caller gave up');
