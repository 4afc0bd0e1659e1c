/**
 * Completes the options of calls and of the module with their defaults, and validates them. The options of hand-offs, of leaders and
 * of the module's store are validated where they are declared.
 */
import type { CallSite, LockDefaults, ResolvedDefaults, ResolvedOptions, WithLockOptions } from './lock-options.js';
import type { StoreCapabilities } from './lock-store.js';
import { checkOptions, type OptionList } from './option-names.js';
import { booleanProblem, integerProblem, invalidOption, isSignal, LONE_SURROGATE, oneOfProblem, show } from './option-values.js';
import { completeProfiles, profileText, withProfile } from './profiles.js';
import { MODES, WITH_LOCK_OPTIONS } from './request-options.js';

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
  awaitRelease: true,
  label: undefined,
  template: undefined,
  expectsBusy: undefined,
  maxLeaseMs: 60_000,
  handOn: 16,
  commandTimeoutMs: 2_000,
  shutdownGraceMs: 10_000,
  profiles: {},
};

/** The longest time that an option can name, in ms: some 35 years. */
export const LONGEST_MS = 2 ** 40;
/** The shortest lease: a shorter one could not be renewed in time over a network. */
const SHORTEST_LEASE_MS = 100;
const WHY_NOT_SHORTER = `${SHORTEST_LEASE_MS} ms is the shortest lease, because a shorter one could not be renewed in time over a network`;
const WHY_NOT_LONGER = 'maxLeaseMs is the longest lease; raise it for all processes';
const BOUNDED = 'maxLeaseMs bounds it; raise it for all processes';
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
    profiles: completeProfiles(given.profiles),
  };
  refuse(limitProblem(complete) ?? valueProblem(complete, complete));
  for (const [name, profile] of Object.entries(complete.profiles)) refuse(valueProblem(merge(profile, complete), complete), undefined, profileText(name));
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
  checkOptions(given, list, key);
  const complete = merge(withProfile(given, defaults.profiles, list, key), defaults);
  refuse(valueProblem(complete, defaults), key);
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
    // Whoever asks for replicas waits for the release too, unless the call says both, which is refused.
    awaitRelease: given.awaitRelease ?? (given.minReplicas ? true : defaults.awaitRelease),
    label: given.label ?? defaults.label,
    template: given.template ?? defaults.template,
    expectsBusy: given.expectsBusy ?? defaults.expectsBusy,
  };
}

/** Refuses a length for a renewal of a hold with this grace. @throws LockUsageError */
export function checkRenewal(leaseMs: number, graceMs: number, { maxLeaseMs }: Pick<ResolvedDefaults, 'maxLeaseMs'>, key: string): void {
  refuse(leaseProblem(leaseMs, maxLeaseMs - graceMs), key);
}

/** Refuses permits where there are none: of several locks in one call, or in a store that has none. @throws LockUsageError */
export function checkPermitsOf(keys: readonly unknown[], permits: number, capabilities: StoreCapabilities | undefined): void {
  const where = typeof keys[0] === 'string' ? keys[0] : undefined;
  if (keys.length > 1) throw invalidOption(`permits (${permits}) are those of one lock, and this call is for ${keys.length}. Take the locks in calls of their own`, where);
  if (capabilities?.permits !== false) return;
  throw invalidOption(`permits (${permits}) need one place that counts them, and a Redlock has none: use one Redis, Sentinel or a Cluster for this lock`, where);
}

function refuse(problem: string | undefined, key?: string, of?: string): void {
  if (problem !== undefined) throw invalidOption(problem, key, of);
}

// Each function below says what is wrong, as the end of a sentence; undefined when nothing is.

function limitProblem({ maxLeaseMs, handOn, commandTimeoutMs, shutdownGraceMs }: ResolvedDefaults): string | undefined {
  return (
    integerProblem('maxLeaseMs', maxLeaseMs, SHORTEST_LEASE_MS, LONGEST_MS) ??
    integerProblem('handOn', handOn, 1, 1_000_000) ??
    integerProblem('commandTimeoutMs', commandTimeoutMs, 10, 600_000) ??
    integerProblem('shutdownGraceMs', shutdownGraceMs, 0, 3_600_000)
  );
}

function valueProblem(options: ResolvedOptions, { maxLeaseMs }: Pick<ResolvedDefaults, 'maxLeaseMs'>): string | undefined {
  return (
    oneOfProblem('mode', options.mode, MODES) ??
    integerProblem('graceMs', options.graceMs, 0, maxLeaseMs, BOUNDED) ??
    leaseProblem(options.leaseMs, maxLeaseMs) ??
    (options.waitMs === Infinity ? undefined : integerProblem('waitMs', options.waitMs, 0, LONGEST_MS)) ??
    booleanProblem('renew', options.renew) ??
    integerProblem('minHoldMs', options.minHoldMs, 0, maxLeaseMs, BOUNDED) ??
    (options.maxHoldMs === Infinity ? undefined : integerProblem('maxHoldMs', options.maxHoldMs, SHORTEST_LEASE_MS, LONGEST_MS)) ??
    timesProblem(options, maxLeaseMs) ??
    integerProblem('minReplicas', options.minReplicas, 0, 100) ??
    oneOfProblem('onLost', options.onLost, ['throw', 'ignore']) ??
    booleanProblem('awaitRelease', options.awaitRelease) ??
    (options.awaitRelease || options.minReplicas === 0 ? undefined : 'awaitRelease: false does not go with minReplicas: what replicas have acknowledged is worth waiting for. Leave one of them out') ??
    (options.owner === undefined ? undefined : ownerProblem(options.owner)) ??
    (options.label === undefined ? undefined : labelProblem(options.label)) ??
    (options.permits === undefined ? undefined : permitsProblem(options)) ??
    (options.signal === undefined || isSignal(options.signal) ? undefined : `expected signal to be an AbortSignal, got ${show(options.signal)}`)
  );
}

function leaseProblem(leaseMs: number, maxLeaseMs: number): string | undefined {
  const tooShort = Number.isInteger(leaseMs) && leaseMs < SHORTEST_LEASE_MS;
  return integerProblem('leaseMs', leaseMs, SHORTEST_LEASE_MS, maxLeaseMs, tooShort ? WHY_NOT_SHORTER : WHY_NOT_LONGER);
}

/** Compares the times with each other. A grace, for one, must not keep the lock taken for longer than any lease may. */
function timesProblem({ graceMs, leaseMs, minHoldMs, maxHoldMs }: ResolvedOptions, maxLeaseMs: number): string | undefined {
  if (maxHoldMs < minHoldMs) return `maxHoldMs (${maxHoldMs}) is shorter than minHoldMs (${minHoldMs})`;
  const longest = Math.max(leaseMs, minHoldMs);
  if (longest + graceMs <= maxLeaseMs) return undefined;
  const name = leaseMs >= minHoldMs ? 'leaseMs' : 'minHoldMs';
  return `${name} (${longest}) and graceMs (${graceMs}) together are longer than maxLeaseMs (${maxLeaseMs}). Shorten one of them, or raise maxLeaseMs for all processes`;
}

function ownerProblem(owner: unknown): string | undefined {
  if (typeof owner === 'string' && owner !== '' && owner.length <= LONGEST_OWNER && !LONE_SURROGATE.test(owner)) return undefined;
  return `expected owner to be a string of 1 to ${LONGEST_OWNER} characters without half a surrogate pair, got ${show(owner)}`;
}

function labelProblem(label: unknown): string | undefined {
  if (typeof label === 'string' && label !== '' && Buffer.byteLength(label) <= LONGEST_LABEL_BYTES) return undefined;
  return `expected label to be a string of 1 to ${LONGEST_LABEL_BYTES} bytes, got ${show(label)}`;
}

function permitsProblem({ permits, mode, owner }: ResolvedOptions): string | undefined {
  const problem = integerProblem('permits', permits, 1, MAX_PERMITS);
  if (problem !== undefined) return problem;
  if (mode === 'read') return "permits do not go with mode 'read': readers share a lock without a number. Leave one of them out";
  if (owner !== undefined) return 'permits do not go with owner: the calls of an owner share one hold, and each permit is a hold of its own. Leave one of them out';
  return undefined;
}
