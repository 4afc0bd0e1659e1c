/**
 * Finds options that nobody reads: a typing error, or the habit of another library, must not silently mean a default.
 */

/** The options of one call. */
export interface OptionList {
  readonly names: Readonly<Record<string, true>>;
  /** How options of this call are written, for who gave something else. */
  readonly example: string;
  /** Whether null is a value among these options; elsewhere it would silently mean the default. */
  readonly nullable?: true;
}

/** All names of the options `T`, so that the compiler tells when one is missing. */
export type NamesOf<T> = Readonly<Record<keyof T, true>>;

/** What other libraries call it, in small letters without 'ms' at the end; of several names the one that the call has. */
const OTHER_WORDS: readonly (readonly [means: readonly string[], words: string])[] = [
  [['leaseMs'], 'ttl expire expires expiry expiration expiresin px duration lock locktime locktimeout leasetime'],
  [['waitMs'], 'timeout acquiretimeout waittime waittimeout maxwait blocking retry retries retrycount retrydelay retryinterval attempts'],
  [['renew'], 'extend autoextend autorenew autorefresh refresh refreshinterval watchdog automaticextensionthreshold'],
  [['mode'], 'type shared exclusive'],
  [['signal'], 'abort aborted abortsignal'],
  [['fence'], 'token fencingtoken identifier id'],
  [['owner'], 'holder identifier'],
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

/** Where an option is known that this call does not have. */
const BELONGS_TO: Readonly<Record<string, string>> = {
  onBusy: 'decorators',
  returns: 'decorators',
  instance: 'decorators',
  onLost: 'withLock and decorators',
  mode: '@Locked and the calls of LockService',
};

/** The furthest that a typing error may be from what was meant, in letters. */
const MOST_WRONG_LETTERS = 2;

/** What is wrong with `given` as the options of a call, as the end of a sentence; undefined when nothing is. */
export function optionsProblem(given: unknown, list: OptionList): string | undefined {
  if (!isObject(given)) return shapeProblem(given, list);
  // With what it inherits: the options may be an object of a class, and an AbortSignal in their place inherits all it has.
  for (const name in given) {
    if (!Object.hasOwn(list.names, name) && !(name in Object.prototype)) return unknownOption(name, list.names);
    if (given[name] === null && !list.nullable) return `expected ${name} to have a value or to be left out, got null`;
  }
  return undefined;
}

/** What is wrong with `given` when it is no object at all. */
export function shapeProblem(given: unknown, { example }: OptionList): string | undefined {
  return isObject(given) ? undefined : `expected options to be an object such as ${example}, got ${shown(given)}`;
}

function isObject(given: unknown): given is Readonly<Record<string, unknown>> {
  return typeof given === 'object' && given !== null && !Array.isArray(given);
}

/** Tells of an option that is not known, and what was probably meant by it. */
export function unknownOption(name: string, names: Readonly<Record<string, true>>): string {
  const start = `unknown option '${name}'`;
  const meant = guess(name, Object.keys(names));
  if (meant !== undefined) return `${start}; ${meant} is probably meant`;
  return Object.hasOwn(BELONGS_TO, name) ? `${start}, which belongs to ${BELONGS_TO[name]}` : start;
}

function guess(given: string, names: readonly string[]): string | undefined {
  const word = plain(given);
  const same = names.find((name) => plain(name) === word);
  if (same !== undefined) return same;
  const known = OTHER_WORDS.filter(([, words]) => words.split(' ').includes(word)).flatMap(([means]) => means);
  const meant = known.find((name) => names.includes(name));
  if (meant !== undefined) return meant;
  const near = names.map((name) => [name, wrongLetters(word, plain(name))] as const).sort(([, a], [, b]) => a - b)[0];
  const most = Math.min(MOST_WRONG_LETTERS, word.length / 3);
  return near !== undefined && near[1] <= most ? near[0] : undefined;
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

function shown(value: unknown): string {
  if (typeof value === 'function') return 'a function';
  if (Array.isArray(value)) return 'an array';
  return typeof value === 'string' ? `'${value}'` : String(value);
}
