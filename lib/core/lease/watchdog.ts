/**
 * The watchdog renews leases in batches, and declares a lease lost when its trust has ended, whether or not the store answers. There
 * is one for each lock module, and it uses the single timer of its schedule.
 *
 * A lease is due for renewal after a third of its length; one from the queue, which is short at first, almost at once. A renewal
 * without an answer is tried again until trust ends; a batch that fails delays no other batch.
 *
 * Two grants are renewed before they are leases: one with too little trust left (core/queue/store-request.ts, `lengthen`), and one that
 * replicas have to acknowledge (stores/redis/requests.ts, `confirmed`). A caller renews its hold by `Hold.renew`, which asks the watchdog.
 */
import type { Clock } from '../port/clock.js';
import type { LockStoreError } from '../port/errors.js';
import { type Doubt, likeLength, type LockStore, type RenewOutcome } from '../port/lock-store.js';
import { MachineSleep } from './machine-sleep.js';
import { Schedule } from './schedule.js';
import { StoreLease } from './store-lease.js';

/** A lease that is due within this part of its length is renewed together with those that are due now, so that batches fill up. */
const MAX_EARLY_PART = 1 / 24;
/**
 * A lease that is shorter than was asked for, as one from the queue is at first, is renewed so soon after its grant, in ms. From then on
 * an outage may last as long as for any other lease; a hold that ends before that pays nothing for it.
 */
const WHOLE_AFTER_MS = 30;
/** A lease with less of its length than this is such a one: the others have lost no more than their margin and the time of the way. */
const NEARLY_WHOLE = 3 / 4;
/** The longest and the shortest pause before a renewal without an answer is tried again, in ms, before it is spread by half to either side. */
const LONGEST_RETRY_MS = 500;
const SHORTEST_RETRY_MS = 20;
/** How many leases are looked at in one turn of the event loop when all are renewed: a hundred thousand must not stop it. */
const LOOKED_AT_TOGETHER = 1_000;
/** How many leases are sorted together by the command that they can share: in a Cluster, more leases sorted together need fewer commands. */
const SORTED_TOGETHER = 8_000;

export class Watchdog {
  readonly schedule: Schedule;
  readonly sleep: MachineSleep;
  /** How often the store went back to an earlier state of its data. An answer sent before that looks valid and is not, so the count is compared. */
  replacements = 0;
  /** The leases that are due, by length: those of one batch wait for the same answer, so only leases that can wait about equally long for it share one. */
  private readonly renewals: DueBatches;
  /** Undefined where all leases can share a command, so that each is renewed at its own time. */
  private readonly times: RenewalTimes | undefined;

  constructor(
    private readonly store: LockStore,
    private readonly clock: Clock,
    private readonly renewFailed: (lease: StoreLease, cause: LockStoreError) => void,
  ) {
    const { groupOf } = store.capabilities;
    this.times = groupOf && new RenewalTimes(groupOf);
    this.renewals = new DueBatches(clock, (due) => this.renewBatch(due), () => this.joinEarly());
    this.sleep = new MachineSleep(clock, {
      slept: (forMs, now) => this.machineSlept(forMs, now),
      wallClockJumped: () => void this.eachLease((lease, now) => this.due(lease, now)),
    });
    this.schedule = new Schedule(clock, (now) => void this.sleep.look(now));
    store.onDoubt?.((doubt) => this.reviewAll(doubt), () => this.leases());
  }

  /** Guards a lease from now on. The queue calls it in the same turn in which it learns of the grant, so no lease is ever unguarded. */
  watch(lease: StoreLease, now: number): void {
    const { leaseMs, maxHoldMs } = lease.options;
    const thirdMs = (lease.trustedUntil - now) / 3;
    if (thirdMs * 3 < Math.min(leaseMs, maxHoldMs) * NEARLY_WHOLE) return this.schedule.set(lease, lease.nextLook(now + Math.min(WHOLE_AFTER_MS, thirdMs)));
    // The first renewal is spread at random, so that leases that were taken together are not all due at the same time.
    this.planRenewal(lease, now, thirdMs * (0.7 + 0.3 * Math.random()));
  }

  /**
   * Whether an answer says nothing certain of the present: the machine has slept since `sentAt`, so that trust would be counted too
   * long, or the data that it tells of may not be there any more. Then the request has to be made again. `replacements`: how often
   * they had been replaced when the request was sent.
   */
  isOutdated(sentAt: number, replacements: number, now: number): boolean {
    return this.sleep.look(now) > sentAt || replacements !== this.replacements;
  }

  /**
   * Renews one lease now, to end `leaseMs` from now. Without `leaseMs` a lease that renews is renewed by its own rule, and
   * of one of fixed length it is only looked whether the store still has it.
   */
  async renewNow(lease: StoreLease, leaseMs?: number): Promise<RenewOutcome> {
    const { replacements } = this;
    const sentAt = this.clock.now();
    const request = lease.renewal(sentAt, leaseMs);
    const [outcome] = await this.store.renew([request]);
    this.answered(lease, outcome!, request.leaseMs, sentAt);
    if (replacements !== this.replacements) this.review(lease, this.clock.now(), true);
    return outcome!;
  }

  /** Declares every lease lost: at the end of a shutdown the process gives up what it still holds without releasing it. */
  loseAll(why: string): void {
    for (const lease of this.leases()) lease.lose('shutdown', why);
  }

  /** Does what is due at the time of a lease's appointment: declares the lease lost if its trust has ended, else renews it. */
  due(lease: StoreLease, now: number): void {
    // Whoever was just told of the loss of another lease may have released this one.
    if (!lease.isHeld) return;
    if (now >= lease.trustedUntil) return lease.endTrust();
    const lookAt = lease.looksAgain(now);
    this.schedule.set(lease, lookAt ?? lease.trustedUntil);
    if (lookAt === undefined && lease.startRenewal()) this.renewSoon(lease, now);
  }

  /** All leases that are held: each of them has an appointment. */
  private leases(): StoreLease[] {
    return this.schedule.all().filter((item) => item instanceof StoreLease);
  }

  /** Renews what the store may have forgotten. Resolves when each of these renewals was answered. */
  private async reviewAll(doubt: Doubt): Promise<void> {
    if (doubt === 'replaced') this.replacements += 1;
    await this.eachLease((lease, now) => (doubt !== 'where it says so' || this.mayBeForgotten(lease)) && this.review(lease, now, doubt === 'replaced'));
    await this.renewals.settled();
  }

  /** Looks at everything that is held, in as many turns of the event loop as it takes, and mostly first at what is due first; resolves after the last. */
  private eachLease(look: (lease: StoreLease, now: number) => unknown): Promise<void> {
    const leases = this.leases();
    const { groupOf } = this.store.capabilities;
    let sorted: StoreLease[] = [];
    return new Promise((resolve) => {
      const lookAtSome = (): void => {
        const now = this.clock.now();
        if (sorted.length === 0) sorted = inGroups(leases.splice(0, SORTED_TOGETHER), groupOf);
        for (const lease of sorted.splice(0, LOOKED_AT_TOGETHER)) look(lease, now);
        if (sorted.length > 0 || leases.length > 0) this.clock.nextTurn(lookAtSome);
        else resolve();
      };
      lookAtSome();
    });
  }

  /** Renews a lease that the store may have forgotten, without waiting for its next renewal. */
  private review(lease: StoreLease, now: number, isReplaced: boolean): void {
    if (!lease.isTrusted(now) || !lease.startReview(isReplaced)) return;
    this.schedule.set(lease, lease.trustedUntil);
    this.renewSoon(lease, now);
  }

  mayBeForgotten(lease: StoreLease): boolean {
    return this.store.mayHaveForgotten?.(lease) === true;
  }

  private renewSoon(lease: StoreLease, now: number): void {
    this.renewals.add(lease, likeLength(lease.renewal(now).leaseMs));
  }

  private machineSlept(forMs: number, now: number): void {
    const leases = this.leases();
    for (const lease of leases) lease.slept(forMs);
    for (const lease of leases) this.due(lease, now);
  }

  /** Adds leases that are due soon, until a batch is full. In a Cluster that could cost commands, so it is not done there. */
  private joinEarly(): void {
    if (this.times) return;
    const now = this.clock.now();
    const { schedule } = this;
    for (let next = schedule.first; next instanceof StoreLease && !this.renewals.areFull; next = schedule.first) {
      if (next.isRenewing || schedule.firstAt > now + next.lengthMs * MAX_EARLY_PART) return;
      this.due(next, now);
      if (!next.isRenewing) return;
    }
  }

  private async renewBatch(due: readonly StoreLease[]): Promise<void> {
    const batch = due.filter(({ isHeld }) => isHeld);
    if (batch.length === 0) return;
    for (const lease of batch) lease.renewalSent();
    const { replacements } = this;
    const sentAt = this.clock.now();
    const requests = batch.map((lease) => lease.renewal(sentAt));
    const outcomes = await this.store.renew(requests);
    batch.forEach((lease, index) => {
      const isInDoubt = lease.endRenewal();
      this.answered(lease, outcomes[index]!, requests[index]!.leaseMs, sentAt);
      // The store may have forgotten it after the renewal and before the answer to it came.
      const isReplaced = replacements !== this.replacements;
      if (isReplaced || (isInDoubt && this.mayBeForgotten(lease))) this.review(lease, this.clock.now(), isReplaced);
    });
  }

  private answered(lease: StoreLease, outcome: RenewOutcome, leaseMs: number, sentAt: number): void {
    if (!lease.isHeld) return;
    const now = this.clock.now();
    switch (outcome.kind) {
      case 'lost':
        return lease.loseFromStore(this.mayBeForgotten(lease) ? 'forgotten' : 'gone', 'the store no longer knows it (it ended, an operator took it away, or the store lost its memory)');
      case 'renewed':
        if (this.sleep.look(now) > sentAt) return this.due(lease, now);
        lease.renewed(outcome, now, leaseMs);
        return this.planRenewal(lease, now, (lease.trustedUntil - now) / 3);
      case 'unknown': {
        lease.unanswered(outcome.lateUntil);
        this.renewFailed(lease, outcome.cause);
        this.schedule.set(lease, lease.nextLook(now + pauseBefore(lease, now) * (0.5 + Math.random())));
      }
    }
  }

  private planRenewal(lease: StoreLease, now: number, inMs: number): void {
    const at = this.times ? this.times.next(lease, now, inMs) : now + inMs;
    this.schedule.set(lease, lease.nextLook(at));
  }
}

/** The pause before a renewal is tried again: the less trust is left, the shorter, because the store may serve again just before its end. */
function pauseBefore({ lengthMs, trustedUntil }: StoreLease, now: number): number {
  return Math.max(SHORTEST_RETRY_MS, Math.min(LONGEST_RETRY_MS, lengthMs / 20, (trustedUntil - now) / 4));
}

/** Those that can share a command stand together. */
function inGroups(leases: StoreLease[], groupOf: ((key: string) => number) | undefined): StoreLease[] {
  if (!groupOf) return leases;
  const groups = new Map<number, StoreLease[]>();
  for (const lease of leases) {
    const group = groupOf(lease.key);
    const others = groups.get(group);
    if (others) others.push(lease);
    else groups.set(group, [lease]);
  }
  return [...groups.values()].flat();
}

/** A number above every result of likeLength, to make one number of a group and a length. */
const LENGTHS_IN_A_GROUP = 64;

/**
 * Plans when leases are renewed next. Where only locks of one group can share a command (in a Cluster), a lease whose time is
 * near is planned for the time at which others of its group are due, so that over time a group is renewed together.
 */
class RenewalTimes {
  /** When leases of one group and of like length are due next. There is at most one entry for each group and length. */
  private readonly known = new Map<number, number>();

  constructor(private readonly groupOf: (key: string) => number) {}

  /** When to renew the lease: in `inMs`, or up to half of that sooner if its group is due then. */
  next({ key, lengthMs }: StoreLease, now: number, inMs: number): number {
    const group = this.groupOf(key) * LENGTHS_IN_A_GROUP + likeLength(lengthMs);
    const known = this.known.get(group) ?? Infinity;
    const at = known >= now + inMs / 2 && known <= now + inMs ? known : now + inMs;
    this.known.set(group, at);
    return at;
  }
}

/** How many leases are handed to the store at a time. The store splits them into commands. */
const LARGEST_BATCH = 250;

/**
 * The batches in which leases are renewed. In a turn of the event loop each line of leases that may share a command sends one, so that a
 * hundred thousand leases do not block the loop.
 */
class DueBatches {
  /** What is due. Only leases of one line share a batch. */
  private readonly lines = new Map<number, StoreLease[]>();
  private isSending = false;
  private readonly whenAllAreSent: (() => void)[] = [];
  /** The batches that are not answered yet. */
  private readonly unanswered = new Set<Promise<void>>();

  constructor(
    private readonly clock: Clock,
    /** Sends a batch; resolves when it was answered. */
    private readonly send: (leases: readonly StoreLease[]) => Promise<void>,
    /** Adds more to the batches of a turn before they leave. */
    private readonly fill: () => void,
  ) {}

  /** Whether there is a batch to which nothing can be added. */
  get areFull(): boolean {
    return [...this.lines.values()].some(({ length }) => length >= LARGEST_BATCH);
  }

  add(lease: StoreLease, line: number): void {
    const others = this.lines.get(line);
    if (others) others.push(lease);
    else this.lines.set(line, [lease]);
    this.sendSoon();
  }

  /** Resolves when all that was added is sent, and answered. */
  async settled(): Promise<void> {
    if (this.isSending) await new Promise<void>((resolve) => this.whenAllAreSent.push(resolve));
    await Promise.all(this.unanswered);
  }

  private sendSoon(): void {
    if (this.isSending) return;
    this.isSending = true;
    this.clock.nextTurn(() => {
      this.fill();
      this.isSending = false;
      for (const [line, leases] of this.lines) {
        if (leases.length <= LARGEST_BATCH) this.lines.delete(line);
        const answered = this.send(leases.splice(0, LARGEST_BATCH)).finally(() => this.unanswered.delete(answered));
        this.unanswered.add(answered);
      }
      if (this.lines.size > 0) this.sendSoon();
      else for (const allAreSent of this.whenAllAreSent.splice(0)) allAreSent();
    });
  }
}
