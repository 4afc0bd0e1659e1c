/**
 * Checks the option `redis` before anything connects. A missing environment variable must not lead to locks on another server,
 * such as the Redis on this machine, and a misspelt ioredis option must not silently lead to a default, such as database 0.
 */
import { optionsProblem, type NamesOf, type OptionList } from '../core/port/option-names.js';
import { clusterNames, redisNames } from '../stores/wire/ioredis/option-names.js';
import { isIoredis } from '../stores/wire/ioredis/ioredis-connections.js';
import { isNodeRedis } from '../stores/wire/node-redis/given-clients.js';
import type { ClusterTarget } from '../stores/wire/redis-target.js';

const targetNames: NamesOf<ClusterTarget> = { cluster: true, options: true };

const REDIS: OptionList = { names: { ...redisNames, cluster: true }, example: `{ host: 'localhost', port: 6379 }`, nullable: true };
const CLUSTER: OptionList = { names: targetNames, example: `{ cluster: ['redis://a:7000'] }` };
const CLUSTER_OPTIONS: OptionList = { names: clusterNames, example: '{ maxRedirections: 4 }', nullable: true };
const NODE_OPTIONS: OptionList = { names: redisNames, example: '{ password: … }', nullable: true };

const LOOK_WHERE = 'look whether an environment variable is missing';

/** What is wrong with this target, as the end of a sentence; undefined when it is valid. `name` is the option it was given as. */
export function targetProblem(name: string, target: unknown): string | undefined {
  if (typeof target === 'string' && target.trim() !== '') return urlProblem(name, target);
  if (typeof target !== 'object' || target === null) return `${name} was given, but it is undefined or empty; ${LOOK_WHERE}`;
  if (isIoredis(target) || isNodeRedis(target)) return undefined;
  if (isForeignClient(target)) {
    return `${name} is a client that locks cannot use; give the URL, a client of ioredis (new Redis(), new Cluster()), or one of node-redis (createClient(), createCluster(), createSentinel())`;
  }
  if ('url' in target) return `${name} has no option url; give the URL itself as ${name}`;
  return namesProblem(name, target) ?? addressProblem(name, target);
}

/** A serverless database is often given by an HTTP endpoint, which has neither connections nor messages. */
function urlProblem(name: string, url: string): string | undefined {
  if (!/^https?:\/\//i.test(url)) return undefined;
  return `${name} is an HTTP endpoint, and locks need the Redis protocol, for connections that stay open and messages; give the redis:// or rediss:// URL of the same database`;
}

function namesProblem(name: string, target: object): string | undefined {
  if (!('cluster' in target)) return inOption(name, target, REDIS);
  const problem = inOption(name, target, CLUSTER);
  const options = 'options' in target ? target.options : undefined;
  if (problem !== undefined || options === undefined) return problem;
  const inside = inOption(`${name}.options`, options, CLUSTER_OPTIONS);
  const ofNodes = typeof options === 'object' && options !== null && 'redisOptions' in options ? options.redisOptions : undefined;
  return inside ?? (ofNodes === undefined ? undefined : inOption(`${name}.options.redisOptions`, ofNodes, NODE_OPTIONS));
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

function serversOf(target: object): unknown {
  if ('cluster' in target) return target.cluster;
  return ('sentinels' in target ? target.sentinels : undefined) ?? [target];
}

/** Whether this has methods of a Redis client. It is called for what is no client of ioredis or node-redis, such as a pool of clients. */
function isForeignClient(target: object): boolean {
  return ['duplicate', 'sendCommand'].some((name) => typeof Reflect.get(target, name) === 'function');
}

/**
 * Whether this entry gives no address, so that ioredis would connect to localhost unasked. A port alone counts as an address:
 * whoever gives one means localhost.
 */
function isNowhere(server: unknown): boolean {
  if (typeof server !== 'object' || server === null) return isVoid(server);
  if ('path' in server && !isVoid(server.path)) return false;
  if ('host' in server) return isVoid(server.host);
  return !('port' in server) || isVoid(server.port);
}

function isVoid(value: unknown): boolean {
  return typeof value === 'string' ? value.trim() === '' : !Number.isInteger(value);
}
