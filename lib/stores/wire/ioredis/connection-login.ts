/**
 * Sets the login in the options of a client of ioredis before each connection that it makes, for itself and for its copies. ioredis
 * reads these options when it begins to connect.
 */
import type { Cluster, Redis, RedisOptions } from 'ioredis';
import { delay, keptAlive } from '../../../core/port/clock.js';
import { messageOf } from '../../../core/port/errors.js';
import { reconnectPause } from '../connections.js';
import type { AskLogin } from '../login.js';
import { isCluster, type Needs } from './connection-options.js';

/** Writes the login into the options of a connection that is about to be made, at once or later. `plain` has the methods of its class. */
export type SetLogin = (options: RedisOptions, plain: Pick<Redis, 'connect'>) => Promise<void> | undefined;

/** The login that the user's functions give. */
export function askedFor(credentials: AskLogin | undefined, sentinelCredentials: AskLogin | undefined, { clock, timeoutMs }: Needs): SetLogin | undefined {
  if (credentials === undefined && sentinelCredentials === undefined) return undefined;
  return async (options) => {
    const [login, ofSentinels] = await Promise.all([credentials?.(clock, timeoutMs), sentinelCredentials?.(clock, timeoutMs)]);
    Object.assign(options, login);
    if (ofSentinels !== undefined) options.sentinelPassword = ofSentinels.password;
    if (ofSentinels?.username !== undefined) options.sentinelUsername = ofSentinels.username;
  };
}

const LOGIN = ['username', 'password', 'sentinelUsername', 'sentinelPassword'] as const;

/** The login that stands in the options of a client of the application, where it was set anew since its copy was made. */
export function asItStandsIn(given: Redis | Cluster): SetLogin {
  const present = (): RedisOptions | undefined => (isCluster(given) ? given.options.redisOptions : given.options);
  const before = { ...present() };
  return (options, { connect }) => {
    const now = present();
    for (const name of LOGIN) if (now?.[name] !== before[name]) Object.assign(options, { [name]: now?.[name] });
    return isCluster(given) || given.connect === connect ? undefined : askedByConnect(given, options);
  };
}

/**
 * A client of a subclass may ask for its login in `connect`, and its copies are of the class of ioredis. So that method is called for a
 * stand-in, which has the options of the copy and seems to be connecting already: then ioredis refuses to connect it.
 */
async function askedByConnect(given: Redis, options: RedisOptions): Promise<void> {
  const standIn = Object.create(given, { options: { value: options }, status: { value: 'connecting', writable: true } }) as Redis;
  await given.connect.call(standIn).catch((error: unknown) => {
    if (!/already connecting/.test(messageOf(error))) throw error;
  });
}

/**
 * `complain` is called with the reason when there is no login. A client that reconnects tries again, as after a refused connection;
 * any other ends.
 */
export function setsLogin(client: Redis, setLogin: SetLogin, needs: Needs, complain: (error: Error) => void): Redis {
  const connect = client.connect.bind(client);
  const duplicate = client.duplicate.bind(client);
  const plain = { connect: client.connect };
  const set = (): Promise<void> | undefined => setLogin(client.options, plain);
  let setting: Promise<void> | undefined;

  async function untilSet(first: Promise<void>): Promise<void> {
    const { status } = client;
    for (let setNow: Promise<void> | undefined = first; ; setNow = set()) {
      const error = await Promise.resolve(setNow).then(() => undefined, (reason: unknown) => reason as Error);
      // It was closed while the login was asked for, and would otherwise connect after that.
      if (needs.isClosed() || client.status !== status) throw new Error('Connection is closed.');
      if (error === undefined) return;
      complain(error);
      if (client.options.retryStrategy == null) {
        client.disconnect();
        throw error;
      }
      await delay(needs.clock, reconnectPause(false));
    }
  }

  client.connect = async (callback) => {
    const first = setting ?? set();
    if (first !== undefined) {
      // Commands that are sent meanwhile look here for their database. connect() writes it anew.
      client.condition ??= { select: client.options.db ?? 0, subscriber: false, protocol: client.options.protocol ?? 2, replyMapping: 'legacy', handshake: false };
      // Commands that find a node not connected all call this: they wait for one login.
      await (setting ??= keptAlive(needs.clock, () => untilSet(first)).finally(() => (setting = undefined)));
    }
    return connect(callback);
  };
  client.duplicate = (override) => setsLogin(duplicate(override), setLogin, needs, complain);
  return client;
}
