/**
 * Guards the private connections where ioredis does not: a handshake that gets no answer, a connection in the wrong database, a
 * client that stops reconnecting, and a rejection that it leaves to nobody.
 *
 *     ready ──(the server answered for the first time)──▶ open ──▶ close ──▶ … ──▶ ready …
 *
 * Some versions of ioredis are `ready` before the server has answered to the password and the database. Answers come in order, so
 * both are known with the answer to the first command that is sent after that.
 */
import type { Cluster, Redis } from 'ioredis';
import type { Clock, Timer } from '../../../core/port/clock.js';
import { CONNECTION_NAME, connectingMs, type ConnectionState } from '../connections.js';
import { isReply } from '../store-failure.js';
import { setsLogin, type SetLogin } from './connection-login.js';
import { isCluster, type Needs } from './connection-options.js';

type Client = Redis | Cluster;

/** How long after the end of a connection it is checked that ioredis tries to connect, in ms. It does so much sooner, if it does at all. */
const GIVEN_UP_AFTER_MS = 1_000;
/** The event that the guards emit on a client when it is open. */
export const OPEN = Symbol('open');
/**
 * The event that the guards emit on a Cluster client, with the node, when one has answered on a new connection, and when a connection has
 * ended on which one had. A node that is down is connected to again and again, and each time ioredis tells that it came and went.
 */
export const NODE_MOVED = Symbol('node moved');

interface WatchedState extends ConnectionState {
  isOpen: boolean;
  isAstray: boolean;
}

export class ConnectionGuards {
  private readonly lookingAgain = new Map<Redis, Timer>();
  private readonly clock: Clock;

  constructor(private readonly needs: Needs) {
    this.clock = needs.clock;
  }

  watch(client: Redis): ConnectionState {
    const state: WatchedState = { isOpen: false, isAstray: false };
    this.dropStuckHandshakes(client, state);
    this.dropWrongDatabase(client, state);
    this.awaitFirstAnswer(client, state);
    this.keepTrying(client);
    return state;
  }

  /** ioredis forgets a node of a Cluster whose connection closed. The slots are refreshed then, so that SCAN runs on every node. */
  watchCluster(client: Cluster): ConnectionState {
    client.on('ready', () => client.emit(OPEN));
    client.on('+node', (node: Redis) => {
      letAskingFail(node);
      this.readBeforeSilence(node);
      const moved = (): void => void client.emit(NODE_MOVED, node);
      // An error reply is an answer too.
      node.on('ready', () => void name(node).then(moved, (error: unknown) => void (isReply(error) && moved())));
    });
    client.on('-node', (node: Redis) => {
      if (!this.needs.isClosed() && client.status === 'ready') client.refreshSlotsCache();
      if (hasAnswered(node)) client.emit(NODE_MOVED, node);
    });
    return new ClusterState(client);
  }

  /**
   * ioredis closes the connection to a silent node by a timer (socketTimeout). When the event loop of this process was late, the timer comes
   * before what the node has said is read. So the connection is closed a turn later, if nothing has come by then.
   */
  private readBeforeSilence(node: Redis): void {
    node.on('connect', () => {
      const { stream } = node;
      const destroy = stream.destroy.bind(stream);
      stream.destroy = (error?: Error) => {
        if (error === undefined || !isSilence(error)) return destroy(error);
        const { bytesRead } = stream;
        this.clock.nextTurn(() => stream.bytesRead === bytesRead && destroy(error));
        return stream;
      };
    });
  }

  /** Sets the login before each connection of the client, and of the nodes of a Cluster. */
  setLogins(client: Client, setLogin: SetLogin): void {
    const complain = (error: Error): void => void client.emit('error', error);
    if (isCluster(client)) client.on('+node', (node: Redis) => setsLogin(node, setLogin, this.needs, complain));
    else setsLogin(client, setLogin, this.needs, complain);
  }

  close(): void {
    for (const timer of this.lookingAgain.values()) this.clock.clearTimer(timer);
    this.lookingAgain.clear();
  }

  /** When a busy server refuses the SELECT of a new connection, ioredis goes on in database 0, where the locks are not. So it is closed. */
  private dropWrongDatabase(client: Redis, state: WatchedState): void {
    client.on('error', (error: Error) => {
      if (!isRefusedSelect(error)) return;
      state.isAstray = true;
      client.stream.destroy();
    });
    client.on('close', () => (state.isAstray = false));
  }

  private awaitFirstAnswer(client: Redis, state: WatchedState): void {
    client.on('ready', () => {
      const { stream } = client;
      const answered = (): void => {
        if (client.stream !== stream || client.status !== 'ready' || stream.writableEnded || stream.destroyed || state.isAstray) return;
        state.isOpen = true;
        client.emit(OPEN);
      };
      // An error reply is an answer too.
      name(client).then(answered, answered);
    });
    client.on('close', () => (state.isOpen = false));
  }

  /** A frozen server accepts connections and answers nothing. Such a connection is closed, so that ioredis tries again. */
  private dropStuckHandshakes(client: Redis, state: WatchedState): void {
    client.on('connect', () => {
      const { stream } = client;
      const timer = this.clock.setTimer(() => state.isOpen || stream.destroy(), connectingMs(this.needs.timeoutMs));
      stream.once('close', () => this.clock.clearTimer(timer));
    });
  }

  /** Some versions of ioredis do not reconnect after a connection that ended at an unexpected moment. They are made to connect again. */
  private keepTrying(client: Redis): void {
    const lookAgain = (): void => {
      const present = this.lookingAgain.get(client);
      if (present !== undefined) this.clock.clearTimer(present);
      if (!this.needs.isClosed()) this.lookingAgain.set(client, this.clock.setTimer(look, GIVEN_UP_AFTER_MS));
    };
    const look = (): void => {
      this.lookingAgain.delete(client);
      if (!hasGivenUp(client)) return;
      // connect() would refuse, because the client still takes itself for connected.
      client.status = 'end';
      client.connect().catch(() => lookAgain());
    };
    for (const event of ['close', 'end']) client.on(event, lookAgain);
  }
}

/** A Cluster has a connection for each node, which ioredis makes, checks and selects itself. */
class ClusterState implements ConnectionState {
  readonly isAstray = false;

  constructor(private readonly client: Cluster) {}

  get isOpen(): boolean {
    return this.client.status === 'ready';
  }
}

/**
 * ioredis sends ASKING before a command that it redirects to a node of a Cluster, and nobody handles its rejection: Node would end
 * the process. It is rejected when the node goes, and whenever ioredis reads the slots it leaves a node that has none yet. The command
 * behind ASKING is rejected as well, and its caller is told.
 */
function letAskingFail(node: Redis): void {
  const asking = node.asking.bind(node);
  node.asking = (...callback) => {
    const answer = asking(...callback);
    answer.catch(() => undefined);
    return answer;
  };
}

/** Names a connection that is not guarded. A failure is ignored: the user may not have the right to it, and nothing depends on it. */
export function nameWhenReady(client: Redis): void {
  client.on('ready', () => void name(client).catch(() => undefined));
}

/** Gives the connection a name, so that operators find it in CLIENT LIST. */
function name(client: Redis): Promise<unknown> {
  return client.client('SETNAME', CONNECTION_NAME);
}

/** Whether anything came from the server on the connection, which has ended. */
function hasAnswered({ stream }: { readonly stream?: Redis['stream'] }): boolean {
  return stream !== undefined && stream.bytesRead !== 0;
}

function isSilence({ message }: Error): boolean {
  return message.startsWith('Socket timeout');
}

function hasGivenUp({ status, stream }: Redis): boolean {
  return status === 'end' || (status === 'ready' && stream.destroyed);
}

function isRefusedSelect(error: Error): boolean {
  return (error as { command?: { name?: unknown } }).command?.name === 'select';
}
