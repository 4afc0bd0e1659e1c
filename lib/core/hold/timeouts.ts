/**
 * What a caller is told whose wait was in vain: who has the lock, which locks the caller itself held meanwhile, whether calls of
 * this process wait for each other, and where the call came from.
 *
 * The error is made here, in an async function whose promise the caller awaits: then the engine knows the caller without
 * anybody having kept a stack for each call that succeeds.
 */
import type { Clock } from '../port/clock.js';
import { LockTimeoutError, type BusyHolder, type WaitFacts } from '../port/errors.js';
import { waitedStory } from '../port/hold-errors.js';
import { sinceOf, whereaboutsOf } from '../port/holder-id.js';
import type { HolderState, LockStore } from '../port/lock-store.js';
import { Alarm } from '../lease/schedule.js';
import type { Schedule } from '../lease/schedule.js';
import type { LocalQueue } from '../queue/local-queue.js';
import { Hold } from './hold.js';
import type { HoldContext } from './hold-context.js';
import { keysAround, type WaitingCalls } from './waiting-calls.js';

/** The wait has ended by then, so the store is not waited for longer than this. */
const TELLS_WITHIN_MS = 100;
/** A crowd whose time ends together would keep the store busy with questions that help nobody. */
const MOST_LOOKS = 32;

export class Timeouts {
  /** The questions that are under way, by key: callers of one lock share the answer. */
  private readonly looks = new Map<string, Promise<readonly HolderState[]>>();

  constructor(
    private readonly store: LockStore,
    private readonly clock: Clock,
    private readonly schedule: Schedule,
    private readonly queue: LocalQueue,
    private readonly context: HoldContext,
    private readonly waiting: WaitingCalls,
  ) {}

  /** Rejects with `reason`; with more words for who waited and was refused. Called in the context of the call. */
  async reject(reason: unknown): Promise<never> {
    if (!(reason instanceof LockTimeoutError)) throw reason;
    const { key, waitMs, message } = reason;
    const facts = { held: keysAround(this.context.surroundings()), ...this.waiting.factsOf(reason) };
    // Inside a hold of the same lock it is a call beside this one that was in the way, and not who holds the lock.
    const holders = this.context.find(key) ? [] : await this.look(key);
    throw this.explained(message, { key, waitMs, ...facts, holders: holders.map((holder) => this.described(key, holder)) }, holders);
  }

  private explained(message: string, facts: WaitFacts & { key: string; waitMs: number }, holders: readonly HolderState[]): LockTimeoutError {
    const idle = holders.some(({ id }) => this.holdsHere(facts.key, id).some((hold) => !hold.hasRun));
    return new LockTimeoutError(`${message}${waitedStory(facts, idle)}`, facts);
  }

  private described(key: string, { id, fence, owner, label }: HolderState): BusyHolder {
    const [hold] = this.holdsHere(key, id);
    const sinceMs = hold ? this.clock.wallNow() - hold.heldMs : sinceOf(fence);
    const since = sinceMs === undefined ? undefined : new Date(sinceMs);
    return { ...whereaboutsOf(id), label: hold?.options.label ?? label, owner, fence, since, isHere: this.queue.leaseOf(key, id) !== undefined };
  }

  /** Who of this process is on the lease with this id, without the calls inside their holds. */
  private holdsHere(key: string, id: string): Hold[] {
    const followers = this.queue.leaseOf(key, id)?.followers ?? [];
    return followers.filter((one): one is Hold => one instanceof Hold).filter(({ isNested }) => !isNested);
  }

  private look(key: string): Promise<readonly HolderState[]> {
    const present = this.looks.get(key);
    if (present) return present;
    if (this.looks.size >= MOST_LOOKS) return Promise.resolve([]);
    const look = this.ask(key).finally(() => this.looks.delete(key));
    this.looks.set(key, look);
    return look;
  }

  private ask(key: string): Promise<readonly HolderState[]> {
    return new Promise((resolve) => {
      const { schedule } = this;
      const patience = new Alarm(() => resolve([]));
      schedule.set(patience, this.clock.now() + TELLS_WITHIN_MS);
      const answer = (holders: readonly HolderState[]): void => {
        schedule.cancel(patience);
        resolve(holders);
      };
      this.store.inspect(key).then(({ holders }) => answer(holders), () => answer([]));
    });
  }
}
