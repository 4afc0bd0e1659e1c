/**
 * What a user may give as `redis`. The types are written here and not taken from a package of clients, because an application has
 * only the package that it uses.
 */
import type { clusterNames, redisNames } from './ioredis-options.js';
import type { Credentials } from './login.js';

/** A package of Redis clients. */
export type ClientPackage = 'ioredis' | 'redis';

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

/** The same for the nodes of a Cluster. */
interface NodeOptions extends OtherOptions {
  readonly host?: string | undefined;
  readonly port?: number | undefined;
  /** Of a Unix socket. */
  readonly path?: string | undefined;
  readonly username?: string | undefined;
  readonly password?: string | undefined;
  readonly db?: number | undefined;
  /** Options of tls.connect; an empty object is enough. */
  readonly tls?: object | undefined;
  readonly family?: number | undefined;
  readonly connectTimeout?: number | undefined;
  readonly sentinels?: readonly { readonly host?: string | undefined; readonly port?: number | undefined }[] | null | undefined;
  /** The name by which the Sentinels know the master. */
  readonly name?: string | undefined;
  readonly sentinelUsername?: string | null | undefined;
  readonly sentinelPassword?: string | null | undefined;
}

type Known =
  | 'host' | 'port' | 'path' | 'username' | 'password' | 'db' | 'tls' | 'family' | 'connectTimeout' | 'sentinels' | 'name' | 'sentinelUsername' | 'sentinelPassword';

/** All other options of ioredis. Of these node-redis is only given what says how to connect. */
type OtherOptions = { readonly [Name in Exclude<keyof typeof redisNames, Known>]?: unknown };

/** A Redis Cluster, as the option `redis`: some of its nodes, and options for the connections to all of them. */
export interface ClusterTarget {
  readonly cluster: readonly ClusterNode[];
  readonly options?: ClusterSettings | undefined;
  /** Asked for the login of each connection to a node before it is made. */
  readonly credentials?: Credentials | undefined;
}

type ClusterNode = string | number | { readonly host?: string | undefined; readonly port?: number | undefined };

type ClusterSettings = { readonly redisOptions?: NodeOptions | undefined } & { readonly [Name in Exclude<keyof typeof clusterNames, 'redisOptions'>]?: unknown };

/** A client of the application: of ioredis, or what createClient, createCluster and createSentinel of node-redis make. */
export interface ExistingClient {
  sendCommand(...args: never[]): unknown;
}
