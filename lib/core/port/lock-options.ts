/**
 * What a caller may ask for: the options, their defaults, and the only place where they are validated.
 */
import type { LockMode } from './lock-mode.js';
import { optionsProblem, type OptionList } from './option-names.js';
import { boolean, integer, invalid, oneOf, show } from './option-values.js';
import { WITH_LOCK_OPTIONS } from './request-options.js';

/** Options of one request for a lock. Module options of the same name set the default. */
export interface LockOptions {
  /**
   * `write` excludes everybody, `read` shares with other readers.
   * @default 'write'
   */
  mode?: LockMode | undefined;
  /**
   * Length of the lease in ms that the watchdog keeps renewing while the work goes on. It bounds how long the lock
   * stays taken after a crash, not how long the work may take. Giving it does not switch the watchdog off. From 100 to
   * `maxLeaseMs`.
   * @default 30000
   */
  leaseMs?: number | undefined;
  /**
   * Longest wait in ms, an outage of Redis included; then LockTimeoutError, or LockStoreError when the store could not
   * be asked. 0 does not wait, Infinity waits for ever. A LockTimeoutError may take 100 ms more: it says who holds the lock.
   * @default 10000
   */
  waitMs?: number | undefined;
  /**
   * false: a fixed lease that ends after `leaseMs`, finished or not.
   * @default true
   */
  renew?: boolean | undefined;
  /**
   * No renewal sets an end later than the start of the hold plus this many ms; then the signal aborts. So a hung
   * handler cannot hold for ever. At least 100.
   * @default none
   */
  maxHoldMs?: number | undefined;
  /**
   * The lock stays taken at least this many ms although the work ended: release sets the end in the store, so no timer
   * runs here and it survives a shutdown. At most `maxLeaseMs`. For jobs that must run once per firing on clocks that differ.
   * @default 0
   */
  minHoldMs?: number | undefined;
  /**
   * Requests that name the owner of the present hold join it, from any process, each with its own lease: they share its
   * mode and its fence and pass the queue. They never upgrade from read to write. 1 to 128 characters.
   * An owner has at most 1,000 holds of one lock at a time; the next rejects with LockUsageError.
   * @default none
   */
  owner?: string | undefined;
  /** Stops the wait when it aborts; the call rejects with `signal.reason`. */
  signal?: AbortSignal | undefined;
  /**
   * A grant or renewal only counts when this many replicas acknowledged it (one Redis, Sentinel, Cluster); each costs a
   * command with WAIT more. Too few of them are LockStoreError, as is any number but 0 on the embedded store or a Redlock.
   * @default 0
   */
  minReplicas?: number | undefined;
}

/** What becomes of work that ended after its lease was lost: `throw` rejects with LockLostError, `ignore` returns the result. */
export type OnLost = 'throw' | 'ignore';

/** Where in the code a request comes from; the decorators fill it in. */
export interface CallSite {
  /** `Class.method`, at most 48 bytes of it are kept with the lock. */
  label?: string | undefined;
  /** The key template before rendering: what telemetry groups by. */
  template?: string | undefined;
  /** A busy lock is no failure for this caller: nobody looks for its holder in order to tell why. */
  expectsBusy?: boolean | undefined;
}

/** Options of {@link LockService.withLock}. */
export interface WithLockOptions extends LockOptions {
  /** @default 'throw' */
  onLost?: OnLost | undefined;
}

/** Defaults that a module sets for all its requests. */
export interface LockDefaults
  extends Pick<
    WithLockOptions,
    'leaseMs' | 'waitMs' | 'renew' | 'maxHoldMs' | 'minHoldMs' | 'minReplicas' | 'onLost'
  > {
  /**
   * Longer leases are refused. Part of what all processes must agree on (checked at boot), because a node of a Redlock
   * that lost its memory stays out for this long. In ms.
   * @default 60000
   */
  maxLeaseMs?: number | undefined;
  /**
   * How many callers of one process may follow each other on one grant while other processes wait; 1 is strict FIFO over
   * all processes, at one more command a hand-over.
   * @default 16
   */
  handOn?: number | undefined;
  /**
   * How long a command to the store may take before its outcome counts as unknown, in ms. A renewal gets a third of its
   * lease when that is shorter, so that another try fits in.
   * @default 2000
   */
  commandTimeoutMs?: number | undefined;
  /**
   * How long running holds may go on after shutdown began, in ms; then their signals abort.
   * @default 10000
   */
  shutdownGraceMs?: number | undefined;
}

/** A request as the engine sees it: complete and valid. */
export interface ResolvedOptions {
  readonly mode: LockMode;
  readonly leaseMs: number;
  readonly waitMs: number;
  readonly renew: boolean;
  readonly maxHoldMs: number;
  readonly minHoldMs: number;
  readonly owner: string | undefined;
  readonly signal: AbortSignal | undefined;
  readonly minReplicas: number;
  readonly onLost: OnLost;
  readonly label: string | undefined;
  readonly template: string | undefined;
  readonly expectsBusy: boolean | undefined;
}

/** Module defaults, complete and valid. */
export interface ResolvedDefaults extends ResolvedOptions {
  readonly maxLeaseMs: number;
  readonly handOn: number;
  readonly commandTimeoutMs: number;
  readonly shutdownGraceMs: number;
}

const DEFAULTS: ResolvedDefaults = {
  mode: 'write',
  leaseMs: 30_000,
  waitMs: 10_000,
  renew: true,
  maxHoldMs: Infinity,
  minHoldMs: 0,
  owner: undefined,
  signal: undefined,
  minReplicas: 0,
  onLost: 'throw',
  label: undefined,
  template: undefined,
  expectsBusy: undefined,
  maxLeaseMs: 60_000,
  handOn: 16,
  commandTimeoutMs: 2_000,
  shutdownGraceMs: 10_000,
};

/** A lease shorter than this cannot be renewed in time over a network. */
const SHORTEST_LEASE_MS = 100;
const WHY_NOT_SHORTER = `${SHORTEST_LEASE_MS} ms is the shortest lease, because a shorter one could not be renewed in time over a network`;
const WHY_NOT_LONGER = 'maxLeaseMs is the longest lease; raise it for all processes';
/** Longer owner names do not belong into every record of a lock. */
const LONGEST_OWNER = 128;

/** Completes and checks the module's defaults. @throws LockUsageError */
export function resolveDefaults(given: LockDefaults = {}): ResolvedDefaults {
  const maxLeaseMs = given.maxLeaseMs ?? DEFAULTS.maxLeaseMs;
  const complete: ResolvedDefaults = {
    ...merge(given, { ...DEFAULTS, leaseMs: Math.min(DEFAULTS.leaseMs, maxLeaseMs) }),
    maxLeaseMs,
    handOn: given.handOn ?? DEFAULTS.handOn,
    commandTimeoutMs: given.commandTimeoutMs ?? DEFAULTS.commandTimeoutMs,
    shutdownGraceMs: given.shutdownGraceMs ?? DEFAULTS.shutdownGraceMs,
  };
  integer('maxLeaseMs', complete.maxLeaseMs, SHORTEST_LEASE_MS, 2 ** 40);
  integer('handOn', complete.handOn, 1, 1_000_000);
  integer('commandTimeoutMs', complete.commandTimeoutMs, 10, 600_000);
  integer('shutdownGraceMs', complete.shutdownGraceMs, 0, 3_600_000);
  validate(complete, complete);
  return complete;
}

/** Completes and checks the options of one request, of those in `list`. @throws LockUsageError that names the option and the key */
export function resolveOptions(
  given: (WithLockOptions & CallSite) | undefined,
  defaults: ResolvedDefaults,
  key?: string,
  list: OptionList = WITH_LOCK_OPTIONS,
): ResolvedOptions {
  if (given === undefined) return defaults;
  const problem = optionsProblem(given, list);
  if (problem !== undefined) throw invalid(problem, key);
  const complete = merge(given, defaults);
  validate(complete, defaults, key);
  return complete;
}

/** Field by field: this runs for every call, and `undefined` means "not given". */
function merge(given: WithLockOptions & CallSite, defaults: ResolvedOptions): ResolvedOptions {
  return {
    mode: given.mode ?? defaults.mode,
    leaseMs: given.leaseMs ?? defaults.leaseMs,
    waitMs: given.waitMs ?? defaults.waitMs,
    renew: given.renew ?? defaults.renew,
    maxHoldMs: given.maxHoldMs ?? defaults.maxHoldMs,
    minHoldMs: given.minHoldMs ?? defaults.minHoldMs,
    owner: given.owner ?? defaults.owner,
    signal: given.signal ?? defaults.signal,
    minReplicas: given.minReplicas ?? defaults.minReplicas,
    onLost: given.onLost ?? defaults.onLost,
    label: given.label ?? defaults.label,
    template: given.template ?? defaults.template,
    expectsBusy: given.expectsBusy ?? defaults.expectsBusy,
  };
}

/** @throws LockUsageError */
export function checkLeaseMs(leaseMs: number, { maxLeaseMs }: Pick<ResolvedDefaults, 'maxLeaseMs'>, key?: string): void {
  const tooShort = Number.isInteger(leaseMs) && leaseMs < SHORTEST_LEASE_MS;
  integer('leaseMs', leaseMs, SHORTEST_LEASE_MS, maxLeaseMs, key, tooShort ? WHY_NOT_SHORTER : WHY_NOT_LONGER);
}

function validate(options: ResolvedOptions, limits: ResolvedDefaults, key?: string): void {
  oneOf('mode', options.mode, ['read', 'write'], key);
  checkLeaseMs(options.leaseMs, limits, key);
  if (options.waitMs !== Infinity) integer('waitMs', options.waitMs, 0, 2 ** 40, key);
  boolean('renew', options.renew, key);
  integer('minHoldMs', options.minHoldMs, 0, limits.maxLeaseMs, key, 'maxLeaseMs bounds it; raise it for all processes');
  if (options.maxHoldMs !== Infinity) integer('maxHoldMs', options.maxHoldMs, SHORTEST_LEASE_MS, 2 ** 40, key);
  if (options.maxHoldMs < options.minHoldMs) {
    throw invalid(`maxHoldMs (${options.maxHoldMs}) is shorter than minHoldMs (${options.minHoldMs})`, key);
  }
  integer('minReplicas', options.minReplicas, 0, 100, key);
  oneOf('onLost', options.onLost, ['throw', 'ignore'], key);
  if (options.owner !== undefined && (typeof options.owner !== 'string' || options.owner === '' || options.owner.length > LONGEST_OWNER)) {
    throw invalid(`expected owner to be a string of 1 to ${LONGEST_OWNER} characters, got ${show(options.owner)}`, key);
  }
  if (options.signal !== undefined && typeof options.signal?.addEventListener !== 'function') {
    throw invalid(`expected signal to be an AbortSignal, got ${show(options.signal)}`, key);
  }
}
