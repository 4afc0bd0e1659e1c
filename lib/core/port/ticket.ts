/**
 * A ticket as text: which locks it is for, until when, and the secret that makes it worth something. Whoever brings it adopts the
 * hold, so the secret has 128 random bits. The store knows only a hash of it, which `inspect` and the board may show.
 *
 * A hold changes hands by acquires with `takesOver` (P18). It belongs to a ticket in between: a holder like any other, whose lease ends
 * after `withinMs`, and which nobody renews. What every store promises of tickets:
 *
 *   T1  A hand-off puts the ticket into the place of the hold in one step: nobody else is let in, and waiters stay where they are.
 *   T2  The hold keeps its mode, its owner, its permit and what is left of its minHoldMs. A ticket owes no grace, because nobody works under it.
 *   T3  An adoption puts a new holder into the place of the ticket in one step, with a higher fence, while the ticket's time lasts and
 *       no adoption came before. A network that delivers requests twice may put a ticket there anew after its time; it counts as late,
 *       except in a store with several clocks, and where attempts hand it back. The fence is that of the other holds of its owner, if there are any.
 *   T4  Both are idempotent: the same request again has the same outcome, and neither acts after `notAfter`. Beside a hold that stays, a
 *       hand-off that comes again after the adoption puts the ticket there anew: so the giver repeats it only when the one before is late.
 *   T5  The ticket's lock passes on by itself when its time is over, and no sooner than its minHoldMs.
 *   T6  A store that forgot grants no adoption while it waits for those who hold; nobody brings a ticket back.
 */
import { createHash, randomBytes } from 'node:crypto';
import { LockUsageError, seen } from './errors.js';

/** How every ticket begins; the digit is the version of what follows. */
const START = 'hold1.';
const SECRET_BYTES = 16;
/** How much of a hash is kept, in characters of six bits. */
const HASH_LENGTH = 22;
const CHECK_LENGTH = 8;
/** Stands before the hash in the holder id of a ticket, where other ids have a number. */
const MARK = '.=';

export interface Ticket {
  /** Where the locks live: see LockStore.ticketHome. */
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
  /** What the store remembered when the hold was handed off, of a store that may forget. */
  readonly memory?: string | undefined;
}

/** A ticket that a call brings. */
export interface BroughtTicket extends Ticket {
  /** The holder id of the ticket. */
  readonly id: string;
  /**
   * The last instant, on the store's clock in ms, at which the store may give the holds to who brings it: `until`, unless it is handed back
   * after a failure, so that it can be good again later, or its locks are on servers that have a clock each.
   */
  readonly takenUntil: number;
}

export function newSecret(): string {
  return randomBytes(SECRET_BYTES).toString('base64url');
}

/** The holder id of a ticket. It says which process handed the hold off, and nothing about the secret. */
export function ticketIdOf({ process, secret }: Pick<Ticket, 'process' | 'secret'>): string {
  return `${process}${MARK}${hashOf(secret).slice(0, HASH_LENGTH)}`;
}

/** True if a holder id is that of a ticket. */
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
  const facts: unknown = hashOf(body).slice(0, CHECK_LENGTH) === check ? seen(() => JSON.parse(Buffer.from(body, 'base64url').toString('utf8')), undefined) : undefined;
  const [until, ...texts] = Array.isArray(facts) ? (facts as readonly unknown[]) : [];
  if (typeof until !== 'number' || texts.length < 6 || !texts.every((one) => typeof one === 'string')) {
    throw new LockUsageError('This text is not a ticket, or it was damaged; the store was not asked. Pass on the text that lease.handOff() gave, whole and unchanged.');
  }
  const [home = '', instance = '', process = '', secret = '', memory = '', ...keys] = texts;
  return { home, instance, process, secret, until, memory: memory === '' ? undefined : memory, keys };
}

function hashOf(text: string): string {
  return createHash('sha256').update(text).digest('base64url');
}
