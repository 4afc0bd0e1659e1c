/**
 * The whole state of a small world of one Redis as a value: the server's memory, what each process knows, and what is on its way.
 * The names are those of docs/maintainers/protocol.md.
 */
import type { LockMode } from '../../lib/core/port/lock-options.js';
import type { Grant } from '../../lib/core/port/lock-store.js';
import type { BuiltCall } from '../../lib/stores/wire/lua.generated.js';
import type { Exchange } from '../../lib/stores/wire/server-clock.js';
import type { PushedGrant } from '../../lib/stores/wire/wake-channel.js';
import { canonicalText, PROCESS_BEGINS_AT } from './canonical.js';
import { textOf, type ServerMemory } from './small-server.js';

/** What a process wants, one hold after another. */
export interface Task {
  readonly mode: LockMode;
  /** Whether its caller may stop waiting at any time. */
  readonly givesUp?: boolean;
  /** Whether its request takes the place of the lease before in one script (a yield). */
  readonly replaces?: boolean;
  readonly owner?: string;
  /** How many permits the lock has, of which it wants one. */
  readonly permits?: number;
  readonly minHoldMs?: number;
  /** Whether its holder may hand the hold to a ticket in place of a release. */
  readonly handsOff?: boolean;
  /** Whether other readers of its process go on under the lease that it hands off. */
  readonly othersStay?: boolean;
  /** Whether it brings the ticket of another process in place of a request. */
  readonly adopts?: boolean;
}

export type Question = 'acquire' | 'release' | 'renew' | 'lengthen' | 'bring back' | 'recall' | 'hand off' | 'adopt';

/** What is on its way between a process and the server. Requests and answers of one process keep their order, and so do messages. */
export interface Letter {
  readonly way: 'request' | 'answer' | 'message';
  /** The number of its process. */
  readonly of: number;
  /** A copy, or what was sent on a connection that has ended: it arrives at any time or never, and nobody hears an answer. */
  readonly stray: boolean;
  readonly what: Question | 'message';
  readonly id: string;
  readonly sentAt: number;
  readonly call?: BuiltCall;
  /** The reply, with the server's instants as local ones; undefined when the process will hear of none. */
  readonly reply?: readonly (string | number)[];
  readonly text?: string;
}

/** The place of a request in the queue, as its process knows it (stores/redis/requests.ts). */
export interface KnownPlace {
  readonly floor: number;
  readonly answered: boolean;
  readonly early: PushedGrant | undefined;
}

/** A request of a process for the lock (core/queue/store-request.ts). */
export interface Request {
  id: string;
  asking: boolean;
  askAgain: boolean;
  hasPlace: boolean;
  wasDelayed: boolean;
  askedAt: number;
  notAfter: number;
  /** What the store was told as the limit; 0 when the server's time was not known. */
  limit: number;
  unansweredUntil: number;
  /** The memory for which the request was sent. */
  memory: string;
  /** The highest fence that was known when it was first asked for. */
  floor: number;
  /** Whether it had a place when it was asked last. */
  hadPlace: boolean;
  place: KnownPlace | undefined;
  early: PushedGrant | undefined;
  /** When to ask again. */
  askAt: number | undefined;
  replaces: string | undefined;
  /** A grant that is too short to begin work under it, and is being renewed. */
  lengthens: Grant | undefined;
}

/** A lease that a process holds (core/lease). */
export interface Held {
  id: string;
  fence: number;
  trustedUntil: number;
  memory: string | undefined;
  minHoldUntil: number;
  lateUntil: number;
  renewing: boolean;
  /** Whether it has been handed off beside those that stay on it. */
  isShared: boolean;
  /** When it was renewed last: once in a tick is enough, unless something new is known. */
  renewedAt: number;
}

/** A lease that is given back, the memory that knew it, and when it has ended by itself. */
export interface Released {
  readonly id: string;
  readonly memory: string | undefined;
  readonly endsAt: number;
}

/** A hand-off that has begun (core/hold/tickets.ts). */
export interface Handing {
  readonly id: string;
  readonly ticketId: string;
  readonly fence: number;
  readonly memory: string | undefined;
  /** The local instant until which the store is asked. */
  readonly until: number;
  /** As of the lease, if a request for it could still act when the hand-off began; else 0. */
  readonly lateUntil: number;
  readonly stays: boolean;
  asking: boolean;
  askAt: number;
  notAfter: number;
  /** What the store was told as the limit; 0 when the server's time was not known. */
  limit: number;
  wasBroughtBack: boolean;
}

/** An adoption (core/queue/store-request.ts). */
export interface Adopting {
  readonly id: string;
  readonly ticketId: string;
  readonly ticketEnd: number;
  asking: boolean;
  askAt: number | undefined;
  notAfter: number;
  limit: number;
  unansweredUntil: number;
}

/** What a process that handed its hold off gave to the others, and which id was made of it. */
export interface Ticket {
  readonly id: string;
  readonly until: number;
  readonly adoptedBy: string | undefined;
}

/** An id that is released in the background (core/lease/background-release.ts). */
export interface Owed {
  readonly id: string;
  readonly lateUntil: number;
  readonly until: number;
  readonly sentAt: number;
  readonly isSent: boolean;
}

export interface Client {
  readonly name: string;
  alive: boolean;
  /** Which of its tasks it is at. */
  task: number;
  /** The number in its last id. */
  seq: number;
  floor: number;
  sample: Exchange | undefined;
  /** The server's memory as it was answered on this connection, and before. */
  known: string;
  last: string;
  recall: 'no' | 'wanted' | 'sent';
  request: Request | undefined;
  held: Held | undefined;
  /** The id of which the release was sent and not answered. */
  leaving: (Released & { readonly lateUntil: number }) | undefined;
  /** What was released shortly before, in case that the server forgets it (BackgroundRelease.releaseForgotten). */
  remembered: readonly Released[];
  handing: Handing | undefined;
  adopting: Adopting | undefined;
  owed: Owed[];
  /** Requests that nobody wants any more, and whose answer is not there. */
  cancelled: string[];
}

/** What a world may still do to those in it. */
export type Fault = 'slow' | 'late' | 'silence' | 'twice' | 'deaf' | 'crash' | 'flush' | 'restart' | 'empty restart' | 'failover';

export interface State {
  /** In ms since the beginning. */
  now: number;
  ticks: number;
  faults: Partial<Record<Fault, number>>;
  memory: ServerMemory;
  /** What a replica has that lacks the last script, where one may take over. */
  replica: ServerMemory | undefined;
  clients: Client[];
  letters: Letter[];
  ticket: Ticket | undefined;
  /** The highest fences under which work has begun. */
  fences: { readonly any: number; readonly write: number };
  /** The ids in the queue in the order in which they came. */
  line: string[];
  /** What a step found broken. */
  broken: string | undefined;
}

/** A copy in which a step may change one process, or all. What stands deeper than requests and leases is replaced, never changed. */
export function draftOf(state: State, of?: number): State {
  const clients = state.clients.map((client, at): Client => {
    if (of !== undefined && of !== at) return client;
    const { request, held, handing, adopting } = client;
    return { ...client, request: request && { ...request }, held: held && { ...held }, handing: handing && { ...handing }, adopting: adopting && { ...adopting } };
  });
  return { ...state, faults: { ...state.faults }, clients, letters: [...state.letters] };
}

export function localNow({ now }: State): number {
  return PROCESS_BEGINS_AT + now;
}

export function canonicalOf(state: State): string {
  const { now, memory, replica, letters, clients, ticks, faults, fences, line, ticket } = state;
  const local = localNow(state);
  const given = ticket && [ticket.id, Math.max(ticket.until, local - 1), ticket.adoptedBy];
  const rest = JSON.stringify([now, ticks, Object.values(faults), fences.any, fences.write, line, given]);
  const known = clients.map((client) => clientText(client, local));
  const text = [rest, textOf(memory), replica === undefined ? '' : textOf(replica), ...known, ...inOrder(letters)].join('|');
  return canonicalText(text, now);
}

const clientTexts = new WeakMap<Client, { readonly now: number; readonly text: string }>();

function clientText(client: Client, now: number): string {
  const known = clientTexts.get(client);
  if (known?.now === now) return known.text;
  const text = JSON.stringify(withoutPast(client, now));
  clientTexts.set(client, { now, text });
  return text;
}

/** Instants that are only compared with the present are all the same once they have passed. */
function withoutPast(client: Client, now: number): unknown {
  const { request, held, handing, adopting, owed, sample, remembered, alive } = client;
  if (!alive) return 'dead';
  const ahead = (instant: number): number => (instant < now ? 0 : instant);
  return Object.values({
    ...client,
    sample: sample && [sample.sentAt - sample.serverNow, sample.receivedAt - sample.serverNow, sample.receivedAt],
    request: request && Object.values({
      ...request, askedAt: ahead(request.askedAt), notAfter: ahead(request.notAfter), limit: Number(request.limit === 0), unansweredUntil: ahead(request.unansweredUntil),
      askAt: request.askAt === undefined ? undefined : Math.max(now, request.askAt),
    }),
    held: held && Object.values({ ...held, lateUntil: ahead(held.lateUntil), renewedAt: ahead(held.renewedAt), minHoldUntil: ahead(held.minHoldUntil) }),
    remembered: remembered.filter(({ endsAt }) => endsAt > now).map(({ id, memory, endsAt }) => [id, memory, endsAt]),
    handing: handing && Object.values({ ...handing, askAt: Math.max(now, handing.askAt), until: ahead(handing.until), lateUntil: ahead(handing.lateUntil), notAfter: ahead(handing.notAfter), limit: Number(handing.limit === 0) }),
    adopting: adopting && Object.values({
      ...adopting, ticketEnd: Math.max(adopting.ticketEnd, now - 1), askAt: adopting.askAt === undefined ? undefined : Math.max(now, adopting.askAt), notAfter: ahead(adopting.notAfter),
      limit: Number(adopting.limit === 0), unansweredUntil: ahead(adopting.unansweredUntil),
    }),
    owed: owed.map(({ id, lateUntil, until, sentAt, isSent }) => [id, ahead(lateUntil), ahead(until), ahead(sentAt), isSent]),
  });
}

const letterTexts = new WeakMap<Letter, string>();

/** A letter as text, first what it is ordered by, without the text of its script. */
function letterText(letter: Letter): string {
  const known = letterTexts.get(letter);
  if (known !== undefined) return known;
  const { way, of, stray, what, id, sentAt, call, reply, text } = letter;
  const said = `${stray ? 'z' : ''}${of}${way} ${JSON.stringify([what, id, sentAt, call?.args, reply, text])}`;
  letterTexts.set(letter, said);
  return said;
}

/** Strays have no order among each other and beside all others; what else is on its way has one for each process and way. */
function inOrder(letters: readonly Letter[]): string[] {
  const texts = letters.map((letter): [string, string] => {
    const text = letterText(letter);
    return [letter.stray ? text : text.slice(0, text.indexOf(' ')), text];
  });
  return texts.sort(([one], [other]) => (one < other ? -1 : one > other ? 1 : 0)).map(([, text]) => text);
}
