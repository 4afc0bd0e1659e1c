/**
 * The options of calls and modules, from top to bottom: what is wrong with a value; which names a call takes; a table of all options of
 * calls, with their defaults and checks; the names and checks of each call; their completion; profiles. The options of leaders and of the module's store are declared where they are used.
 */
import type { AdoptOptions, CallSite, HandOffOptions, LockDefaults, LockMode, LockOptions, LockProfile, LockProfiles, ResolvedDefaults, ResolvedOptions, WithAdoptedOptions, WithLockOptions } from './lock-options.js';
import type { StoreCapabilities } from './lock-store.js';
import type { ListOptions } from './lock-state.js';
import { LockUsageError } from './errors.js';

// What is wrong with a value: the end of a sentence that says what was expected and what was given; undefined when the value can be meant,
// or when none was given. What throws the sentence puts in front whose option it is.

/** Half of a surrogate pair. UTF-8 cannot encode it, so two different texts would become one key, or one owner. */
export const LONE_SURROGATE = /\p{Cs}/u;

export function integerProblem(name: string, value: unknown, least: number, most: number, hint?: string): string | undefined {
  if (value === undefined || (Number.isInteger(value) && Number(value) >= least && Number(value) <= most)) return undefined;
  const range = most === Infinity ? `from ${least}` : `from ${least} to ${most}`;
  const why = typeof value === 'string' ? 'a text; make a number of it, as Number() does' : hint;
  return `expected ${name} to be a whole number ${range}, got ${show(value)}${why ? ` (${why})` : ''}`;
}

export function booleanProblem(name: string, value: unknown): string | undefined {
  return value === undefined || typeof value === 'boolean' ? undefined : `expected ${name} to be true or false, got ${show(value)}`;
}

export function oneOfProblem(name: string, value: unknown, allowed: readonly string[]): string | undefined {
  if (value === undefined || allowed.includes(value as string)) return undefined;
  return `expected ${name} to be ${allowed.map((word) => `'${word}'`).join(' or ')}, got ${show(value)}`;
}

/** Whether this can be the signal of a call: an AbortSignal, or one of another library that can be asked and listened to as one. */
export function isSignal(given: unknown): given is AbortSignal {
  try {
    const { aborted, addEventListener } = given as Partial<AbortSignal>;
    return typeof aborted === 'boolean' && typeof addEventListener === 'function';
  } catch {
    return false;
  }
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
  if (typeof value === 'object' && value !== null) return isArray(value) ? 'an array' : 'an object';
  return String(value);
}

/** A Proxy that was revoked throws when it is asked. */
function isArray(value: object): boolean {
  try {
    return Array.isArray(value);
  } catch {
    return false;
  }
}

// The names of options. A misspelt name, or one of another library, is refused, because it would silently mean a default.

/** What a caller gave as options, when it is an object at all. */
type GivenOptions = Readonly<Record<string, unknown>>;

/** The options that one call takes. */
export interface OptionList {
  readonly names: Readonly<Record<string, unknown>>;
  /** How options of this call are written, for the message to a caller who gave something else. */
  readonly example: string;
  /** How messages about these options begin. @default the lock that the call is for */
  readonly of?: string;
  /** How messages about these options end: with what the caller can do instead. */
  readonly advice?: string;
  /** What is wrong with the values, as the end of a sentence. It is asked when all names are known. */
  readonly valueProblem?: (given: GivenOptions) => string | undefined;
  /** Whether null is a value among these options; elsewhere it would silently mean the default. */
  readonly nullable?: true;
}

/** All names of the options `T`. With this type the compiler refuses a list in which one is missing. */
export type NamesOf<T> = Readonly<Record<keyof T, unknown>>;

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
  return list.valueProblem?.(given);
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

/** Options of {@link LockService.forceRelease}. */
export interface ForceReleaseOptions {
  /**
   * The fence of the only hold to end.
   * @default none: every hold of the lock is ended
   */
  fence?: number | undefined;
}

export const MODES: readonly LockMode[] = ['read', 'write'];

/** The longest time that an option can name, in ms: some 35 years. */
export const LONGEST_MS = 2 ** 40;
/** The shortest lease: a shorter one could not be renewed in time over a network. */
const SHORTEST_LEASE_MS = 100;
const WHY_NOT_SHORTER = `${SHORTEST_LEASE_MS} ms is the shortest lease, because a shorter one could not be renewed in time over a network`;
const WHY_NOT_LONGER = 'maxLeaseMs is the longest lease; raise it';
const BOUNDED = 'maxLeaseMs bounds it; raise it';
/** The longest owner name, in characters, because the name is stored in the record of each of its locks. */
const LONGEST_OWNER = 128;
/** The longest label, in bytes, because the label is stored in the record of each of its locks. */
export const LONGEST_LABEL_BYTES = 48;
/** The most holds that a lock can have at a time: each of them stands in the record of the lock. */
const MAX_PERMITS = 10_000;

/** One option: what counts when it is not given, and what is wrong with its value among those of all options, as the end of a sentence. */
interface Option<Value, Options> {
  readonly fallback: Value;
  problem(options: Options, maxLeaseMs: number): string | undefined;
}
type OptionsOf<Options> = { readonly [Name in keyof Options]: Option<Options[Name], Options> };

const nothing = { fallback: undefined, problem: () => undefined };

/** The options of calls. */
const ofCalls: OptionsOf<ResolvedOptions> = {
  mode: { fallback: 'write', problem: ({ mode }) => oneOfProblem('mode', mode, MODES) },
  leaseMs: { fallback: 30_000, problem: ({ leaseMs }, maxLeaseMs) => leaseProblem(leaseMs, maxLeaseMs) },
  waitMs: { fallback: 10_000, problem: ({ waitMs }) => (waitMs === Infinity ? undefined : integerProblem('waitMs', waitMs, 0, LONGEST_MS)) },
  renew: { fallback: true, problem: ({ renew }) => booleanProblem('renew', renew) },
  maxHoldMs: { fallback: Infinity, problem: ({ maxHoldMs }) => (maxHoldMs === Infinity ? undefined : integerProblem('maxHoldMs', maxHoldMs, SHORTEST_LEASE_MS, LONGEST_MS)) },
  minHoldMs: { fallback: 0, problem: ({ minHoldMs }, maxLeaseMs) => integerProblem('minHoldMs', minHoldMs, 0, maxLeaseMs, BOUNDED) },
  graceMs: { fallback: 0, problem: (options, maxLeaseMs) => integerProblem('graceMs', options.graceMs, 0, maxLeaseMs, BOUNDED) ?? timesProblem(options, maxLeaseMs) },
  owner: { fallback: undefined, problem: ({ owner }) => ownerProblem(owner) },
  permits: { fallback: undefined, problem: permitsProblem },
  signal: { fallback: undefined, problem: ({ signal }) => (signal === undefined || isSignal(signal) ? undefined : `expected signal to be an AbortSignal, got ${show(signal)}`) },
  minReplicas: { fallback: 0, problem: ({ minReplicas }) => integerProblem('minReplicas', minReplicas, 0, 100) },
  label: { fallback: undefined, problem: ({ label }) => labelProblem(label) },
  onLost: { fallback: 'throw', problem: ({ onLost }) => oneOfProblem('onLost', onLost, ['throw', 'ignore']) },
  awaitRelease: { fallback: true, problem: awaitReleaseProblem },
  template: nothing,
  expectsBusy: nothing,
};

/** The options of modules that calls do not have. Profiles are completed before all others. */
const ofModules: OptionsOf<Omit<ResolvedDefaults, keyof ResolvedOptions>> = {
  maxLeaseMs: { fallback: 60_000, problem: ({ maxLeaseMs }) => integerProblem('maxLeaseMs', maxLeaseMs, SHORTEST_LEASE_MS, LONGEST_MS) },
  handOn: { fallback: 16, problem: ({ handOn }) => integerProblem('handOn', handOn, 1, 1_000_000) },
  commandTimeoutMs: { fallback: 2_000, problem: ({ commandTimeoutMs }) => integerProblem('commandTimeoutMs', commandTimeoutMs, 10, 600_000) },
  shutdownGraceMs: { fallback: 10_000, problem: ({ shutdownGraceMs }) => integerProblem('shutdownGraceMs', shutdownGraceMs, 0, 3_600_000) },
  profiles: { fallback: {}, problem: () => undefined },
};

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
  return `${name} (${longest}) and graceMs (${graceMs}) together are longer than maxLeaseMs (${maxLeaseMs}). Shorten one of them, or raise maxLeaseMs`;
}

function ownerProblem(owner: unknown): string | undefined {
  if (owner === undefined || (typeof owner === 'string' && owner !== '' && owner.length <= LONGEST_OWNER && !LONE_SURROGATE.test(owner))) return undefined;
  return `expected owner to be a string of 1 to ${LONGEST_OWNER} characters without half a surrogate pair, got ${show(owner)}`;
}

function labelProblem(label: unknown): string | undefined {
  if (label === undefined || (typeof label === 'string' && label !== '' && Buffer.byteLength(label) <= LONGEST_LABEL_BYTES)) return undefined;
  return `expected label to be a string of 1 to ${LONGEST_LABEL_BYTES} bytes, got ${show(label)}`;
}

function permitsProblem({ permits, mode, owner }: ResolvedOptions): string | undefined {
  const problem = integerProblem('permits', permits, 1, MAX_PERMITS);
  if (problem !== undefined || permits === undefined) return problem;
  if (mode === 'read') return "permits do not go with mode 'read': readers share a lock without a number. Leave one of them out";
  if (owner !== undefined) return 'permits do not go with owner: the calls of an owner share one hold, and each permit is a hold of its own. Leave one of them out';
  return undefined;
}

function awaitReleaseProblem({ awaitRelease, minReplicas }: ResolvedOptions): string | undefined {
  if (awaitRelease === false && minReplicas > 0) return 'awaitRelease: false does not go with minReplicas: what replicas have acknowledged is worth waiting for. Leave one of them out';
  return booleanProblem('awaitRelease', awaitRelease);
}

/** What is wrong with the first of these options that cannot be as it is. */
function firstProblem<Options extends object>(options: Options, table: OptionsOf<Options>, maxLeaseMs: number): string | undefined {
  for (const { problem } of Object.values<Option<unknown, Options>>(table)) {
    const found = problem(options, maxLeaseMs);
    if (found !== undefined) return found;
  }
  return undefined;
}

// The names and checks of each call.

const example = '{ leaseMs: 5000 }';
const { onLost, awaitRelease, template, expectsBusy, ...ofLocks } = ofCalls;
const { mode: _mode, owner: _owner, permits: _permits, signal: _signal, label: _label, ...ofAll } = ofLocks;
/** The names of the options of every request for a lock, also by a decorator or for a route. */
export const lockOptionNames: NamesOf<LockOptions> = { ...ofLocks, profile: true };
/** The names of the defaults that a module sets for all calls. */
export const lockDefaultNames: NamesOf<LockDefaults> = { ...ofAll, onLost, awaitRelease, ...ofModules };
const acquireNames: NamesOf<LockOptions & CallSite> = { ...lockOptionNames, template, expectsBusy };
const withLockNames: NamesOf<WithLockOptions & CallSite> = { ...acquireNames, onLost, awaitRelease };
const forceReleaseNames: NamesOf<ForceReleaseOptions> = { fence: true };
const listNames: NamesOf<ListOptions> = { startsWith: true };

export const ACQUIRE_OPTIONS: OptionList = { names: acquireNames, example };
export const WITH_LOCK_OPTIONS: OptionList = { names: withLockNames, example };
const FORCE_RELEASE_OPTIONS: OptionList = {
  names: forceReleaseNames,
  example: '{ fence: 7 }',
  valueProblem: ({ fence }) => fenceProblem(fence),
  advice: 'Leave it out to take the lock from all holders',
};
const LIST_OPTIONS: OptionList = {
  names: listNames,
  example: `{ startsWith: 'order:' }`,
  of: 'Options of list',
  valueProblem: ({ startsWith }) => startProblem(startsWith),
  advice: 'Leave them out to see all locks',
};

/** Checks the options of forceRelease: an invalid fence must not mean all holders. @throws LockUsageError */
export function checkForceRelease(options: ForceReleaseOptions | undefined, key: string): void {
  if (options !== undefined) checkOptions(options, FORCE_RELEASE_OPTIONS, key);
}

function fenceProblem(fence: unknown): string | undefined {
  if (fence === undefined || (Number.isSafeInteger(fence) && Number(fence) > 0)) return undefined;
  return `expected fence to be the number of a hold, got ${show(fence)}`;
}

/** Checks the options of list: an invalid filter must not mean all locks. @throws LockUsageError */
export function checkList(options: ListOptions | undefined): void {
  if (options !== undefined) checkOptions(options, LIST_OPTIONS);
}

function startProblem(startsWith: unknown): string | undefined {
  if (startsWith === undefined || typeof startsWith === 'string') return undefined;
  return `expected startsWith to be a string, got ${show(startsWith)}`;
}

/** Checks the mode of isLocked and assertLocked, because nobody ever holds a lock in a misspelt one. @throws LockUsageError */
export function checkMode(mode: LockMode | undefined, key: string): void {
  const problem = oneOfProblem('mode', mode, MODES);
  if (problem !== undefined) throw invalidOption(problem, key);
}

const handOffNames: NamesOf<HandOffOptions> = { withinMs: true };
const WHY_NO_LONGER_TICKET = 'no lock stays taken for longer than maxLeaseMs without a sign of life; raise it';

const adoptNames: NamesOf<AdoptOptions & CallSite> = {
  leaseMs: true, waitMs: true, renew: true, maxHoldMs: true, graceMs: true, signal: true, minReplicas: true, label: true, template: true, expectsBusy: true,
};
const withAdoptedNames: NamesOf<WithAdoptedOptions & CallSite> = { ...adoptNames, onLost: true, awaitRelease: true, onError: true, withinMs: true };
export const ADOPT_OPTIONS: OptionList = { names: adoptNames, example };
export const WITH_ADOPTED_OPTIONS: OptionList = {
  names: withAdoptedNames,
  example,
  valueProblem: ({ onError, withinMs }) =>
    oneOfProblem('onError', onError, ['release', 'handBack']) ??
    (withinMs !== undefined && onError !== 'handBack' ? "withinMs says how long a ticket is good that was handed back, so it needs onError: 'handBack'" : undefined),
};

/** How long the ticket lasts. @throws LockUsageError */
export function withinMsOf(given: HandOffOptions | undefined, leaseMs: number, { maxLeaseMs }: Pick<ResolvedDefaults, 'maxLeaseMs'>, key: string): number {
  if (given === undefined) return leaseMs;
  const valueProblem: OptionList['valueProblem'] = ({ withinMs }) => integerProblem('withinMs', withinMs, 1, maxLeaseMs, WHY_NO_LONGER_TICKET);
  checkOptions(given, { names: handOffNames, example: '{ withinMs: 60000 }', valueProblem }, key);
  return given.withinMs ?? leaseMs;
}

// Completion.

/** Completes and validates the defaults of a module. @throws LockUsageError */
export function resolveDefaults(given: LockDefaults = {}): ResolvedDefaults {
  const { maxLeaseMs = ofModules.maxLeaseMs.fallback, graceMs } = given;
  const fallbacks = Object.fromEntries(Object.entries({ ...ofCalls, ...ofModules }).map(([name, { fallback }]) => [name, fallback])) as unknown as ResolvedDefaults;
  const leaseMs = Math.max(SHORTEST_LEASE_MS, Math.min(fallbacks.leaseMs, maxLeaseMs - (Math.floor(Number(graceMs)) || 0)));
  const complete = merge({ ...given, profiles: completeProfiles(given.profiles) }, { ...fallbacks, leaseMs });
  refuse(firstProblem(complete, ofModules, maxLeaseMs) ?? firstProblem(complete, ofCalls, maxLeaseMs));
  for (const [name, profile] of Object.entries(complete.profiles)) refuse(firstProblem(merge(profile, complete), ofCalls, maxLeaseMs), undefined, profileText(name));
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
  refuse(firstProblem(complete, ofCalls, defaults.maxLeaseMs), key);
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

// Profiles: options that the configuration of a module gives a name, so that calls and decorators can ask for them by it.

const names: NamesOf<LockProfile> = { ...ofAll, mode: true, permits: true, onLost, awaitRelease, onBusy: true };
const OPTIONS: OptionList = { names, example: '{ leaseMs: 60000, waitMs: 0 }', valueProblem: ({ onBusy }) => oneOfProblem('onBusy', onBusy, ['throw', 'skip']) };

/** Checks the shape of profiles, and completes them: one that skips does not wait. The values are checked with their defaults. @throws LockUsageError */
export function completeProfiles(given: LockProfiles | undefined): LockProfiles {
  if (given === undefined) return {};
  if (typeof given !== 'object' || given === null || Array.isArray(given)) {
    throw invalidOption(`expected profiles to be an object such as { batch: ${OPTIONS.example} }, got ${show(given)}`);
  }
  const complete = Object.entries(given).map(([name, profile]): [string, LockProfile] => {
    const problem = optionsProblem(profile, OPTIONS);
    if (problem !== undefined) throw invalidOption(problem, undefined, profileText(name));
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
    const known = Object.keys(profiles).map((each) => `'${each}'`).join(', ');
    throw invalidOption(`there is no profile ${show(name)}; the option profiles of this LockModule has ${known || 'none'}`, key, of);
  }
  const taken = Object.entries(profiles[name]!).filter(([option]) => Object.hasOwn(names, option));
  const said = Object.entries(own).filter(([, value]) => value !== undefined);
  return Object.fromEntries([...taken, ...said]) as O;
}

/** How messages name a profile. */
function profileText(name: string): string {
  return `LockModule options, profile '${name}'`;
}
