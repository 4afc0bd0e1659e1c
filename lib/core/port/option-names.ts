/**
 * Checks the options of one call against the list of what it takes. A misspelt name, or one of another library, is refused, because it
 * would silently mean a default.
 */
import { invalidOption, show } from './option-values.js';

/** What a caller gave as options, when it is an object at all. */
type GivenOptions = Readonly<Record<string, unknown>>;

/** The options that one call takes. */
export interface OptionList {
  readonly names: Readonly<Record<string, true>>;
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
export type NamesOf<T> = Readonly<Record<keyof T, true>>;

/**
 * The words of other libraries for options of this one, in lower case and without 'ms' at the end. Where several options are
 * named for a word, the first one that the call takes is meant.
 */
const OTHER_WORDS: readonly (readonly [means: readonly string[], words: string])[] = [
  [['leaseMs'], 'ttl expire expires expiry expiration expiresin px duration lock locktime locktimeout leasetime'],
  [['waitMs'], 'timeout acquiretimeout waittime waittimeout maxwait blocking retry retries retrycount retrydelay retryinterval attempts'],
  [['renew'], 'extend autoextend autorenew autorefresh refresh refreshinterval watchdog automaticextensionthreshold'],
  [['graceMs'], 'graceperiod cooldown lockdelay delay'],
  [['mode'], 'type shared exclusive'],
  [['signal'], 'abort aborted abortsignal'],
  [['fence'], 'token fencingtoken identifier id'],
  [['owner'], 'holder identifier'],
  [['permits'], 'limit max maxcount concurrency maxconcurrency parallel slots capacity count'],
  [['minReplicas'], 'replicas'],
  [['startsWith', 'keyPrefix'], 'prefix pattern match filter'],
  [['db'], 'database'],
  [['host'], 'hostname server address socket ip'],
  [['password'], 'pass auth authpass requirepass'],
  [['username'], 'user'],
  [['tls'], 'ssl secure'],
  [['cluster'], 'nodes rootnodes clusternodes startupnodes'],
  [['sentinels'], 'sentinel'],
  [['name'], 'master mastername'],
  [['options'], 'redisoptions clusteroptions'],
];

/** Which calls take an option that this call does not take. */
const BELONGS_TO: Readonly<Record<string, string>> = {
  onBusy: 'decorators',
  returns: 'decorators',
  instance: 'decorators',
  onLost: 'withLock and decorators',
  awaitRelease: 'withLock and decorators',
  mode: '@Locked and the calls of LockService',
};

/** How many wrong letters a name may have at most to be taken for a misspelt one. */
const MAX_WRONG_LETTERS = 2;

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

/** Says, as the end of a sentence, that the option `name` is unknown, and which one was probably meant. */
function unknownOption(name: string, names: Readonly<Record<string, true>>): string {
  const start = `unknown option '${name}'`;
  const meant = guess(name, Object.keys(names));
  if (meant !== undefined) return `${start}; ${meant} is probably meant`;
  return Object.hasOwn(BELONGS_TO, name) ? `${start}, which belongs to ${BELONGS_TO[name]}` : start;
}

function guess(given: string, names: readonly string[]): string | undefined {
  const word = plain(given);
  const known = OTHER_WORDS.filter(([, words]) => words.split(' ').includes(word)).flatMap(([means]) => means);
  const meant = known.find((name) => names.includes(name));
  if (meant !== undefined) return meant;
  const [nearest, wrong] = names.map((name) => [name, wrongLetters(word, plain(name))] as const).sort(([, a], [, b]) => a - b)[0]!;
  return wrong <= Math.min(MAX_WRONG_LETTERS, word.length / 3) ? nearest : undefined;
}

function plain(name: string): string {
  return name.toLowerCase().replace(/[^a-z0-9]/g, '').replace(/ms$/, '');
}

/** How many letters must be put in, left out or changed to make `a` into `b` (Levenshtein's distance). */
function wrongLetters(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, column) => column);
  for (let line = 1; line <= a.length; line++) {
    const above = row;
    row = [line];
    for (let column = 1; column <= b.length; column++) {
      const changed = above[column - 1]! + (a[line - 1] === b[column - 1] ? 0 : 1);
      row.push(Math.min(changed, above[column]! + 1, row[column - 1]! + 1));
    }
  }
  return row[b.length]!;
}
