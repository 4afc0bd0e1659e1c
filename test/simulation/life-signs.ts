/** Watches that those who wait are served: no lock stays unused while somebody waits for it, and after all faults each can be had. */
import type { Callers } from './callers.js';
import { LockUsageError } from '../../lib/core/port/errors.js';
import { isTicketId } from '../../lib/core/port/ticket.js';
import type { LockService } from '../../lib/lock.service.js';
import type { Nemesis } from './nemesis.js';
import { PERMIT_KEY } from './plan.js';
import { readHolders } from './record-check.js';
import type { World } from './world.js';

const LOOK_MS = 100;
/** No waiter sleeps on a lock that it could have for longer than until it asks again, and the way there and back. */
const IDLE_MS = 1_200;
/** After the last fault connections are made anew, and places in queues are asked for again. */
const RECOVERY_MS = 4_000;
/** In the time of a command clocks of servers and processes come apart by less. */
const CLOCKS_APART_MS = 100;
/** What may be left by then: the longest lease, dead waiters ahead, a hand-over. */
const SERVED_MS = 12_000;

export class LifeSigns {
  private readonly idleSince = new Map<string, number>();
  private over = false;

  constructor(private readonly world: World, private readonly callers: Callers, private readonly nemesis: Nemesis) {}

  begin(): void {
    this.world.time.after(
      LOOK_MS,
      () => {
        if (this.over) return;
        this.look();
        this.begin();
      },
      true,
    );
  }

  end(): void {
    this.over = true;
  }

  /** Each process takes each lock once more. */
  async everyLockCanBeHad(): Promise<void> {
    const { world } = this;
    const { plan, time } = world;
    if (world.broken) return;
    // A forced release that is on its way may take a lock from a later holder, until its time is over.
    await time.runUntil(() => false, Math.max(time.now, world.forcedAt + plan.commandTimeoutMs + CLOCKS_APART_MS));
    const withinMs = Math.max(...plan.leasesMs, 400) + (plan.topology === 'redlock' ? plan.maxLeaseMs : plan.recoveryMs) + world.setBackMs + SERVED_MS;
    const members = world.members.filter(({ process, closing }) => process.alive && !closing);
    const { permits } = plan;
    const keys = permits === undefined ? plan.keys : [...plan.keys, PERMIT_KEY];
    let left = members.length * keys.length;
    for (const { locks, process } of members) {
      for (const key of keys) {
        const got = (): void => void (left -= 1);
        const options = { waitMs: withinMs, leaseMs: Math.min(3_000, plan.maxLeaseMs), permits: key === PERMIT_KEY ? permits : undefined };
        this.onceOtherNumbersAreGone(withinMs, () => locks.withLock(key, options, () => {})).then(got, (error: unknown) => {
          world.violations.push(`after all faults ${process.name} could not have '${key}' within ${withinMs} ms: ${String(error)}`);
          got();
        });
      }
    }
    await time.runUntil(() => left === 0, time.now + 2 * withinMs + 1_000);
    if (left > 0) world.violations.push(`after all faults ${left} calls were not answered`);
    if (permits !== undefined && members[0]) await this.allPermitsCanBeHad(members[0].locks, permits, withinMs);
  }

  /** While somebody holds the lock with another number of permits, a call is refused at once: a lease or a ticket from before may do so, or the late copy of a request that was refused. */
  private async onceOtherNumbersAreGone<T>(withinMs: number, ask: () => Promise<T>): Promise<T> {
    const { time } = this.world;
    for (const until = time.now + withinMs; ; ) {
      try {
        return await ask();
      } catch (error) {
        if (!(error instanceof LockUsageError) || time.now >= until) throw error;
        await new Promise<void>((resolve) => void time.after(LOOK_MS, resolve));
      }
    }
  }

  /** None has leaked: all of them together. */
  private async allPermitsCanBeHad(locks: LockService, permits: number, withinMs: number): Promise<void> {
    const { world } = this;
    let left = permits;
    const options = { permits, waitMs: withinMs, leaseMs: Math.min(3_000, world.plan.maxLeaseMs) };
    const leases = Array.from({ length: permits }, () => this.onceOtherNumbersAreGone(withinMs, () => locks.acquire(PERMIT_KEY, options)));
    const all = Promise.all(leases.map((lease) => lease.then(() => (left -= 1))));
    all.catch((error: unknown) => world.violations.push(`after all faults ${left} of ${permits} permits could not be had: ${String(error)}`));
    await world.time.runUntil(() => left === 0 || world.broken, world.time.now + 2 * withinMs + 1_000);
    if (left > 0 && !world.broken) world.violations.push(`after all faults ${left} of ${permits} permits could not be had`);
    const released = Promise.allSettled(leases.map(async (lease) => (await lease).release())).then(() => (left = -1));
    await world.time.runUntil(() => left === -1, world.time.now + withinMs);
    await released;
  }

  private look(): void {
    const { world, nemesis } = this;
    const { now } = world.time;
    // Nodes of a Redlock that forgot stay out for the longest lease, and with too many of them nobody is served. Another server that
    // forgot grants nothing new for its recoveryMs, counted from the first request after the loss, which may come late.
    const { topology, maxLeaseMs, recoveryMs } = world.plan;
    const passedMs = now - Math.max(nemesis.endedAt, world.forgottenAt);
    if (!nemesis.calm || passedMs <= RECOVERY_MS + (topology === 'redlock' ? maxLeaseMs : 2 * recoveryMs)) return this.idleSince.clear();
    const waited = new Set([...this.callers.open].filter(({ waiting, member }) => waiting && member.process.alive).flatMap(({ keys }) => (keys.length === 1 ? keys : [])));
    for (const key of [...world.plan.keys, PERMIT_KEY]) {
      const idle = waited.has(key) && !this.isUsed(key);
      if (!idle) this.idleSince.delete(key);
      else if (!this.idleSince.has(key)) this.idleSince.set(key, now);
      else if (now - this.idleSince.get(key)! > IDLE_MS) {
        world.violations.push(`at ${now.toFixed(0)} '${key}' was unused for ${IDLE_MS} ms while somebody waited for it`);
        this.idleSince.set(key, Infinity);
      }
    }
  }

  /** Somebody works under it, or it is taken by right: to the dead, to an unknown outcome, or for the rest of a minHoldMs. */
  private isUsed(key: string): boolean {
    const { world } = this;
    if (world.witness.uses(key)) return true;
    const mayBeLeft = world.plan.faults.some((fault) => fault !== 'deaf') || world.plan.fancy > 0;
    return mayBeLeft && world.servers.some((server) => server.keys().some((name) => name.endsWith(`:l:${world.encoded(key)}`) && !this.isKeptForNobody(server.text(name), server.nowMs())));
  }

  /** All that keeps it was told of holders whose processes run, and of no hold that is a ticket's now: each has said by now that it holds nothing. */
  private isKeptForNobody(record: string | undefined, now: number): boolean {
    // A full server keeps no note of what was said.
    if (this.world.plan.faults.includes('full')) return false;
    const running = this.world.members.filter(({ process, closing }) => process.alive && !closing).map(({ process }) => process.name);
    const holders = readHolders(record ?? '').filter(({ end }) => end >= now);
    return holders.length > 0 && holders.every(({ id, fences }) => fences === 0 && !this.world.handedOff.has(id.slice(1)) && running.some((name) => id.startsWith(`~${name}.`) && !isTicketId(id)));
  }
}
