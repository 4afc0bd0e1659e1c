/**
 * What a user may give as `redis`: its types, what a URL says, and logins that change. The types are written here and not taken from a package of
 * clients, because an application has only the package that it uses.
 */
import type { ClusterOptions, RedisOptions } from 'ioredis';
import { type Clock, inTime } from '../../core/port/clock.js';
import { LockUsageError, messageOf } from '../../core/port/errors.js';
import type { NamesOf } from '../../core/port/options.js';

/** The options of ioredis that single connections and clusters share, in every version of it that this package may be used with. */
const OF_BOTH = [
  'autoPipeliningIgnoredCommands', 'enableAutoPipelining', 'enableOfflineQueue', 'enableReadyCheck', 'himportFieldsets', 'keyPrefix', 'lazyConnect',
  'natMap', 'scripts', 'showFriendlyErrorStack',
] as const;
/** All of one connection. */
export const redisNames = namesOf([
  ...OF_BOTH,
  'autoResendUnfulfilledCommands', 'autoResubscribe', 'blockingTimeout', 'blockingTimeoutGrace', 'clientInfoTag', 'commandQueue', 'commandTimeout',
  'connectTimeout', 'connectionName', 'Connector', 'db', 'disableClientInfo', 'disconnectTimeout', 'enableTLSForSentinelMode', 'failoverDetector',
  'family', 'host', 'keepAlive', 'maxLoadingRetryTime', 'maxRetriesPerRequest', 'monitor', 'name', 'noDelay', 'offlineQueue', 'password', 'path',
  'port', 'preferredSlaves', 'protocol', 'readOnly', 'reconnectOnError', 'replyMapping', 'retryStrategy', 'role', 'sentinelCommandTimeout',
  'sentinelMaxConnections', 'sentinelPassword', 'sentinelReconnectStrategy', 'sentinelRetryStrategy', 'sentinelTLS', 'sentinelUsername', 'sentinels',
  'socketTimeout', 'stringNumbers', 'tls', 'updateSentinels', 'username',
]) satisfies NamesOf<RedisOptions>;
/** All of a Cluster. */
export const clusterNames = namesOf([
  ...OF_BOTH,
  'clusterNodeRetryStrategy', 'clusterRetryStrategy', 'dnsLookup', 'maxRedirections', 'redisOptions', 'resolveSrv', 'retryDelayOnClusterDown',
  'retryDelayOnFailover', 'retryDelayOnMoved', 'retryDelayOnTryAgain', 'scaleReads', 'shardedSubscribers', 'slotsRefreshInterval',
  'slotsRefreshTimeout', 'useSRVRecords',
]) satisfies NamesOf<ClusterOptions>;

function namesOf<Name extends string>(names: readonly Name[]): Readonly<Record<Name, true>> {
  return Object.fromEntries(names.map((name) => [name, true])) as Record<Name, true>;
}

/** A package of Redis clients. */
export type ClientPackage = 'ioredis' | 'redis';

/** `what` needs this package. */
export function notLoaded(what: string, wanted: ClientPackage): LockUsageError {
  return new LockUsageError(`Lock options: ${what}, but the package '${wanted}' cannot be loaded from here. Install it beside nestjs-holdfast.`);
}

/** A URL, options, a Cluster, or a client of ioredis or of node-redis. */
export type RedisTarget = string | ServerOptions | ClusterTarget | ExistingClient;

/** Where a server is, and how to log in, in the words of ioredis. They mean the same for both packages. */
export interface ServerOptions extends NodeOptions {
  /** The address as a URL. What it leaves open is taken from the options beside it. */
  readonly url?: string | undefined;
  /** Asked for the login of each connection before it is made: for secrets that rotate, and tokens that end. */
  readonly credentials?: Credentials | undefined;
  /** The same for the connections to Sentinels. */
  readonly sentinelCredentials?: Credentials | undefined;
}

/** The same for the nodes of a Cluster, and all other options of ioredis. Of those node-redis is only given what says how to connect. */
type NodeOptions = NamedOptions & Readonly<Partial<Record<keyof typeof redisNames, unknown>>>;

export interface Endpoint {
  readonly host?: string | undefined;
  readonly port?: number | undefined;
}

interface NamedOptions extends Endpoint {
  /** Of a Unix socket. */
  readonly path?: string | undefined;
  readonly username?: string | undefined;
  readonly password?: string | undefined;
  readonly db?: number | undefined;
  /** Options of tls.connect; an empty object is enough. */
  readonly tls?: object | undefined;
  readonly family?: number | undefined;
  readonly sentinels?: readonly Endpoint[] | null | undefined;
  /** The name by which the Sentinels know the master. */
  readonly name?: string | undefined;
  readonly sentinelUsername?: string | null | undefined;
  readonly sentinelPassword?: string | null | undefined;
}

/** A Redis Cluster, as the option `redis`: some of its nodes, and options for the connections to all of them. */
export interface ClusterTarget {
  readonly cluster: readonly (string | number | Endpoint)[];
  readonly options?: ClusterSettings | undefined;
  /** Asked for the login of each connection to a node before it is made. */
  readonly credentials?: Credentials | undefined;
}

type ClusterSettings = { readonly redisOptions?: NodeOptions | undefined } & Readonly<Partial<Record<keyof typeof clusterNames, unknown>>>;

/** A client of the application: of ioredis, or what createClient, createCluster and createSentinel of node-redis make. */
export interface ExistingClient {
  sendCommand(...args: never[]): unknown;
}

/**
 * Reads what ioredis takes as a URL, so that it means the same with every package of clients: a URL, `host:port`, a port, or the path of a
 * Unix socket; db, family and others as parameters.
 */
export function serverOfUrl(text: string): ServerOptions {
  if (/^\d+$/.test(text)) return { port: Number(text) };
  if (text.startsWith('/')) {
    const [path = '', query = ''] = text.split('?');
    return { path, ...parametersOf(new URLSearchParams(query)) };
  }
  const { protocol, hostname, port, username, password, pathname, searchParams } = urlOf(text);
  return said({
    ...parametersOf(searchParams),
    host: hostname.replace(/^\[(.*)\]$/, '$1'),
    port: port === '' ? undefined : Number(port),
    username: username === '' ? undefined : decodeURIComponent(username),
    password: password === '' ? undefined : decodeURIComponent(password),
    tls: protocol === 'rediss:' ? {} : undefined,
    ...(pathname.length > 1 && { db: Number(pathname.slice(1)) }),
  });
}

/** The server of options that may have a URL. What it says wins over the options beside it. */
export function serverOf({ url, ...options }: ServerOptions): ServerOptions {
  return url === undefined ? options : { ...options, ...serverOfUrl(url) };
}

/** Without what a URL leaves open, which would hide the same among the options beside it. */
export function said(server: ServerOptions): ServerOptions {
  return Object.fromEntries(Object.entries(server).filter(([, value]) => value !== undefined));
}

export function urlOf(text: string): URL {
  if (text.startsWith('/')) return new URL(`file://${text}`);
  return new URL(/^\w+:\/\//.test(text) ? text : `redis://${text}`);
}

function parametersOf(parameters: URLSearchParams): ServerOptions {
  const number = (name: string): number | undefined => {
    const value = parameters.get(name);
    return value === null || value === '' || !Number.isFinite(Number(value)) ? undefined : Number(value);
  };
  return said({ db: number('db'), family: number('family') });
}

export interface Login {
  readonly username?: string | undefined;
  readonly password: string;
}

/** Logins that change, such as tokens and rotated secrets: the user's function is asked for the login of each connection before it is made. */
export type Credentials = () => Login | Promise<Login>;

/** Asks for the login of a connection that is about to be made. */
export type AskLogin = (clock: Clock, withinMs: number) => Promise<Login>;

/**
 * What this makes of the function that was given as `name` rejects when that fails, gives nothing in time, or gives no login. The error
 * says what was wrong without a value, because there may be a secret in what was given.
 */
export function loginFrom(name: 'credentials' | 'sentinelCredentials', credentials: Credentials | undefined): AskLogin | undefined {
  if (credentials === undefined) return undefined;
  const failed = (what: string): Error => new Error(`the function ${name} ${what}`);
  const ask = async (): Promise<Login | undefined> => loginIn(await credentials());
  return async (clock, withinMs) => {
    const asked = ask().catch((error: unknown) => Promise.reject(failed(`failed${wordsOf(error)}`)));
    const login = await inTime(clock, asked, withinMs, () => failed(`gave nothing within ${withinMs} ms`));
    if (login === undefined) throw failed('did not give { username?, password }, with a password that is a text');
    return login;
  };
}

/** What an error of the function says. That of a parser repeats the text that it could not read, which may be the secret. */
function wordsOf(error: unknown): string {
  if (!(error instanceof Error)) return '';
  return error instanceof SyntaxError ? ': SyntaxError' : `: ${messageOf(error)}`;
}

/** The login alone, of all that the function gave; a name that it left open may stand in the options. Undefined for a value that is no login. */
function loginIn(given: unknown): Login | undefined {
  const { username, password } = (given ?? {}) as { username?: unknown; password?: unknown };
  if (typeof password !== 'string' || password === '') return undefined;
  if (username === undefined) return { password };
  return typeof username === 'string' ? { username, password } : undefined;
}
