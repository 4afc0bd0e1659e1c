/** How a process hands its hold to a ticket (core/hold/tickets.ts), and how another one adopts it (core/queue/store-request.ts), as changes of a state. */
import { ticketIdOf } from '../../lib/core/port/ticket.js';
import { acquireCall, readAcquire, readBringBack, type AcquireArgs, type AcquireReply, type ReplyItems } from '../../lib/stores/wire/lua.generated.js';
import { LONG_AGO, trustOf } from '../../lib/stores/wire/server-clock.js';
import { UNKNOWN_MEMORY } from '../../lib/stores/wire/redis-keys.js';
import { AHEAD, COMMAND_TIMEOUT_MS, KEYS, listeners, type Acting } from './redis-client.js';
import type { Adopting, Handing, Ticket } from './redis-state.js';

type Taken = Extract<AcquireReply, { kind: 'taken' }>;

/** A request that takes over a hold: what it says of the mode and the like does not matter. */
function takeOver({ client, rules }: Acting, says: Pick<AcquireArgs, 'id' | 'takes' | 'replaces' | 'leaseMs' | 'notAfter'> & { readonly minHoldMs?: number }): ReturnType<typeof acquireCall> {
  const whatever = { mode: 'write', queue: false, needsListener: false, plain: false, fences: 1, minHoldMs: 0, graceMs: 0, owner: undefined, label: undefined } as const;
  return acquireCall(KEYS, { ...whatever, floor: client.floor, known: client.known, recoveryMs: rules.recoveryMs, ...says });
}

/**
 * Ends the hold here, and asks the server to give it to a ticket. Nothing is trusted from before that is sent, but by other readers
 * of the process.
 */
export function handOff(acting: Acting): void {
  const { client, now, task } = acting;
  const held = client.held!;
  const { id, fence, memory, lateUntil, trustedUntil } = held;
  const stays = task?.othersStay === true;
  if (stays) held.isShared = true;
  else client.held = undefined;
  client.handing = {
    id, ticketId: ticketIdOf({ process: client.name, secret: id }), fence, memory, until: Math.min(now + COMMAND_TIMEOUT_MS, trustedUntil), lateUntil: lateUntil > now ? lateUntil : 0, stays,
    asking: false, askAt: now, notAfter: 0, limit: 0, wasBroughtBack: false,
  };
  askToHandOff(acting, client.handing);
}

export function askToHandOff(acting: Acting, handing: Handing): void {
  handing.notAfter = acting.now + COMMAND_TIMEOUT_MS;
  sendHandOff(acting, handing);
}

function sendHandOff(acting: Acting, handing: Handing): void {
  const { ticketId, id, stays, notAfter } = handing;
  handing.asking = true;
  handing.limit = acting.before(notAfter);
  const { leaseMs, withinMs = leaseMs } = acting.rules;
  acting.post('hand off', id, takeOver(acting, { id: ticketId, takes: stays ? 'beside' : 'hold', replaces: id, leaseMs: withinMs, notAfter: handing.limit || LONG_AGO }));
}

listeners['hand off'] = (acting, { id, reply }) => {
  const { client, now } = acting;
  const { handing } = client;
  if (handing?.id !== id) return;
  handing.asking = false;
  const told = reply && readAcquire(reply);
  if (told === undefined || told.kind === 'late') {
    if (told !== undefined && handing.limit === 0 && now < handing.notAfter) return sendHandOff(acting, handing);
    // It is asked for again under the same ticket, while the lease can still be there. Beside those that stay a copy of this try must be too late.
    handing.askAt = handing.stays && !acting.has('a hand-off beside readers is repeated at once') ? handing.notAfter + 1 : now;
    return handing.askAt >= handing.until ? giveBack(acting, handing) : undefined;
  }
  if (told.kind !== 'taken') {
    if (acting.rules.recoveryMs > 0 && !handing.wasBroughtBack && now < handing.until) return bringBack(acting, handing);
    return giveBack(acting, handing);
  }
  acting.state.ticket = { id: handing.ticketId, until: told.end, adoptedBy: undefined };
  if (handing.lateUntil > 0 && !handing.stays) acting.owe(id, handing.lateUntil);
  ended(acting, handing);
};

/** A server that does not know the hold may have forgotten it. */
function bringBack(acting: Acting, handing: Handing): void {
  handing.asking = true;
  handing.wasBroughtBack = true;
  acting.bringBackHold({ id: handing.id, fence: handing.fence, trustedUntil: handing.until, memory: handing.memory, minHoldUntil: 0 });
}

/** If the server has the hold again, it can be handed off after all. */
export function handOffBroughtBack(acting: Acting, handing: Handing, reply: ReplyItems | undefined): void {
  const isBack = reply !== undefined && readBringBack(reply).answers[0]!.kind === 'held';
  if (isBack) askToHandOff(acting, handing);
  else giveBack(acting, handing);
}

/** Frees the lock: nobody knows the ticket, and the hold has ended. */
function giveBack(acting: Acting, handing: Handing): void {
  const lateUntil = acting.now + COMMAND_TIMEOUT_MS;
  if (!handing.stays) acting.owe(handing.id, lateUntil);
  acting.owe(handing.ticketId, lateUntil);
  ended(acting, handing);
}

function ended({ client }: Acting, { stays }: Handing): void {
  client.handing = undefined;
  if (!stays) client.task += 1;
}

/** Brings the ticket that was handed on. */
export function adopt(acting: Acting, ticket: Ticket): void {
  const { client, now } = acting;
  client.seq += 1;
  client.adopting = { id: `${client.name}.${client.seq}`, ticketId: ticket.id, ticketEnd: ticket.until, asking: false, askAt: now, notAfter: 0, limit: 0, unansweredUntil: 0 };
  askToAdopt(acting, client.adopting);
}

export function askToAdopt(acting: Acting, adopting: Adopting): void {
  adopting.notAfter = acting.now + COMMAND_TIMEOUT_MS;
  sendAdoption(acting, adopting);
}

function sendAdoption(acting: Acting, adopting: Adopting): void {
  const { rules } = acting;
  const { id, ticketId, ticketEnd, notAfter } = adopting;
  adopting.asking = true;
  adopting.askAt = undefined;
  adopting.limit = acting.before(notAfter);
  acting.post('adopt', id, takeOver(acting, { id, takes: 'ticket', replaces: ticketId, leaseMs: rules.leaseMs, minHoldMs: ticketEnd + AHEAD, notAfter: adopting.limit || LONG_AGO }));
}

/** What it may have been granted is given back, also by a request that is still on its way. */
export function giveUpAdoption(acting: Acting, { id, asking, unansweredUntil }: Adopting): void {
  const { client } = acting;
  if (asking) client.cancelled = [...client.cancelled, id];
  if (!acting.has('nothing of an adoption is given back')) acting.owe(id, unansweredUntil);
  client.adopting = undefined;
  client.task += 1;
}

listeners.adopt = (acting, { id, reply, sentAt }) => {
  const { client, now } = acting;
  const { adopting } = client;
  if (adopting?.id !== id) return adoptedTooLate(acting, id, reply, sentAt);
  adopting.asking = false;
  if (reply === undefined) return adoptionFailed(acting, adopting);
  const told = readAcquire(reply);
  switch (told.kind) {
    case 'taken':
      return adopted(acting, adopting, told, sentAt);
    case 'gone':
      client.adopting = undefined;
      client.task += 1;
      return;
    case 'recovering':
      adopting.askAt = now + told.leftMs;
      return;
    default:
      if (adopting.limit === 0 && now < adopting.notAfter) sendAdoption(acting, adopting);
      else adoptionFailed(acting, adopting);
  }
};

function adoptionFailed({ now }: Acting, adopting: Adopting): void {
  adopting.unansweredUntil = adopting.notAfter;
  adopting.askAt = now;
}

function adopted(acting: Acting, adopting: Adopting, { fence, end, memory, now: serverNow }: Taken, sentAt: number): void {
  const { client, now } = acting;
  client.floor = Math.max(client.floor, fence);
  const trustedUntil = trustOf(end - serverNow, sentAt);
  if (trustedUntil <= now) return giveUpAdoption(acting, adopting);
  client.adopting = undefined;
  acting.hold({ id: adopting.id, fence, trustedUntil, memory: memory === UNKNOWN_MEMORY ? undefined : memory, lateUntil: 0 });
}

/** It was given up, and its release may have come before what it asked for: so that is given back once more. */
function adoptedTooLate(acting: Acting, id: string, reply: ReplyItems | undefined, sentAt: number): void {
  const { client } = acting;
  if (!client.cancelled.includes(id)) return;
  client.cancelled = client.cancelled.filter((other) => other !== id);
  if (reply === undefined) acting.owe(id, sentAt + COMMAND_TIMEOUT_MS);
  else if (readAcquire(reply).kind === 'taken') acting.owe(id, 0);
}
