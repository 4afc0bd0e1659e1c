/**
 * A ticket as text: which locks it is for, until when, and the secret that makes it worth something. Whoever brings it adopts the
 * hold, so the secret has 128 random bits. The store knows only a hash of it, which `inspect` and the board may show.
 */
import { createHash, randomBytes } from 'node:crypto';
import { type LockStoreError, LockUsageError } from './errors.js';
import type { Grant, HolderRef, LockStore, TakenHold } from './lock-store.js';

/** How every ticket begins; the digit is the version of what follows. */
const START = 'hold1.';
const SECRET_BYTES = 16;
/** So much of a hash is kept, in characters of six bits. */
const HASH_LENGTH = 22;
const CHECK_LENGTH = 8;
/** Stands before the hash in the holder id of a ticket, where other ids have a number. */
const MARK = '.=';

export interface Ticket {
  /** Where the locks live: see TicketStore. */
  readonly home: string;
  /** The name of the lock module. */
  readonly instance: string;
  /** The keys of the locks, in the order in which they are taken. */
  readonly keys: readonly string[];
  /** The name of the process that handed the hold off. */
  readonly process: string;
  readonly secret: string;
  /** The last instant at which it can be adopted, on the store's clock in ms. */
  readonly until: number;
  /** Whether whoever brings it hands it back after a failure, so that it can be good again after `until`. */
  readonly handsBack?: boolean;
  /** What the store remembered when the hold was handed off, of a store that may forget. */
  readonly memory?: string | undefined;
}

export function newSecret(): string {
  return randomBytes(SECRET_BYTES).toString('base64url');
}

/** The holder id of a ticket. It says which process handed the hold off, and nothing about the secret. */
export function ticketIdOf({ process, secret }: Pick<Ticket, 'process' | 'secret'>): string {
  return `${process}${MARK}${hashOf(secret).slice(0, HASH_LENGTH)}`;
}

/** Whether a holder id is that of a ticket. */
export function isTicketId(id: string): boolean {
  return id.startsWith(MARK, id.lastIndexOf('.'));
}

export function ticketText({ home, instance, keys, process, secret, until, memory }: Ticket): string {
  const facts = [until, home, instance, process, secret, memory ?? '', ...keys];
  const body = Buffer.from(JSON.stringify(facts)).toString('base64url');
  return `${START}${body}.${hashOf(body).slice(0, CHECK_LENGTH)}`;
}

/** Reads a ticket. @throws LockUsageError when it is none, or is damaged */
export function readTicket(text: unknown): Ticket {
  if (typeof text !== 'string') throw new LockUsageError(`A ticket is the text that lease.handOff() gave, got ${text === null ? 'null' : typeof text}. Put that text into the job's data.`);
  const [, body = '', check = ''] = text.startsWith(START) ? /^([\w-]+)\.([\w-]+)$/.exec(text.slice(START.length)) ?? [] : [];
  if (hashOf(body).slice(0, CHECK_LENGTH) !== check) throw damagedError();
  return factsOf(body);
}

function factsOf(body: string): Ticket {
  let facts: unknown;
  try {
    facts = JSON.parse(Buffer.from(body, 'base64url').toString('utf8'));
  } catch {
    throw damagedError();
  }
  if (!Array.isArray(facts)) throw damagedError();
  const [until, ...texts] = facts as readonly unknown[];
  if (typeof until !== 'number' || !texts.every((one) => typeof one === 'string')) throw damagedError();
  const [home = '', instance = '', process = '', secret = '', memory = '', ...keys] = texts;
  if (keys.length === 0) throw damagedError();
  return { home, instance, process, secret, until, memory: memory === '' ? undefined : memory, keys };
}

function damagedError(): LockUsageError {
  return new LockUsageError('This text is not a ticket, or it was damaged; the store was not asked. Pass on the text that lease.handOff() gave, whole and unchanged.');
}

function hashOf(text: string): string {
  return createHash('sha256').update(text).digest('base64url');
}

// The part of the port with which a hold changes hands between processes. It belongs to a ticket in between: a holder like any other,
// whose lease ends after `withinMs`, and which nobody renews.
//
//   T1  A hand-off puts the ticket into the place of the hold in one step: nobody else is let in, and waiters stay where they are.
//   T2  The hold keeps its mode, its owner, its permit and what is left of its minHoldMs. A ticket owes no grace, because nobody works under it.
//   T3  An adoption puts a new holder into the place of the ticket in one step, with a higher fence, while the ticket's time lasts and
//       no adoption came before. A network that delivers requests twice may put a ticket there anew after its time; it counts as late,
//       except in a store with several clocks, and where attempts hand it back. The fence is that of the other holds of its owner, if there are any.
//   T4  Both are idempotent: the same request again has the same outcome, and neither acts after `notAfter`. Beside a hold that stays, a
//       hand-off that comes again after the adoption puts the ticket there anew: so the giver repeats it only when the one before is late.
//   T5  The ticket's lock passes on by itself when its time is over, and no sooner than its minHoldMs.
//   T6  A store that forgot grants no adoption while it waits for those who hold; nobody brings a ticket back.

/** One of the holds that are handed off together. */
export interface HandedHold extends HolderRef {
  /** Whether the id stays a holder beside the ticket, because other readers of its process go on under it. */
  readonly stays: boolean;
}

export interface HandOffRequest {
  /** The holder id of the ticket, the same for all locks. */
  readonly ticketId: string;
  readonly withinMs: number;
  readonly holds: readonly HandedHold[];
  /** The local instant (clock.now()) after which the store must not act on this request any more. */
  readonly notAfter: number;
}

export type HandOffOutcome =
  /** `until`: the last instant of the ticket on the store's clock, in ms. `memory` names what the store remembers of the first lock. */
  | { readonly kind: 'handedOff'; readonly until: number; readonly memory?: string | undefined }
  /** The store does not know the hold of this lock. Those before it were handed off. */
  | { readonly kind: 'lost'; readonly key: string };

export interface AdoptRequest {
  readonly ticketId: string;
  /** The last instant of the ticket, as the hand-off told it: on the store's clock, in ms. */
  readonly until: number;
  /** The locks of the ticket, each with the id of its new holder. */
  readonly holds: readonly HolderRef[];
  readonly leaseMs: number;
  readonly graceMs: number;
  readonly label: string | undefined;
  readonly minReplicas: number;
  /** The local instant (clock.now()) after which the store must not act on this request any more. */
  readonly notAfter: number;
}

/** What an adoption makes of a ticket for one lock. */
export type AdoptedHold = TakenHold & { readonly grant: Grant };

export type AdoptOutcome =
  /** In the order of the request. */
  | { readonly kind: 'adopted'; readonly holds: readonly AdoptedHold[] }
  /** The ticket does not have this lock, the first of those that it does not have. `now`: the store's clock in ms. */
  | { readonly kind: 'gone'; readonly key: string; readonly now: number; readonly memory: string | undefined }
  /** The store may have forgotten who holds the lock: until `retryInMs` have passed it grants nothing (T6). */
  | { readonly kind: 'recovering'; readonly retryInMs: number; readonly cause: LockStoreError };

/** What a request that takes over a hold says of what it does not decide. */
const WHATEVER = { mode: 'write', queue: false, fences: 1, minHoldMs: 0 } as const;

export interface TicketStore {
  /** Names the locks that a ticket of this store can be for: the kind of the store and its prefix. Tickets with another home are refused. */
  readonly home: string;
  /** T1, T2. Rejects with LockStoreError when the outcome is unknown: then the caller asks again, or releases all ids and the ticket's. */
  handOff(request: HandOffRequest): Promise<HandOffOutcome>;
  /**
   * T3. Rejects with LockStoreError when the outcome is unknown: then the caller asks again with the same ids, or releases them. After
   * an answer for a lock that is not the first, those before it may have been adopted.
   */
  adopt(request: AdoptRequest): Promise<AdoptOutcome>;
}

/** The tickets of a store: for each lock of a ticket a request that takes over a hold, one after another. */
export function ticketsOf(store: Pick<LockStore, 'acquire' | 'capabilities'>, home: string): TicketStore {
  const handOff = async ({ ticketId, withinMs, holds, notAfter }: HandOffRequest): Promise<HandOffOutcome> => {
    let until = Infinity;
    let memory: string | undefined;
    for (const { key, id, stays } of holds) {
      const takesOver = stays ? 'beside' : 'hold';
      const outcome = await store.acquire({ ...WHATEVER, key, id: ticketId, leaseMs: withinMs, replaces: id, takesOver, minReplicas: 0, notAfter });
      if (outcome.kind !== 'granted') return { kind: 'lost', key };
      if (until === Infinity) memory = outcome.grant.memory;
      until = Math.min(until, outcome.taken!.end);
    }
    return { kind: 'handedOff', until, memory };
  };

  const adopt = async ({ ticketId, until, holds, ...terms }: AdoptRequest): Promise<AdoptOutcome> => {
    // Each server of a Cluster has a clock of its own, and the ticket names one end.
    const ticketUntil = holds.length > 1 && store.capabilities.groupOf ? Number.MAX_SAFE_INTEGER : until;
    const adopted: AdoptedHold[] = [];
    for (const { key, id } of holds) {
      const outcome = await store.acquire({ ...WHATEVER, ...terms, key, id, replaces: ticketId, takesOver: 'ticket', ticketUntil });
      if (outcome.kind === 'granted') adopted.push({ grant: outcome.grant, ...outcome.taken! });
      else return outcome.kind === 'gone' ? { ...outcome, key } : (outcome as Extract<AdoptOutcome, { kind: 'recovering' }>);
    }
    return { kind: 'adopted', holds: adopted };
  };
  return { home, handOff, adopt };
}
