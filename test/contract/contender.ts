/**
 * One request for one lock, driven through the port, with the wakes that reached it. The contract tests are told with
 * its verbs; each verb states what must come of it and fails the test when it does not.
 */
import { pause, type Clock } from '../../lib/core/port/clock.js';
import type { LockState } from '../../lib/core/port/lock-state.js';
import type { AcquireOutcome, AcquireRequest, Grant, LockStore, RenewOutcome, Wake } from '../../lib/core/port/lock-store.js';

/** How a request differs from the usual: to write, for {@link USUAL_LEASE_MS}, with a place in the queue. */
export type Asking = Partial<Omit<AcquireRequest, 'key' | 'id'>>;

export const USUAL_LEASE_MS = 5_000;
/** How long a test waits for what should come at once; a busy machine may take a while. */
const SOON_MS = 60_000;
const LOOKS_EVERY_MS = 20;
/** Often enough for a waiter lease; a crowd that asked at every look would keep the store busy with nothing else. */
const ASKS_EVERY_MS = 700;

export class Contender {
  /** Every wake for this id, in the order of arrival. */
  readonly wakes: Wake[] = [];
  /** How it asked last. */
  private asked: Asking = {};

  constructor(readonly store: LockStore, readonly key: string, readonly id: string, private readonly clock: Clock) {}

  ask(how: Asking = {}): Promise<AcquireOutcome> {
    const { key, id } = this;
    this.asked = how;
    const usual = { mode: 'write', leaseMs: USUAL_LEASE_MS, queue: true, fences: 1, minHoldMs: 0, minReplicas: 0 } as const;
    return this.store.acquire({ key, id, ...usual, notAfter: this.clock.now() + 60_000, ...how });
  }

  /** Asks and is granted at once. */
  async acquires(how?: Asking): Promise<Grant> {
    const outcome = await this.ask(how);
    if (outcome.kind !== 'granted') throw this.unexpected('a grant', outcome);
    return outcome.grant;
  }

  /** Asks and gets a place in the queue. */
  async queues(how?: Asking): Promise<Extract<AcquireOutcome, { kind: 'waiting' }>> {
    const outcome = await this.ask(how);
    if (outcome.kind !== 'waiting') throw this.unexpected('a place in the queue', outcome);
    return outcome;
  }

  /** Asks without wanting a place, and is refused. */
  async isRefused(how?: Asking): Promise<void> {
    const outcome = await this.ask({ ...how, queue: false });
    if (outcome.kind !== 'busy') throw this.unexpected('busy', outcome);
  }

  /** Is granted the lock it queues for, by whatever tells it first; keeps its place meanwhile. */
  async isLetIn(withinMs = SOON_MS): Promise<Grant> {
    const limit = this.clock.now() + withinMs;
    for (let asksAt = -Infinity; ; await pause(this.clock, LOOKS_EVERY_MS)) {
      const wake = this.wakes.find(({ kind }) => kind === 'granted');
      if (wake?.kind === 'granted') return wake.grant;
      if (this.clock.now() < asksAt) continue;
      const outcome = await this.askAgain();
      asksAt = this.clock.now() + ASKS_EVERY_MS;
      if (outcome.kind === 'granted') return outcome.grant;
      if (outcome.kind !== 'waiting' || this.clock.now() > limit) throw this.unexpected('to be let in', outcome);
    }
  }

  /** Queues until granted, or asks again and again where the store keeps no queue. */
  async getsIn(how?: Asking): Promise<Grant> {
    const limit = this.clock.now() + 3 * SOON_MS;
    for (;;) {
      const outcome = await this.ask(how);
      if (outcome.kind === 'granted') return outcome.grant;
      if (outcome.kind === 'waiting') return this.isLetIn(limit - this.clock.now());
      if (outcome.kind !== 'busy' || this.clock.now() > limit) throw this.unexpected('to get in', outcome);
      await this.pause(outcome.retryInMs);
    }
  }

  /** Waits for so long, or until it is called. */
  private async pause(forMs: number): Promise<void> {
    const [heard, askAt] = [this.wakes.length, this.clock.now() + forMs];
    while (this.clock.now() < askAt && !this.wakes.slice(heard).some(({ kind }) => kind === 'ask')) await pause(this.clock, Math.min(LOOKS_EVERY_MS, askAt - this.clock.now()));
  }

  /** Is woken without having asked. */
  async isWoken(kinds: readonly Wake['kind'][], withinMs = SOON_MS): Promise<Wake> {
    const found = (): Wake | undefined => this.wakes.find((wake) => kinds.includes(wake.kind));
    await until(this.clock, () => found() !== undefined, `${this.id} is woken by ${kinds.join(' or ')}`, withinMs);
    return found() as Wake;
  }

  async renew(leaseMs = USUAL_LEASE_MS): Promise<RenewOutcome> {
    const outcome = await this.store.renew({ key: this.key, id: this.id, leaseMs, graceMs: this.asked.graceMs, minReplicas: 0 });
    return outcome as RenewOutcome;
  }

  async renews(leaseMs?: number): Promise<Extract<RenewOutcome, { kind: 'renewed' }>> {
    const outcome = await this.renew(leaseMs);
    if (outcome.kind !== 'renewed') throw this.unexpected('to renew', outcome);
    return outcome;
  }

  /** Asks as it asked before, which keeps its place. */
  askAgain(): Promise<AcquireOutcome> {
    return this.ask({ ...this.asked, replaces: undefined, handsOn: undefined });
  }

  release(): Promise<'released' | 'lost'> {
    return this.store.release({ key: this.key, id: this.id });
  }

  /** Gives back what nobody worked under. */
  abandon(): Promise<'released' | 'lost'> {
    return this.store.release({ key: this.key, id: this.id, abandoned: true });
  }

  downgrade(): Promise<'downgraded' | 'lost'> {
    return this.store.downgrade({ key: this.key, id: this.id });
  }

  inspect(): Promise<LockState> {
    return this.store.inspect(this.key);
  }

  private unexpected(wanted: string, outcome: object): Error {
    return new Error(`${this.id} on '${this.key}' expected ${wanted}, got ${JSON.stringify(outcome)}`);
  }
}

/** Waits for a condition, and fails with its description. */
export async function until(clock: Clock, condition: () => boolean | Promise<boolean>, description: string, withinMs = SOON_MS): Promise<void> {
  const limit = clock.now() + withinMs;
  while (!(await condition())) {
    if (clock.now() > limit) throw new Error(`not within ${withinMs} ms: ${description}`);
    await pause(clock, 5);
  }
}
