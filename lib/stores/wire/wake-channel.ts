/**
 * The subscriber connection of a process, on which the messages arrive that scripts publish for it. Messages are only hints: every
 * waiter asks again by itself, and after every subscription all waiters do.
 *
 *     connecting ──▶ listening ──(it ended, it is deaf, or the commands have a new connection)──▶ connecting …
 */
import type { Clock } from '../../core/port/clock.js';
import { messageOf } from '../../core/port/errors.js';
import type { Grant, Wake } from '../../core/port/lock-store.js';
import { decodeKey } from './redis-keys.js';
import type { Listening, ServerConnection } from './server-connection.js';
import { isReply } from './store-failure.js';

/** A grant whose end is in the server's time. */
export interface ServerGrant extends Omit<Grant, 'trustedUntil' | 'memory'> {
  /** The last instant of the lease, in ms of the server's clock. */
  readonly end: number;
}

/** A grant as a script published it. */
export interface PushedGrant extends ServerGrant {
  readonly key: string;
  readonly id: string;
  /** How long the grant was when it was made, in ms. */
  readonly lengthMs: number;
}

/** When the server made it, in its time. */
export function grantedAt({ end, lengthMs }: PushedGrant): number {
  return end - lengthMs;
}

export interface WakeListener {
  granted(grant: PushedGrant): void;
  /** What else concerns a holder or a waiter. */
  wake(wake: Wake): void;
  /** A slot group has another memory than before: the server may have forgotten what it granted. */
  forgot(group: number, memory: string): void;
  /** The data of the server were emptied or replaced. A listener that need not know leaves it out, and the server is not asked to tell. */
  readonly flushed?: (() => void) | undefined;
  /** The subscription has begun. Messages before it may have been missed. */
  listening(): void;
  /** The subscription was there before, and the server refuses it now, for this reason. */
  refused(reason: string): void;
}

/** What a server says to a user who may not subscribe, or to whom it does not offer that. */
const NOT_ALLOWED = /\bNOPERM\b|unknown command/i;

/**
 * The messages of scripts that are one word about an id. `c`: another process began to wait for the lock that this id holds. `l`: the hold of
 * this id is lost. `t`: this id should ask, because a node of a Redlock keeps a free lock for it; or, as the first waiter on one Redis, because
 * the lock becomes free sooner than it was told.
 */
const KINDS: ReadonlyMap<string, 'contended' | 'lost' | 'ask'> = new Map([['c', 'contended'], ['l', 'lost'], ['t', 'ask']]);

/** A connection on which nothing comes for longer than this, in ms, after a message was due is deaf. */
const DEAF_AFTER_MS = 500;

export class WakeChannel {
  private connection: ServerConnection | undefined;
  /** Since when the message of a grant is due that came in a reply first; undefined once any message has come, or with a new subscription. */
  private dueSince: number | undefined;

  constructor(
    private readonly connect: (listening: Listening) => ServerConnection,
    private readonly channels: readonly string[],
    private readonly clock: Clock,
  ) {}

  /** Subscribes for the first time. Rejects with the error of the server; later it is subscribed again whenever the connection has ended. */
  async open(listener: WakeListener): Promise<void> {
    const { channels } = this;
    // An earlier try of this boot may have subscribed already.
    this.connection?.close();
    const connection = (this.connection = this.connect({ channels, hear: (message) => this.hear(message, listener), flushed: listener.flushed }));
    connection.events.on('open', () => {
      this.dueSince = undefined;
      listener.listening();
    });
    await connection.start().catch((error: unknown) => {
      connection.close();
      throw error;
    });
    connection.events.on('problem', (error) => isReply(error) && NOT_ALLOWED.test(messageOf(error)) && listener.refused(messageOf(error)));
  }

  /** Notes that a reply brought a grant whose message has not come. If it does not come soon, this connection receives nothing. */
  missed(): void {
    this.dueSince ??= this.clock.now();
  }

  /** Makes a new connection in place of one that is deaf. */
  check(): void {
    if (this.dueSince !== undefined && this.clock.now() - this.dueSince > DEAF_AFTER_MS) this.connection?.drop();
  }

  /**
   * Is called when the commands have a new connection, perhaps to another server: subscribes again, so that messages come from the same
   * server. A former master could publish grants of locks that the new master has given to others.
   */
  follow(): void {
    this.connection?.leave(new Error('the commands have a new connection'));
  }

  close(): void {
    this.connection?.close();
  }

  private hear(message: string, listener: WakeListener): void {
    this.dueSince = undefined;
    const [word = '', id = '', ...rest] = message.split(' ');
    const kind = KINDS.get(word);
    if (kind !== undefined) listener.wake({ kind, key: decodeKey(rest.join(' ')), id });
    else if (word === 'f') listener.forgot(Number(rest[0]), id);
    else if (word === 'g') {
      const [fence, fences, mode, end, lengthMs, contended, ...key] = rest;
      listener.granted({
        key: decodeKey(key.join(' ')),
        id,
        fence: Number(fence),
        fences: Number(fences),
        mode: mode === 'w' ? 'write' : 'read',
        end: Number(end),
        lengthMs: Number(lengthMs),
        contended: contended === '1',
      });
    }
  }
}
