/** What leading looks like from outside: the handle that `lead` gives, and its options. */
import type { Lease } from '../port/lease.js';
import type { CallSite, LockOptions, LockProfiles, WithLockOptions } from '../port/lock-options.js';
import type { HolderState } from '../port/lock-state.js';
import { checkOptions, type NamesOf, type OptionList } from '../port/option-names.js';
import { integerProblem } from '../port/option-values.js';
import { withProfile } from '../port/profiles.js';

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

const names: NamesOf<LeadOptions & CallSite> = { leaseMs: true, graceMs: true, minReplicas: true, restMs: true, label: true, profile: true, template: true, expectsBusy: true };
const DEFAULT_REST_MS = 1_000;
const MAX_REST_MS = 3_600_000;
export const LEAD_OPTIONS: OptionList = {
  names,
  example: '{ restMs: 5000 }',
  valueProblem: ({ restMs }) => integerProblem('restMs', restMs, 0, MAX_REST_MS),
};

/** How a candidate asks for its term, and how long it rests between two. */
export interface TermOptions {
  readonly restMs: number;
  readonly request: WithLockOptions & CallSite;
}

/** Completes the options of a candidate. The request is checked by the service that sends it. @throws LockUsageError */
export function termOptions(given: LeadOptions & CallSite, key: string, profiles: LockProfiles): TermOptions {
  checkOptions(given, LEAD_OPTIONS, key);
  const { restMs = DEFAULT_REST_MS, ...options } = withProfile(given, profiles, LEAD_OPTIONS, key);
  // Defaults of the module are for calls, which end. A term has no end of its own, and a candidate waits for its turn for ever.
  const unending = { mode: 'write', waitMs: Infinity, renew: true, maxHoldMs: Infinity, minHoldMs: 0, onLost: 'ignore' } as const;
  return { restMs, request: { template: key, ...options, ...unending } };
}
