/**
 * The options of calls and modules, from top to bottom: the checks of values; lists of the names that a call takes; the defaults and the
 * checks of all options of calls; the names that each call takes; completion; profiles. The options of leaders and of the module's store are
 * declared where they are used.
 */
import type {
  AbortSignalLike, AdoptOptions, CallSite, HandOffOptions, LockDefaults, LockMode, LockOptions, LockProfile, LockProfiles, ResolvedDefaults,
  ResolvedOptions, WithAdoptedOptions, WithLockOptions,
} from './lock-options.js';
import type { StoreCapabilities } from './lock-store.js';
import type { ListOptions } from './lock-state.js';
import { LockUsageError, quoted, seen } from './errors.js';

/** Half of a surrogate pair. UTF-8 cannot encode it, so two different texts would become one key, or one owner. */
export const LONE_SURROGATE = /\p{Cs}/u;

// The checks of values.

/**
 * What is wrong with the value of an option: the end of a sentence that says what was expected and what was given. Undefined when the value
 * can be meant. What throws the sentence puts in front whose option it is. A check is not asked for an option that was not given.
 */
type Check = (name: string, value: unknown, maxLeaseMs: number) => string | undefined;

/** The check of an option that takes what `isValid` is true for. */
export function expecting(what: string, isValid: (value: unknown) => boolean): Check {
  return (name, value) => (isValid(value) ? undefined : `expected ${name} to be ${what}, got ${show(value)}`);
}

/** The check of a whole number. `most`: by default maxLeaseMs. */
export function whole(least: number, most?: number, hint?: string): Check {
  return (name, value, maxLeaseMs) => {
    const end = most ?? maxLeaseMs;
    if (Number.isInteger(value) && Number(value) >= least && Number(value) <= end) return undefined;
    const range = end === Infinity ? `from ${least}` : `from ${least} to ${end}`;
    const why = typeof value === 'string' ? 'a text; make a number of it, as Number() does' : hint;
    return `expected ${name} to be a whole number ${range}, got ${show(value)}${why ? ` (${why})` : ''}`;
  };
}

export function oneOf(...allowed: readonly string[]): Check {
  return expecting(allowed.map((word) => `'${word}'`).join(' or '), (value) => allowed.includes(value as string));
}

export const flag = expecting('true or false', (value) => typeof value === 'boolean');

/** True if this can be the signal of a call: an AbortSignal, or one of another library that can be asked and listened to as one. */
export function isSignal(given: unknown): given is AbortSignalLike {
  return seen(() => {
    const { aborted, addEventListener } = given as Partial<AbortSignalLike>;
    return typeof aborted === 'boolean' && typeof addEventListener === 'function';
  }, false);
}

/** The error about an option. It begins with `of`: by default the lock whose key is given. */
export function invalidOption(problem: string, key?: string, of = key === undefined ? 'Lock options' : `Lock '${key}'`): LockUsageError {
  return new LockUsageError(`${of}: ${problem}.`, { key });
}

/**
 * How a value that a caller gave stands in a message. Objects are not written out: one without a prototype has no text, as in GraphQL. A URL
 * is not repeated, because a variable that was mixed up with another one may have put the password of the server there.
 */
export function show(value: unknown): string {
  if (typeof value === 'string') return value.includes('://') ? 'a URL' : `'${value}'`;
  if (typeof value === 'function') return 'a function';
  if (typeof value === 'object' && value !== null) return seen(() => Array.isArray(value), false) ? 'an array' : 'an object';
  return String(value);
}

// The names of options. A misspelt name, or one of another library, is refused, because it would silently mean a default.

/** What a caller gave as options, when it is an object at all. */
type GivenOptions = Readonly<Record<string, unknown>>;

/** The options that one call takes. */
export interface OptionList {
  /** Each option with the check of its value; `true` stands for one that is checked together with others, elsewhere. */
  readonly names: Readonly<Record<string, Check | true>>;
  /** How options of this call are written, for the message to a caller who gave something else. */
  readonly example: string;
  /** How messages about these options begin. @default the lock that the call is for */
  readonly of?: string;
  /** How messages about these options end: with what the caller can do instead. */
  readonly advice?: string;
  /** True if null is a value among these options; elsewhere it would silently mean the default. */
  readonly nullable?: true;
}

/** All names of the options `T`. With this type the compiler refuses a list in which one is missing. */
export type NamesOf<T> = Readonly<Record<keyof T, Check | true>>;

/** Checks the options of a call, which is for the lock `key` if one is given. @throws LockUsageError */
export function checkOptions(given: unknown, list: OptionList, key?: string): void {
  const problem = optionsProblem(given, list);
  if (problem !== undefined) throw invalidOption(list.advice === undefined ? problem : `${problem}. ${list.advice}`, key, list.of);
}

/** What is wrong with `given` as the options of a call, as the end of a sentence; undefined when they are valid. */
export function optionsProblem(given: unknown, list: OptionList): string | undefined {
  if (!isObject(given)) return shapeProblem(given, list);
  // `in` also walks over inherited names: options may be an instance of a class, and an AbortSignal given as options has only those.
  for (const name in given) {
    if (!Object.hasOwn(list.names, name) && !(name in Object.prototype)) return unknownOption(name, list.names);
    if (given[name] === null && !list.nullable) return `expected ${name} to have a value or to be left out, got null`;
  }
  return valueProblem(given, list.names, Infinity);
}

/** What is wrong with the first of these values that cannot be as it is. */
function valueProblem(values: object, checks: OptionList['names'], maxLeaseMs: number): string | undefined {
  for (const name in checks) {
    const check = checks[name]!;
    if (check === true) continue;
    const value: unknown = Reflect.get(values, name);
    const problem = value === undefined ? undefined : check(name, value, maxLeaseMs);
    if (problem !== undefined) return problem;
  }
  return undefined;
}

/** What is wrong with `given` when it is not an object, as the end of a sentence; undefined when it is one. */
export function shapeProblem(given: unknown, { example }: OptionList): string | undefined {
  return isObject(given) ? undefined : `expected options to be an object such as ${example}, got ${show(given)}`;
}

function isObject(given: unknown): given is GivenOptions {
  return typeof given === 'object' && given !== null && !Array.isArray(given);
}

/** A short list of names stands in the message; those of a client of Redis would fill the page. */
const MAX_NAMES_SHOWN = 30;

function unknownOption(name: string, names: OptionList['names']): string {
  const known = Object.keys(names).filter((one) => one !== 'template' && one !== 'expectsBusy');
  return `unknown option '${name}'${known.length > MAX_NAMES_SHOWN ? '' : `; expected ${known.join(', ')}`}`;
}

/** The longest time that an option can name, in ms: some 35 years. */
export const LONGEST_MS = 2 ** 40;
/** The shortest lease: a shorter one could not be renewed in time over a network. */
const SHORTEST_LEASE_MS = 100;
/** The longest owner name, in characters, because the name is stored in the record of each of its locks. */
const LONGEST_OWNER = 128;
/** The longest label, in bytes, because the label is stored in the record of each of its locks. */
export const LONGEST_LABEL_BYTES = 48;
/** The most holds that a lock can have at a time: each of them stands in the record of the lock. */
const MAX_PERMITS = 10_000;

// All options of calls and of modules: what counts when one is not given, and how its value is checked.

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
  label: undefined,
  onLost: 'throw',
  awaitRelease: true,
  template: undefined,
  expectsBusy: undefined,
  maxLeaseMs: 60_000,
  handOn: 16,
  commandTimeoutMs: 2_000,
  shutdownGraceMs: 10_000,
  profiles: {},
};

export const isMode = oneOf('read', 'write');
const isLeaseMs = whole(SHORTEST_LEASE_MS, undefined, `${SHORTEST_LEASE_MS} ms is the shortest lease, and maxLeaseMs the longest; raise that`);
const isWithinLease = whole(0, undefined, 'maxLeaseMs bounds it; raise it');
const orForEver = (check: Check): Check => (name, value, maxLeaseMs) => (value === Infinity ? undefined : check(name, value, maxLeaseMs));
const isOwner = (value: unknown): boolean => typeof value === 'string' && value !== '' && value.length <= LONGEST_OWNER && !LONE_SURROGATE.test(value);
const isLabel = (value: unknown): boolean => typeof value === 'string' && value !== '' && Buffer.byteLength(value) <= LONGEST_LABEL_BYTES;

const CHECKS: NamesOf<ResolvedOptions> = {
  mode: isMode,
  leaseMs: isLeaseMs,
  waitMs: orForEver(whole(0, LONGEST_MS)),
  renew: flag,
  maxHoldMs: orForEver(whole(SHORTEST_LEASE_MS, LONGEST_MS)),
  minHoldMs: isWithinLease,
  graceMs: isWithinLease,
  owner: expecting(`a string of 1 to ${LONGEST_OWNER} characters without half a surrogate pair`, isOwner),
  permits: whole(1, MAX_PERMITS),
  signal: expecting('an AbortSignal', isSignal),
  minReplicas: whole(0, 100),
  label: expecting(`a string of 1 to ${LONGEST_LABEL_BYTES} bytes`, isLabel),
  onLost: oneOf('throw', 'ignore'),
  awaitRelease: flag,
  template: true,
  expectsBusy: true,
};
/** The checks of what only a module has. Profiles are completed before all others. */
const CHECKS_OF_MODULES: NamesOf<Omit<ResolvedDefaults, keyof ResolvedOptions>> = {
  maxLeaseMs: whole(SHORTEST_LEASE_MS, LONGEST_MS),
  handOn: whole(1, 1_000_000),
  commandTimeoutMs: whole(10, 600_000),
  shutdownGraceMs: whole(0, 3_600_000),
  profiles: true,
};

/** What is wrong with the options of a call or the defaults of a module: with a value, or with two that do not go together. */
function problemOf(options: ResolvedOptions, maxLeaseMs: number): string | undefined {
  const problem = valueProblem(options, CHECKS, maxLeaseMs);
  if (problem !== undefined) return problem;
  const { mode, owner, permits, leaseMs, maxHoldMs, minHoldMs, graceMs, awaitRelease, minReplicas } = options;
  if (permits !== undefined && mode === 'read') return "permits do not go with mode 'read': readers share a lock without a number. Leave one of them out";
  if (permits !== undefined && owner !== undefined) {
    return 'permits do not go with owner: the calls of an owner share one hold, and each permit is a hold of its own. Leave one of them out';
  }
  if (!awaitRelease && minReplicas > 0) return 'awaitRelease: false does not go with minReplicas: what replicas have acknowledged is worth waiting for. Leave one of them out';
  if (maxHoldMs < minHoldMs) return `maxHoldMs (${maxHoldMs}) is shorter than minHoldMs (${minHoldMs})`;
  // A grace must not keep the lock taken for longer than any lease may.
  const longest = Math.max(leaseMs, minHoldMs);
  if (longest + graceMs <= maxLeaseMs) return undefined;
  const name = leaseMs >= minHoldMs ? 'leaseMs' : 'minHoldMs';
  return `${name} (${longest}) and graceMs (${graceMs}) together are longer than maxLeaseMs (${maxLeaseMs}). Shorten one of them, or raise maxLeaseMs`;
}

// The options that each call takes. Those of calls for locks are checked when they are complete.

const example = '{ leaseMs: 5000 }';
const ofAll = { leaseMs: true, waitMs: true, renew: true, maxHoldMs: true, minHoldMs: true, graceMs: true, minReplicas: true } as const;
/** The names of the options of every request for a lock, also by a decorator or for a route. */
export const lockOptionNames: NamesOf<LockOptions> = { mode: true, ...ofAll, owner: true, permits: true, signal: true, label: true, profile: true };
/** The names of the defaults that a module sets for all calls. */
export const lockDefaultNames: NamesOf<LockDefaults> = {
  ...ofAll, onLost: true, awaitRelease: true, maxLeaseMs: true, handOn: true, commandTimeoutMs: true, shutdownGraceMs: true, profiles: true,
};
const acquireNames: NamesOf<LockOptions & CallSite> = { ...lockOptionNames, template: true, expectsBusy: true };
const adoptNames: NamesOf<AdoptOptions & CallSite> = {
  leaseMs: true, waitMs: true, renew: true, maxHoldMs: true, graceMs: true, signal: true, minReplicas: true, label: true, template: true, expectsBusy: true,
};

export const ACQUIRE_OPTIONS: OptionList = { names: acquireNames, example };
export const WITH_LOCK_OPTIONS: OptionList = {
  names: { ...acquireNames, onLost: true, awaitRelease: true } satisfies NamesOf<WithLockOptions & CallSite>,
  example,
};
export const ADOPT_OPTIONS: OptionList = { names: adoptNames, example };
export const WITH_ADOPTED_OPTIONS: OptionList = {
  names: { ...adoptNames, onLost: true, awaitRelease: true, onError: oneOf('release', 'handBack'), withinMs: true } satisfies NamesOf<WithAdoptedOptions & CallSite>,
  example,
};

/** Options of {@link LockService.forceRelease}. */
export interface ForceReleaseOptions {
  /**
   * The fence of the only hold to end.
   * @default none: every hold of the lock is ended
   */
  fence?: number | undefined;
}

/** An invalid fence must not mean all holders, and an invalid filter not all locks. */
export const FORCE_RELEASE_OPTIONS: OptionList = {
  names: { fence: expecting('the number of a hold', (fence) => Number.isSafeInteger(fence) && Number(fence) > 0) } satisfies NamesOf<ForceReleaseOptions>,
  example: '{ fence: 7 }',
  advice: 'Leave it out to take the lock from all holders',
};
export const LIST_OPTIONS: OptionList = {
  names: { startsWith: expecting('a string', (start) => typeof start === 'string') } satisfies NamesOf<ListOptions>,
  example: `{ startsWith: 'order:' }`,
  of: 'Options of list',
  advice: 'Leave them out to see all locks',
};

/** Checks the mode of isLocked and assertLocked, because nobody ever holds a lock in a misspelt one. @throws LockUsageError */
export function checkMode(mode: LockMode | undefined, key: string): void {
  if (mode !== undefined) refuse(isMode('mode', mode, 0), key);
}

/** How long the ticket lasts. @throws LockUsageError */
export function withinMsOf(given: HandOffOptions | undefined, leaseMs: number, { maxLeaseMs }: Pick<ResolvedDefaults, 'maxLeaseMs'>, key: string): number {
  if (given === undefined) return leaseMs;
  const names: NamesOf<HandOffOptions> = { withinMs: whole(1, maxLeaseMs, 'no lock stays taken for longer than maxLeaseMs without a sign of life; raise it') };
  checkOptions(given, { names, example: '{ withinMs: 60000 }' }, key);
  return given.withinMs ?? leaseMs;
}

// Completion.

/** Completes and validates the defaults of a module. @throws LockUsageError */
export function resolveDefaults(given: LockDefaults = {}): ResolvedDefaults {
  const { maxLeaseMs = DEFAULTS.maxLeaseMs, graceMs } = given;
  const leaseMs = Math.max(SHORTEST_LEASE_MS, Math.min(DEFAULTS.leaseMs, maxLeaseMs - (Math.floor(Number(graceMs)) || 0)));
  const complete = merge({ ...given, profiles: completeProfiles(given.profiles) }, { ...DEFAULTS, leaseMs });
  refuse(valueProblem(complete, CHECKS_OF_MODULES, maxLeaseMs) ?? problemOf(complete, maxLeaseMs));
  for (const [name, profile] of Object.entries(complete.profiles)) refuse(problemOf(merge(profile, complete), maxLeaseMs), undefined, profileText(name));
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
  refuse(problemOf(complete, defaults.maxLeaseMs), key);
  return complete;
}

/** Takes each option that was given, else its default. Spreading the objects would not do, because `undefined` means "not given". */
function merge<Options extends ResolvedOptions>(given: LockDefaults | (WithLockOptions & CallSite), defaults: Options): Options {
  const complete: Options = { ...defaults };
  const values: Partial<Options> = given as Partial<Options>;
  for (const name in defaults) complete[name] = values[name] ?? defaults[name];
  // Whoever asks for replicas waits for the release too, unless the call says both, which is refused.
  return given.minReplicas && given.awaitRelease === undefined ? { ...complete, awaitRelease: true } : complete;
}

/** Refuses a length for a renewal of a hold with this grace. @throws LockUsageError */
export function checkRenewal(leaseMs: number, graceMs: number, { maxLeaseMs }: Pick<ResolvedDefaults, 'maxLeaseMs'>, key: string): void {
  refuse(isLeaseMs('leaseMs', leaseMs, maxLeaseMs - graceMs), key);
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

// Profiles: options that the configuration of a module gives a name, so that calls and decorators can ask for them by it.

const PROFILE_OPTIONS: OptionList = {
  names: { ...ofAll, mode: true, permits: true, onLost: true, awaitRelease: true, onBusy: oneOf('throw', 'skip') } satisfies NamesOf<LockProfile>,
  example: '{ leaseMs: 60000, waitMs: 0 }',
};

/** Checks the shape of profiles, and completes them: one that skips does not wait. The values are checked with their defaults. @throws LockUsageError */
export function completeProfiles(given: LockProfiles | undefined): LockProfiles {
  if (given === undefined) return {};
  if (!isObject(given)) {
    throw invalidOption(`expected profiles to be an object such as { batch: ${PROFILE_OPTIONS.example} }, got ${show(given)}`);
  }
  const complete = Object.entries(given).map(([name, profile]): [string, LockProfile] => {
    refuse(optionsProblem(profile, PROFILE_OPTIONS), undefined, profileText(name));
    return [name, profile.onBusy === 'skip' ? { ...profile, waitMs: profile.waitMs ?? 0 } : profile];
  });
  return Object.fromEntries(complete);
}

/**
 * The options of a call that names a profile: those of the profile that such a call takes, and what the call says itself, which wins.
 * Without a profile they are the given ones. @throws LockUsageError naming the profiles that there are
 */
export function withProfile<O extends { readonly profile?: string | undefined }>(given: O, profiles: LockProfiles, { names, of }: OptionList, key?: string): O {
  if (typeof given !== 'object' || given === null || given.profile === undefined) return given;
  const { profile: name, ...own } = given;
  if (typeof name !== 'string' || !Object.hasOwn(profiles, name)) {
    const known = quoted(Object.keys(profiles)) || 'none';
    throw invalidOption(`there is no profile ${show(name)}; the option profiles of this LockModule has ${known}`, key, of);
  }
  const taken = Object.entries(profiles[name]!).filter(([option]) => Object.hasOwn(names, option));
  const said = Object.entries(own).filter(([, value]) => value !== undefined);
  return Object.fromEntries([...taken, ...said]) as O;
}

/** How messages name a profile. */
function profileText(name: string): string {
  return `LockModule options, profile '${name}'`;
}
