/**
 * Checks the option `redis` before anything connects. A missing environment variable must not lead to locks on another server,
 * such as the Redis on this machine, and a misspelt ioredis option must not silently lead to a default, such as database 0.
 */
import { type NamesOf, type OptionList, optionsProblem, show } from '../core/port/options.js';
import { isIoredis } from '../stores/wire/ioredis.js';
import { isNodeRedis } from '../stores/wire/node-redis.js';
import { clusterNames, type ClusterTarget, redisNames, serverOfUrl, urlOf } from '../stores/wire/redis-target.js';

const targetNames: NamesOf<ClusterTarget> = { cluster: true, options: true, credentials: true };

const REDIS: OptionList = {
  names: { ...redisNames, cluster: true, url: true, credentials: true, sentinelCredentials: true },
  example: `{ host: 'localhost', port: 6379 }`,
  nullable: true,
};
const CLUSTER: OptionList = { names: targetNames, example: `{ cluster: ['redis://a:7000'] }` };
const CLUSTER_OPTIONS: OptionList = { names: clusterNames, example: '{ maxRedirections: 4 }', nullable: true };
const NODE_OPTIONS: OptionList = { names: redisNames, example: '{ password: … }', nullable: true };

/** What was given as the option, once it is known to be an object. */
type Given = { readonly [Name in 'cluster' | 'db' | 'name' | 'options' | 'sentinels' | 'startupNodes']?: unknown };

const LOOK_WHERE = 'look whether an environment variable is missing';

/** What is wrong with this target, as the end of a sentence; undefined when it is valid. `name` is the option it was given as. */
export function targetProblem(name: string, target: unknown): string | undefined {
  if (typeof target === 'string' && target.trim() !== '') return urlProblem(name, target);
  if (target == null || typeof target === 'string') return `${name} was given, but it is undefined or empty; ${LOOK_WHERE}`;
  if (typeof target !== 'object') return `expected ${name} to be a URL, options or a client, got ${show(target)}`;
  if ('then' in target && typeof target.then === 'function') return `${name} is a promise; give the client itself, or await it in useFactory: ({ redis: await … })`;
  if (isIoredis(target) || isNodeRedis(target)) return hostsProblem(`the client in ${name}`, hostsOfClient(target as object));
  if (isForeignClient(target)) {
    return `${name} is a client that locks cannot use; give the URL, a client of ioredis (new Redis(), new Cluster()), or one of node-redis (createClient(), createCluster(), createSentinel())`;
  }
  const problem = namesProblem(name, target) ?? loginProblem(name, target);
  if (problem !== undefined) return problem;
  return ('url' in target ? urlOptionProblem(name, target, target.url) : addressProblem(name, target)) ?? hostsProblem(name, hostsOf(target)) ?? numbersProblem(name, target);
}

/** A login, or a promise of one, in place of the function would be the same for all connections. */
function loginProblem(name: string, target: object): string | undefined {
  for (const given of ['credentials', 'sentinelCredentials']) {
    const type = typeof Reflect.get(target, given);
    if (type !== 'function' && type !== 'undefined') return `expected ${name}.${given} to be a function that returns { username?, password } or a promise of it, got ${type}`;
  }
  return undefined;
}

function urlOptionProblem(name: string, target: object, url: unknown): string | undefined {
  const beside = ['host', 'port', 'path', 'sentinels'].find((option) => option in target);
  if (beside !== undefined) return `${name} has url and ${beside}; give one of them`;
  if (typeof url !== 'string' || url.trim() === '') return `expected ${name}.url to be a URL, got ${show(url)}; ${LOOK_WHERE}`;
  return urlProblem(`${name}.url`, url);
}

/**
 * What is wrong with the text of a URL; undefined when both packages of clients read the same server and database in it. The sentence does
 * not repeat the text, because a password may stand in it. A serverless database is often given by an HTTP endpoint, which has neither
 * connections nor messages.
 */
export function urlProblem(name: string, text: string): string | undefined {
  if (/^https?:\/\//i.test(text)) {
    return `${name} is an HTTP endpoint, and locks need the Redis protocol, for connections that stay open and messages; give the redis:// or rediss:// URL of the same database`;
  }
  if (/^["'`]|["'`]$/.test(text.trim())) return `${name} has quotes around it, which are part of the value, as the env file of a container keeps them; leave them out`;
  if (/^([\w+.-]+:)?\/\//.test(text) && !/^rediss?:\/\//.test(text)) return `${name} starts with neither redis:// nor rediss://; a Unix socket is given by its path alone, such as /run/redis.sock`;
  const url = readable(text);
  if (url === undefined) {
    if (/\s/.test(text.trim())) return `${name} has a space in it, and a URL has none; look at where it comes from`;
    return `${name} cannot be read as a URL; in a user name or a password / # ? @ : and % are written as %2F %23 %3F %40 %3A and %25`;
  }
  if (url.protocol !== 'file:' && url.hostname === '') return `${name} names no host, which would mean the Redis on this machine`;
  const path = url.protocol === 'file:' ? '' : url.pathname.slice(1);
  const db = path === '' ? (url.searchParams.get('db') ?? '0') : path;
  if (!/^\d+$/.test(db)) return `${name} names a database that is no whole number from 0`;
  return path === '' || /^rediss?:/.test(text) ? undefined : `${name} names a database but does not start with redis:// or rediss://`;
}

/** undefined also for a URL with a #, which ends what is read of it: a password with that character leads to another server. */
function readable(text: string): URL | undefined {
  try {
    serverOfUrl(text);
    return text.includes('#') && !text.startsWith('/') ? undefined : urlOf(text);
  } catch {
    return undefined;
  }
}

/** ioredis would take what is no number for database 0, and fail without being asked: `Number(process.env.REDIS_DB)` of nothing is NaN. */
function numbersProblem(name: string, target: Given): string | undefined {
  const { db, sentinels, name: master } = target;
  if (!isWhole(db)) return `expected ${name}.db to be a whole number from 0, got ${show(db)}; ${LOOK_WHERE}`;
  for (const server of serversOf(target) as readonly unknown[]) {
    const problem = typeof server === 'string' ? urlProblem(`${name}.cluster`, server) : portProblem(name, server);
    if (problem !== undefined) return problem;
  }
  if (sentinels == null || (typeof master === 'string' && master !== '')) return undefined;
  return `${name} has sentinels, but no name of the master that they watch, such as name: 'mymaster'`;
}

function portProblem(name: string, server: unknown): string | undefined {
  const port = isRecord(server) ? server['port'] : server;
  if (port == null || (isWhole(port) && Number(port) >= 1 && Number(port) <= 65_535)) return undefined;
  return `expected ${name}.port to be a whole number from 1 to 65535, got ${show(port)}; ${LOOK_WHERE}`;
}

/** True if this is a whole number, perhaps as the text of an environment variable, or was left out. */
function isWhole(value: unknown): boolean {
  return value == null || (typeof value === 'string' ? /^\d+$/.test(value) : Number.isInteger(value) && Number(value) >= 0);
}

function namesProblem(name: string, target: Given): string | undefined {
  if (!('cluster' in target)) return inOption(name, target, REDIS);
  const { options } = target;
  const ofNodes = isRecord(options) ? options['redisOptions'] : undefined;
  return (
    inOption(name, target, CLUSTER) ??
    (options === undefined ? undefined : inOption(`${name}.options`, options, CLUSTER_OPTIONS)) ??
    (ofNodes === undefined ? undefined : inOption(`${name}.options.redisOptions`, ofNodes, NODE_OPTIONS))
  );
}

function inOption(name: string, options: unknown, list: OptionList): string | undefined {
  const problem = optionsProblem(options, list);
  if (problem === undefined) return undefined;
  return `${name}: ${problem}. What only your version of a client knows can be given with a client: new Redis({ … }) or createClient({ … })`;
}

function addressProblem(name: string, target: object): string | undefined {
  const servers = serversOf(target);
  if (Array.isArray(servers) && servers.length > 0 && !servers.some(isNowhere)) return undefined;
  const what = 'its host (or path, cluster, sentinels) is undefined or empty, which would mean the Redis on this machine';
  return `${name} was given, but ${what}; ${LOOK_WHERE}`;
}

/**
 * What is wrong with the names of servers that options give, of which the clients would repeat a URL, with its password, in each message.
 * Neither does this sentence.
 */
function hostsProblem(name: string, hosts: readonly unknown[]): string | undefined {
  if (!hosts.some((host) => typeof host === 'string' && /[\s/@"'?#]/.test(host))) return undefined;
  return `${name} has a host with a character that no name of a host has, as in a URL; a URL is given as redis itself, and a name without quotes`;
}

function hostsOf(target: Given): unknown[] {
  // Of a Cluster a node that is a text is a URL, and is looked at as such.
  const nodes = listOf(target.cluster).filter((node) => typeof node === 'object');
  return [target, ...nodes, ...listOf(target.sentinels)].map((server) => (isRecord(server) ? server['host'] : server)).concat(target.name);
}

/** The hosts that a client was made with: of ioredis in its options, or those of its Sentinels and nodes, of node-redis in `socket`. */
function hostsOfClient({ options, startupNodes }: Given): unknown[] {
  const servers = [options, isRecord(options) ? options['socket'] : undefined, ...listOf(startupNodes)];
  return servers.flatMap((server) => (isRecord(server) ? hostsOf(server) : [server]));
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}

function listOf(given: unknown): readonly unknown[] {
  return Array.isArray(given) ? given : [];
}

function serversOf(target: Given): unknown {
  return 'cluster' in target ? target.cluster : (target.sentinels ?? [target]);
}

/** True if this has methods of a Redis client. It is called for what is no client of ioredis or node-redis, such as a pool of clients. */
function isForeignClient(target: object): boolean {
  return ['duplicate', 'sendCommand'].some((name) => typeof Reflect.get(target, name) === 'function');
}

/**
 * True if this entry gives no address, so that ioredis would connect to localhost unasked. A port alone counts as an address:
 * whoever gives one means localhost.
 */
function isNowhere(server: unknown): boolean {
  if (!isRecord(server)) return isVoid(server);
  return isVoid(server['path']) && isVoid('host' in server ? server['host'] : server['port']);
}

function isVoid(value: unknown): boolean {
  return typeof value === 'string' ? value.trim() === '' : !Number.isInteger(value);
}
