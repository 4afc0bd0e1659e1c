/**
 * Reads and checks the command line of `holdfast`.
 */
import { parseArgs } from 'node:util';
import { MODULE_DEFAULTS } from '../nest/lock-module-options.js';
import { urlProblem } from '../nest/redis-option.js';

export interface Target {
  /** One Redis, the masters of a Redlock, nodes of a Cluster, or Sentinels. */
  readonly urls: readonly string[];
  readonly cluster: boolean;
  /** The name of the master that the Sentinels watch. */
  readonly sentinel: string | undefined;
  readonly tls: boolean;
  /** The path of a file of certificates. */
  readonly cacert: string | undefined;
  readonly username: string | undefined;
  /** From the environment or a prompt; one in a URL comes before it. */
  readonly password: string | undefined;
  readonly sentinelPassword: string | undefined;
  readonly prefix: string;
}

export type Command =
  | { readonly name: 'list'; readonly startsWith: string; readonly onlyWaited: boolean }
  | { readonly name: 'inspect'; readonly key: string }
  | { readonly name: 'leader'; readonly role: string }
  | { readonly name: 'watch'; readonly startsWith: string; readonly everyMs: number }
  | { readonly name: 'redlock init' }
  | { readonly name: 'release'; readonly key: string; readonly fence: number; readonly confirmed: boolean };

export interface Order {
  readonly command: Command;
  readonly target: Target;
  readonly json: boolean;
  /** True if the password is still to be asked for. */
  readonly asksPassword: boolean;
}

export const USAGE = `holdfast: who holds which lock of nestjs-holdfast, and who waits for it

  holdfast list [start of keys] [--waited]   every lock that is held or waited for
  holdfast inspect <key>                     one lock: all its holders, all who wait, in order
  holdfast leader <role>                     who leads a role, and who stands for it
  holdfast watch [start of keys]             the most waited for, again and again, until Ctrl-C
  holdfast release <key> --fence <n> --yes   takes a lock away from the holder with this fence
  holdfast redlock init <url> <url> <url>    lets all nodes of a new Redlock vote at once; refuses when one has voted before

  --redis <url>      redis:// or rediss://; several of them for Redlock. Default: the environment variable REDIS_URL
  --cluster          the URLs are nodes of a Redis Cluster
  --sentinel <name>  the URLs are Sentinels, which know the master by this name
  --tls              connect with TLS, as rediss:// does
  --cacert <file>    the certificates to trust; means --tls
  --username <name>  the user of the server. The password stands in the environment variable REDIS_PASSWORD,
                     that of the Sentinels in REDIS_SENTINEL_PASSWORD
  --ask-password     ask for the password on the terminal, or read it from standard input
  --prefix <text>    the prefix of the lock module (default: ${MODULE_DEFAULTS.prefix})
  --waited           list: only locks that somebody waits for
  --every <ms>       watch: time between two looks (default: 1000)
  --json             JSON, one document a line
  --help, --version

Exit code: 0 done, 1 nothing found or not released, 2 the command line is wrong, 3 the store cannot be reached or refuses.
list, inspect, leader and watch write nothing to Redis.`;

/** The command line is not valid. The message says why, as a sentence without a period. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

const OPTIONS = {
  redis: { type: 'string', multiple: true },
  cluster: { type: 'boolean' },
  sentinel: { type: 'string' },
  tls: { type: 'boolean' },
  cacert: { type: 'string' },
  username: { type: 'string' },
  'ask-password': { type: 'boolean' },
  prefix: { type: 'string' },
  waited: { type: 'boolean' },
  every: { type: 'string' },
  fence: { type: 'string' },
  yes: { type: 'boolean' },
  json: { type: 'boolean' },
  help: { type: 'boolean', short: 'h' },
  version: { type: 'boolean' },
} as const;

/** The commands that take an option, for options that not every command takes. */
const OWN = { waited: ['list'], every: ['watch'], fence: ['release'], yes: ['release'] } as const;
const DEFAULT_EVERY_MS = 1_000;
const SHORTEST_EVERY_MS = 100;

type Values = ReturnType<typeof parse>['values'];

/** What the command line asks for. @throws UsageError when it is not valid */
export function readArguments(args: readonly string[], environment: NodeJS.ProcessEnv): Order | 'help' | 'version' {
  const { values, positionals } = parse(args);
  refuseMisplacedUrls(values, positionals);
  if (values.help === true) return 'help';
  if (values.version === true) return 'version';
  const [name, subject, ...rest] = positionals;
  if (name === undefined) throw new UsageError('a command is missing: list, inspect, leader, watch, release or redlock init');
  if (name === 'redlock') return redlockOrder(subject, rest, values, environment);
  if (rest.length > 0) throw new UsageError(`unexpected argument ${shown(rest.join(' '))}; quote a key that has spaces`);
  for (const [option, commands] of Object.entries(OWN)) {
    const fits = !Object.hasOwn(values, option) || (commands as readonly string[]).includes(name);
    if (!fits) throw new UsageError(`--${option} belongs to ${commands.join(', ')}`);
  }
  return { command: commandOf(name, subject, values), target: targetOf(values, environment), ...flagsOf(values) };
}

/** The nodes stand behind the command, or are given as for all others. */
function redlockOrder(verb: string | undefined, urls: readonly string[], values: Values, environment: NodeJS.ProcessEnv): Order {
  if (verb !== 'init') throw new UsageError(`redlock wants init, got ${shown(verb ?? '')}`);
  for (const option of [...Object.keys(OWN), 'cluster', 'sentinel']) if (Object.hasOwn(values, option)) throw new UsageError(`--${option} does not belong to redlock init`);
  const target = targetOf(urls.length === 0 ? values : { ...values, redis: [...(values.redis ?? []), ...urls] }, environment);
  if (target.urls.length === 1) throw new UsageError('redlock init wants the URLs of all nodes, an odd number of at least 3');
  return { command: { name: 'redlock init' }, target, ...flagsOf(values) };
}

function flagsOf(values: Values): Pick<Order, 'json' | 'asksPassword'> {
  return { json: values.json ?? false, asksPassword: values['ask-password'] ?? false };
}

function parse(args: readonly string[]) {
  try {
    return parseArgs({ args: [...args], options: OPTIONS, allowPositionals: true, strict: true });
  } catch (error) {
    // Node explains some mistakes in several lines, with a period at the end.
    const { message } = error as Error;
    throw new UsageError(message.includes('://') ? MISPLACED : message.replaceAll('\n', ' ').replace(/\.$/, ''));
  }
}

/** An argument in a message, unless it may be a URL or a part of one, in which a password may stand. */
function shown(argument: string): string {
  return /@|:\/\//.test(argument) ? 'of that form (it looks like a URL)' : `'${argument}'`;
}

const MISPLACED = 'a URL stands where none is expected; give it as --redis <url>';

/** Refuses the URL of a server in another place than behind --redis or redlock init. @throws UsageError */
function refuseMisplacedUrls({ redis: _, ...values }: Values, positionals: readonly string[]): void {
  const others = positionals[0] === 'redlock' && positionals[1] === 'init' ? [] : positionals;
  const given: unknown[] = [...others, ...Object.values(values)];
  if (given.some((text) => typeof text === 'string' && /^["']?rediss?:\/\//i.test(text))) throw new UsageError(MISPLACED);
}

function commandOf(name: string, subject: string | undefined, values: Values): Command {
  switch (name) {
    case 'list':
      return { name, startsWith: subject ?? '', onlyWaited: values.waited ?? false };
    case 'inspect':
      return { name, key: keyOf(name, subject) };
    case 'leader':
      if (subject === undefined || subject === '') throw new UsageError('leader wants a role');
      return { name, role: subject };
    case 'watch': {
      const everyMs = values.every === undefined ? DEFAULT_EVERY_MS : Number(values.every);
      if (!Number.isInteger(everyMs) || everyMs < SHORTEST_EVERY_MS) throw new UsageError(`--every wants ms, at least ${SHORTEST_EVERY_MS}`);
      return { name, startsWith: subject ?? '', everyMs };
    }
    case 'release': {
      const key = keyOf(name, subject);
      const fence = Number(values.fence);
      if (!Number.isSafeInteger(fence) || fence <= 0) {
        throw new UsageError(`release wants --fence <n>, so that it takes the lock from one holder and not from the next: see holdfast inspect '${key}'`);
      }
      return { name, key, fence, confirmed: values.yes ?? false };
    }
    default:
      throw new UsageError(`there is no command ${shown(name)}`);
  }
}

function keyOf(name: string, subject: string | undefined): string {
  if (subject === undefined || subject === '') throw new UsageError(`${name} wants the key of a lock`);
  return subject;
}

function targetOf(
  { redis, cluster = false, sentinel, tls, cacert, username, prefix = MODULE_DEFAULTS.prefix }: Values, environment: NodeJS.ProcessEnv,
): Target {
  const fromEnvironment = environment['REDIS_URL'];
  const urls = redis ?? (fromEnvironment ? [fromEnvironment] : []);
  if (urls.length === 0) throw new UsageError('give --redis <url>, or set REDIS_URL');
  for (const url of urls) {
    const name = 'the URL of --redis';
    const problem = urlProblem(name, url) ?? (/^rediss?:\/\/./.test(url) ? undefined : `${name} does not start with redis:// or rediss://`);
    if (problem !== undefined) throw new UsageError(problem);
  }
  if (cluster && sentinel !== undefined) throw new UsageError('--cluster and --sentinel exclude each other');
  if (sentinel === '') throw new UsageError('--sentinel wants the name of the master');
  if (!cluster && sentinel === undefined && urls.length > 1 && (urls.length < 3 || urls.length % 2 === 0)) {
    throw new UsageError(`several --redis are a Redlock, of an odd number of at least 3 masters; got ${urls.length} (or is --cluster or --sentinel missing?)`);
  }
  const { REDIS_PASSWORD: password, REDIS_SENTINEL_PASSWORD: sentinelPassword } = environment;
  return { urls, cluster, sentinel, tls: tls === true || cacert !== undefined, cacert, username, password, sentinelPassword, prefix };
}
