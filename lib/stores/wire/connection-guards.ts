/**
 * What is watched on the private connections, because ioredis does not: that they get on, and whose answers they bring.
 *
 *     ready ──(the server answered for the first time)──▶ open ──▶ close ──▶ … ──▶ ready …
 *
 * Some versions of ioredis are ready before the server has said what it makes of the password and the database. Answers come
 * in order: with the first one to us both are known.
 */
import type { Cluster, Redis } from 'ioredis';
import type { Clock, Timer } from '../../core/port/clock.js';
import { CONNECTS_WITHIN_MS, type Needs } from './connection-options.js';

type Client = Redis | Cluster;

const CONNECTION_NAME = 'nestjs-holdfast';
/** An attempt to connect follows the end of a connection much sooner. */
const GIVEN_UP_AFTER_MS = 1_000;
/** Emitted by clients. */
const OPEN = Symbol('open');

/** What every command looks at before it is sent, and when it is answered. */
export interface ConnectionState {
  /** Whether the server has said that it serves this connection; a Cluster asks its nodes that itself. */
  readonly isOpen: boolean;
  /** Whether what this connection answers comes from another database than ours. */
  readonly isAstray: boolean;
}

interface WatchedState extends ConnectionState {
  isOpen: boolean;
  isAstray: boolean;
}

export class ConnectionGuards {
  private readonly states = new WeakMap<Client, ConnectionState>();
  private readonly lookingAgain = new Map<Redis, Timer>();
  private readonly clock: Clock;

  constructor(private readonly needs: Needs) {
    this.clock = needs.clock;
  }

  watch(client: Redis): void {
    const state: WatchedState = { isOpen: false, isAstray: false };
    this.states.set(client, state);
    this.dropStuckHandshakes(client, state);
    this.dropWrongDatabase(client, state);
    this.awaitFirstAnswer(client, state);
    this.keepTrying(client);
  }

  /** ioredis forgets a node whose connection closed until a command needs it; a walk over all nodes would miss it. */
  watchCluster(client: Cluster): void {
    this.states.set(client, new ClusterState(client));
    client.on('ready', () => client.emit(OPEN));
    client.on('+node', (node: Redis) => nameWhenReady(node));
    client.on('-node', () => !this.needs.isClosed() && client.status === 'ready' && client.refreshSlotsCache());
  }

  /** Of a connection that is watched. */
  stateOf(client: Client): ConnectionState {
    return this.states.get(client)!;
  }

  /** Answers what ends it. */
  onOpen(client: Client, listener: () => void): () => void {
    client.on(OPEN, listener);
    return () => void client.off(OPEN, listener);
  }

  close(): void {
    for (const timer of this.lookingAgain.values()) this.clock.clearTimer(timer);
    this.lookingAgain.clear();
  }

  /** ioredis goes on in database 0, where nobody else's locks are, when a server that is busy refuses the SELECT of a new connection. */
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
      // A refusal is an answer as well.
      name(client).then(answered, answered);
    });
    client.on('close', () => (state.isOpen = false));
  }

  /** A frozen server accepts connections and says nothing: try anew until one of them gets its answer. */
  private dropStuckHandshakes(client: Redis, state: WatchedState): void {
    client.on('connect', () => {
      const { stream } = client;
      const patienceMs = Math.min(this.needs.timeoutMs, CONNECTS_WITHIN_MS);
      const timer = this.clock.setTimer(() => state.isOpen || stream.destroy(), patienceMs);
      stream.once('close', () => this.clock.clearTimer(timer));
    });
  }

  /** Some versions of ioredis stop trying after a connection that ended in a moment they did not foresee: they are told to go on. */
  private keepTrying(client: Redis): void {
    const lookAgain = (): void => {
      const present = this.lookingAgain.get(client);
      if (present !== undefined) this.clock.clearTimer(present);
      if (!this.needs.isClosed()) this.lookingAgain.set(client, this.clock.setTimer(look, GIVEN_UP_AFTER_MS));
    };
    const look = (): void => {
      this.lookingAgain.delete(client);
      if (!hasGivenUp(client)) return;
      // Otherwise it would refuse, because it takes itself for connected.
      client.status = 'end';
      client.connect().catch(() => lookAgain());
    };
    for (const event of ['close', 'end']) client.on(event, lookAgain);
  }
}

/** A Cluster has a connection for each node, which it makes and selects itself. */
class ClusterState implements ConnectionState {
  readonly isAstray = false;

  constructor(private readonly client: Cluster) {}

  get isOpen(): boolean {
    return this.client.status === 'ready';
  }
}

/** For a connection that nobody watches: a user without the right to name it does not need to. */
export function nameWhenReady(client: Redis): void {
  client.on('ready', () => void name(client).catch(() => undefined));
}

/** So that operators find our connections in CLIENT LIST. */
function name(client: Redis): Promise<unknown> {
  return client.client('SETNAME', CONNECTION_NAME);
}

export function isCluster(client: Client): client is Cluster {
  return 'isCluster' in client && client.isCluster === true;
}

function hasGivenUp({ status, stream }: Redis): boolean {
  return status === 'end' || (status === 'ready' && stream.destroyed);
}

function isRefusedSelect(error: Error): boolean {
  return (error as { command?: { name?: unknown } }).command?.name === 'select';
}
