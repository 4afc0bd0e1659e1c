/**
 * Completes the options of calls and of the module with their defaults, and validates them. The options of hand-offs, of leaders and
 * of the module's store are validated where they are declared.
 */
import type { CallSite, LockDefaults, ResolvedDefaults, ResolvedOptions, WithLockOptions } from './lock-options.js';
import type { StoreCapabilities } from './lock-store.js';
import { optionsProblem, type OptionList } from './option-names.js';
import { checkBoolean, checkInteger, invalidOption, LONE_SURROGATE, checkOneOf, show } from './option-values.js';
import { WITH_LOCK_OPTIONS } from './request-options.js';

const DEFAULTS: ResolvedDefaults = {
  mode: 'write',
  leaseMs: 30_000,
  waitMs: 10_000,
  renew: true,
  maxHoldMs: Infinity,
  minHoldMs: 0,
  graceMs: 0,
  owner: undefined,
  permits: undefined,
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

/** The longest time that an option can name, in ms: some 35 years. */
export const LONGEST_MS = 2 ** 40;
/** The shortest lease: a shorter one could not be renewed in time over a network. */
const SHORTEST_LEASE_MS = 100;
const WHY_NOT_SHORTER = `${SHORTEST_LEASE_MS} ms is the shortest lease, because a shorter one could not be renewed in time over a network`;
const WHY_NOT_LONGER = 'maxLeaseMs is the longest lease; raise it for all processes';
/** The longest owner name, in characters, because the name is stored in the record of each of its locks. */
const LONGEST_OWNER = 128;

/** The longest label, in bytes, because the label is stored in the record of each of its locks. */
export const LONGEST_LABEL_BYTES = 48;
/** The most holds that a lock can have at a time: each of them stands in the record of the lock. */
const MAX_PERMITS = 10_000;

/** Completes and validates the defaults of a module. @throws LockUsageError */
export function resolveDefaults(given: LockDefaults = {}): ResolvedDefaults {
  const maxLeaseMs = given.maxLeaseMs ?? DEFAULTS.maxLeaseMs;
  const complete: ResolvedDefaults = {
    ...merge(given, { ...DEFAULTS, leaseMs: Math.max(SHORTEST_LEASE_MS, Math.min(DEFAULTS.leaseMs, maxLeaseMs - (given.graceMs ?? 0))) }),
    maxLeaseMs,
    handOn: given.handOn ?? DEFAULTS.handOn,
    commandTimeoutMs: given.commandTimeoutMs ?? DEFAULTS.commandTimeoutMs,
    shutdownGraceMs: given.shutdownGraceMs ?? DEFAULTS.shutdownGraceMs,
  };
  checkInteger('maxLeaseMs', complete.maxLeaseMs, SHORTEST_LEASE_MS, LONGEST_MS);
  checkInteger('handOn', complete.handOn, 1, 1_000_000);
  checkInteger('commandTimeoutMs', complete.commandTimeoutMs, 10, 600_000);
  checkInteger('shutdownGraceMs', complete.shutdownGraceMs, 0, 3_600_000);
  validate(complete, complete);
  return complete;
}

/**
 * Completes and validates the options of one call; `list` has the names that it may use.
 * @throws LockUsageError, which names the option and the key
 */
export function resolveOptions(
  given: (WithLockOptions & CallSite) | undefined,
  defaults: ResolvedDefaults,
  key?: string,
  list: OptionList = WITH_LOCK_OPTIONS,
): ResolvedOptions {
  if (given === undefined) return defaults;
  const problem = optionsProblem(given, list);
  if (problem !== undefined) throw invalidOption(problem, key);
  const complete = merge(given, defaults);
  validate(complete, defaults, key);
  return complete;
}

/** Takes each option that was given, else its default. Spreading the objects would not do, because `undefined` means "not given". */
function merge(given: WithLockOptions & CallSite, defaults: ResolvedOptions): ResolvedOptions {
  return {
    mode: given.mode ?? defaults.mode,
    leaseMs: given.leaseMs ?? defaults.leaseMs,
    waitMs: given.waitMs ?? defaults.waitMs,
    renew: given.renew ?? defaults.renew,
    maxHoldMs: given.maxHoldMs ?? defaults.maxHoldMs,
    minHoldMs: given.minHoldMs ?? defaults.minHoldMs,
    graceMs: given.graceMs ?? defaults.graceMs,
    owner: given.owner ?? defaults.owner,
    permits: given.permits ?? defaults.permits,
    signal: given.signal ?? defaults.signal,
    minReplicas: given.minReplicas ?? defaults.minReplicas,
    onLost: given.onLost ?? defaults.onLost,
    label: given.label ?? defaults.label,
    template: given.template ?? defaults.template,
    expectsBusy: given.expectsBusy ?? defaults.expectsBusy,
  };
}

/** Refuses a lease that is too short or too long. @throws LockUsageError */
function checkLeaseMs(leaseMs: number, { maxLeaseMs }: Pick<ResolvedDefaults, 'maxLeaseMs'>, key?: string): void {
  const tooShort = Number.isInteger(leaseMs) && leaseMs < SHORTEST_LEASE_MS;
  checkInteger('leaseMs', leaseMs, SHORTEST_LEASE_MS, maxLeaseMs, key, tooShort ? WHY_NOT_SHORTER : WHY_NOT_LONGER);
}

/** Refuses a length for a renewal of a hold with this grace. @throws LockUsageError */
export function checkRenewal(leaseMs: number, graceMs: number, { maxLeaseMs }: Pick<ResolvedDefaults, 'maxLeaseMs'>, key: string): void {
  checkLeaseMs(leaseMs, { maxLeaseMs: maxLeaseMs - graceMs }, key);
}

/** Refuses a grace with which the lock would stay taken for longer than any lease may. @throws LockUsageError */
function checkGraceMs({ graceMs, leaseMs, minHoldMs }: ResolvedOptions, { maxLeaseMs }: ResolvedDefaults, key?: string): void {
  const longest = Math.max(leaseMs, minHoldMs);
  if (longest + graceMs <= maxLeaseMs) return;
  const name = leaseMs >= minHoldMs ? 'leaseMs' : 'minHoldMs';
  throw invalidOption(`${name} (${longest}) and graceMs (${graceMs}) together are longer than maxLeaseMs (${maxLeaseMs}). Shorten one of them, or raise maxLeaseMs for all processes`, key);
}

/** Refuses permits where there are none: of several locks in one call, or in a store that has none. @throws LockUsageError */
export function checkPermitsOf(keys: readonly unknown[], permits: number, capabilities: StoreCapabilities | undefined): void {
  const where = typeof keys[0] === 'string' ? keys[0] : undefined;
  if (keys.length > 1) throw invalidOption(`permits (${permits}) are those of one lock, and this call is for ${keys.length}. Take the locks in calls of their own`, where);
  if (capabilities?.permits !== false) return;
  throw invalidOption(`permits (${permits}) need one place that counts them, and a Redlock has none: use one Redis, Sentinel or a Cluster for this lock`, where);
}

/** Refuses a number of permits that cannot be, and options that do not go with it. @throws LockUsageError */
function checkPermits({ permits, mode, owner }: ResolvedOptions, key?: string): void {
  if (permits === undefined) return;
  checkInteger('permits', permits, 1, MAX_PERMITS, key);
  if (mode === 'read') throw invalidOption("permits do not go with mode 'read': readers share a lock without a number. Leave one of them out", key);
  if (owner !== undefined) throw invalidOption('permits do not go with owner: the calls of an owner share one hold, and each permit is a hold of its own. Leave one of them out', key);
}

function validate(options: ResolvedOptions, limits: ResolvedDefaults, key?: string): void {
  checkOneOf('mode', options.mode, ['read', 'write'], key);
  checkInteger('graceMs', options.graceMs, 0, limits.maxLeaseMs, key, 'maxLeaseMs bounds it; raise it for all processes');
  checkLeaseMs(options.leaseMs, limits, key);
  if (options.waitMs !== Infinity) checkInteger('waitMs', options.waitMs, 0, LONGEST_MS, key);
  checkBoolean('renew', options.renew, key);
  checkInteger('minHoldMs', options.minHoldMs, 0, limits.maxLeaseMs, key, 'maxLeaseMs bounds it; raise it for all processes');
  if (options.maxHoldMs !== Infinity) checkInteger('maxHoldMs', options.maxHoldMs, SHORTEST_LEASE_MS, LONGEST_MS, key);
  if (options.maxHoldMs < options.minHoldMs) {
    throw invalidOption(`maxHoldMs (${options.maxHoldMs}) is shorter than minHoldMs (${options.minHoldMs})`, key);
  }
  checkGraceMs(options, limits, key);
  checkInteger('minReplicas', options.minReplicas, 0, 100, key);
  checkOneOf('onLost', options.onLost, ['throw', 'ignore'], key);
  if (options.owner !== undefined && !isOwner(options.owner)) {
    throw invalidOption(`expected owner to be a string of 1 to ${LONGEST_OWNER} characters without half a surrogate pair, got ${show(options.owner)}`, key);
  }
  if (options.label !== undefined && !isLabel(options.label)) {
    throw invalidOption(`expected label to be a string of 1 to ${LONGEST_LABEL_BYTES} bytes, got ${show(options.label)}`, key);
  }
  checkPermits(options, key);
  if (options.signal !== undefined && typeof options.signal.addEventListener !== 'function') {
    throw invalidOption(`expected signal to be an AbortSignal, got ${show(options.signal)}`, key);
  }
}

function isOwner(value: unknown): boolean {
  return typeof value === 'string' && value !== '' && value.length <= LONGEST_OWNER && !LONE_SURROGATE.test(value);
}

function isLabel(label: unknown): boolean {
  return typeof label === 'string' && label !== '' && Buffer.byteLength(label) <= LONGEST_LABEL_BYTES;
}
