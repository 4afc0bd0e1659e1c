/**
 * One function of this process that stands for election until it is stopped.
 *
 *     standing ──(granted)──▶ leading ──(the function ended)──▶ resting ──▶ standing
 *         └───────────────────────┴───────────(stop)───────────────┴─────▶ stopped
 *
 * A term that is lost does not end `leading`: the signal of the term aborts, and this process stands again when the function
 * has ended. So the function never runs twice at a time here, even when it ignores the signal.
 */
import { Alarm } from '../lease/schedule.js';
import { isLockError, LockClosedError, LockUsageError, messageOf, seen } from '../port/errors.js';
import type { Lease } from '../port/lease.js';
import type { CallSite, LockOptions, LockProfiles, WithLockOptions } from '../port/lock-options.js';
import { checkOptions, type NamesOf, type OptionList, resolveOptions, whole, withProfile } from '../port/options.js';
import type { Hold } from './hold.js';
import type { LockCore } from './lock-core.js';
import { runInHold } from './work.js';
import type { HolderState } from '../port/lock-state.js';

/** Who leads: the holder of the role's lock. */
export type LockHolder = HolderState;

/** What runs while this process leads. The term is a lease: its fence is the number of the term, its signal aborts when the term is over. */
export type Term = (term: Lease) => Promise<void> | void;

/** Options of {@link LockService.lead}. */
export interface LeadOptions extends Pick<LockOptions, 'leaseMs' | 'graceMs' | 'minReplicas' | 'label' | 'profile'> {
  /**
   * How long this process rests after its function returned, before it stands for election again, in ms; up to a quarter is
   * added at random. After a failure the rest doubles, after each further one again, up to a minute. From 0 to 3,600,000;
   * the process rests for at least 1 ms, and for at least 100 ms after a failure.
   * @default 1000
   */
  restMs?: number | undefined;
}

/** A role that this process stands for, until it is stopped. */
export interface Leadership extends AsyncDisposable {
  /** The name that `lead` was called with. */
  readonly role: string;
  /** Whether this process leads now. It compares the clock, so it is exact even when the event loop was blocked; false once it was told to stop. */
  readonly isLeader: boolean;
  /** The term under which the function runs, also when that term was lost meanwhile; undefined while the function does not run. */
  readonly term: Lease | undefined;
  /**
   * Stops standing for the role. If this process leads, the signal of the term aborts at once, and the lock is given back when the
   * function has ended. Resolves after that, or at once when the function itself calls it. Never rejects.
   */
  stop(): Promise<void>;
}

const names: NamesOf<LeadOptions & CallSite> = {
  leaseMs: true, graceMs: true, minReplicas: true, restMs: whole(0, 3_600_000), label: true, profile: true, template: true, expectsBusy: true,
};
const DEFAULT_REST_MS = 1_000;
export const LEAD_OPTIONS: OptionList = { names, example: '{ restMs: 5000 }' };

/** How a candidate asks for its term, and how long it rests between two. */
interface TermOptions {
  readonly restMs: number;
  readonly request: WithLockOptions & CallSite;
}

/** Completes the options of a candidate. The request is checked by the service that sends it. @throws LockUsageError */
export function termOptions(given: LeadOptions & CallSite, key: string, profiles: LockProfiles): TermOptions {
  checkOptions(given, LEAD_OPTIONS, key);
  const { restMs = DEFAULT_REST_MS, ...options } = withProfile(given, profiles, LEAD_OPTIONS, key);
  // Defaults of the module are for calls, which end. A term has no end of its own, a candidate waits for its turn for ever, and who stopped
  // one relies on it that the lock is free.
  const unending = { mode: 'write', waitMs: Infinity, renew: true, maxHoldMs: Infinity, minHoldMs: 0, onLost: 'ignore', awaitRelease: true } as const;
  return { restMs, request: { template: key, ...options, ...unending } };
}

/** Rests do not grow beyond this, and a function that ran for longer before it failed is not failing over and over. */
const MAX_GROWN_REST_MS = 60_000;
/** The shortest rest: in an embedded store a function that returns at once would never let the event loop turn. */
const MIN_REST_MS = 1;
/** The shortest rest after a failure, also with `restMs: 0`. */
const MIN_REST_AFTER_FAILURE_MS = 100;
/** The greatest part of a rest that is added to it at random, so that candidates that rest together do not come back together. */
const JITTER = 0.25;
/** A function that goes on for so long after its term was lost is told in the log. */
const OVERSTAYED_MS = 1_000;

class Candidacy implements Leadership {
  /** Resolves when it has stopped, its function has ended, and its lock was given back. */
  readonly ended: Promise<void>;
  private hold: Hold | undefined;
  /** Aborts when it shall stand no more. */
  private readonly leaving = new AbortController();
  /** Is called when this candidate leaves: it ends the rest of the candidate, or its wait for another one. */
  private interrupt: () => void = () => {};
  private failures = 0;

  constructor(
    readonly role: string,
    private readonly key: string,
    private readonly work: Term,
    private readonly options: TermOptions,
    private readonly core: LockCore,
    /** The functions of leaders that run in this process, by the key of their role. */
    private readonly atWork: Map<string, Promise<unknown>>,
  ) {
    this.ended = this.untilItLeaves();
  }

  get isLeader(): boolean {
    return this.hold !== undefined && !this.isLeaving && this.hold.lossNow() === undefined && !this.hold.isOver;
  }

  get term(): Lease | undefined {
    return this.hold;
  }

  stop(): Promise<void> {
    this.leave('it was stopped');
    return this.hold && this.core.context.around().includes(this.hold) ? Promise.resolve() : this.ended;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  /** Stands no more; the signal of the present term aborts with the reason. */
  leave(why: string): void {
    if (this.isLeaving) return;
    this.leaving.abort();
    this.interrupt();
    const message = `Role '${this.role}': this process stops leading, because ${why}. The lock is kept until the function has ended.`;
    this.hold?.askToEnd(new LockClosedError(message, { key: this.key }));
  }

  private get isLeaving(): boolean {
    return this.leaving.signal.aborted;
  }

  private async untilItLeaves(): Promise<void> {
    while (!this.isLeaving) {
      // The function of another candidate of this process may go on after its term: two of one role never run at a time here.
      const other = this.atWork.get(this.key);
      if (other) await Promise.race([other, new Promise<void>((resolve) => (this.interrupt = resolve))]);
      else await this.rest(await this.oneTerm());
    }
  }

  /** Stands until it is elected, and leads. Resolves to how long it rests then, in ms. */
  private async oneTerm(): Promise<number> {
    const { atWork, key, core, options: { request } } = this;
    let hold: Hold;
    try {
      hold = await core.acquire(core.begin([key], { ...request, signal: this.leaving.signal }));
    } catch (error) {
      return this.refused(error);
    }
    if (this.isLeaving || atWork.has(key)) {
      await hold.release();
      return 0;
    }
    const led = this.lead(hold);
    atWork.set(key, led);
    try {
      return await led;
    } finally {
      atWork.delete(key);
    }
  }

  private refused(cause: unknown): number {
    if (this.isLeaving) return 0;
    if (isLockError(cause) && cause.code === 'LOCK_CLOSED') {
      this.leave('the lock module was shut down');
      return 0;
    }
    const restMs = this.restAfterFailure(0);
    this.tell('error', 'cannot stand', cannotStandText(this.role, cause, restMs));
    return restMs;
  }

  private async lead(hold: Hold): Promise<number> {
    const { clock, schedule } = this.core;
    const [lease] = hold.leases;
    const since = clock.now();
    const overstayed = new Alarm(() => this.tell('warning', 'overstayed', overstayedText(this.role)));
    // The signal of the term does not tell of a loss: it may have aborted before, because this candidate was stopped.
    const atLoss = { leaseLost: () => schedule.set(overstayed, clock.now() + OVERSTAYED_MS) };
    lease!.onLoss(atLoss);
    this.hold = hold;
    try {
      await new Promise<void>((resolve, reject) => runInHold(hold, this.work, resolve, reject));
      this.failures = 0;
      return hold.loss ? 0 : Math.max(MIN_REST_MS, this.options.restMs * (1 + JITTER * Math.random()));
    } catch (error) {
      return isEndOf(hold, error) ? 0 : this.failed(hold, error, clock.now() - since);
    } finally {
      this.hold = undefined;
      lease!.offLoss(atLoss);
      schedule.cancel(overstayed);
    }
  }

  private failed(hold: Hold, cause: unknown, ranMs: number): number {
    const restMs = this.isLeaving ? 0 : this.restAfterFailure(ranMs);
    this.core.announcer.termFailed(hold, cause, restMs);
    this.tell('error', 'failed', failureText(this.role, cause, restMs));
    return restMs;
  }

  private restAfterFailure(ranMs: number): number {
    this.failures = ranMs > MAX_GROWN_REST_MS ? 1 : this.failures + 1;
    const restMs = Math.max(MIN_REST_AFTER_FAILURE_MS, this.options.restMs);
    return Math.min(restMs * 2 ** this.failures, Math.max(restMs, MAX_GROWN_REST_MS)) * (1 + JITTER * Math.random());
  }

  private async rest(restMs: number): Promise<void> {
    if (restMs === 0 || this.isLeaving) return;
    await this.core.schedule.within<void>(restMs, undefined, (done) => (this.interrupt = done));
  }

  /** Each role has findings of its own: what one has to say does not keep the others quiet. */
  private tell(level: 'error' | 'warning', what: string, message: string): void {
    this.core.announcer.report({ kind: `role ${this.role} ${what}`, level, message });
  }
}

/** True if the function failed because it was told that its term is over, which is no failure of its own. */
function isEndOf({ signal, key }: Hold, error: unknown): boolean {
  if (!signal.aborted) return false;
  return seen(() => {
    const { name, cause } = error as { readonly name?: unknown; readonly cause?: unknown };
    return (isLockError(error) && error.key === key) || name === 'AbortError' || cause === signal.reason;
  }, false);
}

/** The candidates of one lock module: the roles that this process stands for. */
export class Election {
  private readonly candidates = new Set<Candidacy>();
  /** The functions of leaders that run in this process, by the key of their role. */
  private readonly atWork = new Map<string, Promise<unknown>>();

  constructor(private readonly core: LockCore) {}

  /** Makes a candidate, which has its entry here until it has stopped and its function has ended. @throws LockUsageError */
  stand(role: string, key: string, work: Term, given: LeadOptions & CallSite = {}): Leadership {
    const { context, defaults } = this.core;
    if (typeof work !== 'function') throw new LockUsageError(`lead('${role}', fn, options?): fn must be a function.`, { key });
    const options = termOptions(given, key, defaults.profiles);
    resolveOptions(options.request, defaults, key);
    // A hold that surrounds this call says nothing about the terms, which outlive it.
    const candidate = context.outside(() => new Candidacy(role, key, work, options, this.core, this.atWork));
    this.candidates.add(candidate);
    void candidate.ended.then(() => this.candidates.delete(candidate));
    return candidate;
  }

  get leaderships(): readonly Leadership[] {
    return [...this.candidates];
  }

  /** Nobody stands any more, and who leads is told so. */
  close(): void {
    for (const candidate of this.candidates) candidate.leave('the application shuts down');
  }
}

// The lines of the log about terms, in the words of the one who has to do something about them.

/** An error with the place where it was thrown, which nobody else could name, because nobody awaits a term. `restMs`: 0 when it stands no more. */
function failureText(role: string, cause: unknown, restMs: number): string {
  const next = restMs === 0 ? 'This process does not stand for election any more.' : `This process stands for election again in ${Math.round(restMs)} ms.`;
  return `Role '${role}': the function of the leader failed, so the term is over. ${next} ${textOf(cause)}`;
}

function cannotStandText(role: string, cause: unknown, restMs: number): string {
  return `Role '${role}': this process cannot stand for election, and tries again in ${Math.round(restMs)} ms. ${messageOf(cause)}`;
}

function overstayedText(role: string): string {
  return (
    `Role '${role}': the term was lost ${OVERSTAYED_MS} ms ago, and its function still runs, possibly at the same time as that of the next leader. ` +
    'This process does not stand for election again until it has ended. Let it end when the signal of the term aborts.'
  );
}

function textOf(error: unknown): string {
  const stack = seen(() => (error as { readonly stack?: unknown }).stack, undefined);
  return typeof stack === 'string' ? stack : messageOf(error);
}
