/** How a process follows the answers and messages of the server: the other half of redis-client.ts. */
import type { Grant } from '../../lib/core/port/lock-store.js';
import { trustOf } from '../../lib/stores/wire/server-clock.js';
import { readAcquire, readBringBack, readRecall, readRenew, type AcquireReply } from '../../lib/stores/wire/lua.generated.js';
import type { PushedGrant } from '../../lib/stores/wire/wake-channel.js';
import { UNKNOWN_MEMORY } from '../../lib/stores/wire/redis-keys.js';
import { AHEAD, listeners, type Acting } from './redis-client.js';
import { handOffBroughtBack } from './redis-tickets.js';
import type { Letter, Request } from './redis-state.js';

const REPLACED_LOST = 10;

listeners.acquire = (acting, { id, reply, sentAt }) => {
  const { client } = acting;
  const { request } = client;
  if (request?.id !== id || !request.asking) return answeredTooLate(acting, id, reply);
  const code = Number(reply?.[0]) % REPLACED_LOST;
  if (reply === undefined) {
    if (request.hadPlace) request.place = undefined;
    return storeFailed(acting, request);
  }
  heardAcquire(acting, request, readAcquire([code, ...reply.slice(1)]), sentAt);
};

/** The answer of a request that is no longer open: what it may have been granted is given back once more. */
function answeredTooLate(acting: Acting, id: string, reply: Letter['reply']): void {
  const { client } = acting;
  if (!client.cancelled.includes(id)) return;
  client.cancelled = client.cancelled.filter((other) => other !== id);
  const code = Number(reply?.[0]) % REPLACED_LOST;
  if (reply === undefined || code === 1 || code === 2) acting.owe(id, reply === undefined ? acting.now : 0);
}

function storeFailed(acting: Acting, request: Request): void {
  request.asking = false;
  request.unansweredUntil = request.notAfter;
  acting.failed(request);
  if (request.askAgain) acting.ask();
}

function heardAcquire(acting: Acting, request: Request, told: AcquireReply, sentAt: number): void {
  const { client, now } = acting;
  switch (told.kind) {
    case 'late':
      if (request.limit === 0 && now < request.notAfter) return acting.send(request);
      if (request.hadPlace) request.place = undefined;
      return storeFailed(acting, request);
    case 'granted': {
      client.floor = Math.max(client.floor, told.fence);
      // A place from before may have been granted by a server that lost its memory: its fence is of no use, so it is asked anew.
      if (request.hadPlace && told.fence <= request.floor && !acting.has('old fences are taken')) return askAnew(acting, request);
      const memory = told.memory ?? request.memory;
      return heard(acting, request, { ...told, trustedUntil: trustOf(told.end - told.now, sentAt), memory: memory === UNKNOWN_MEMORY ? undefined : memory });
    }
    case 'waiting':
      return waits(acting, request, told.leftMs < 0 ? undefined : told.leftMs);
    case 'recovering':
    case 'busy':
      request.askAt = now + told.leftMs;
      return heard(acting, request, undefined);
    case 'upgrade':
    case 'full':
    case 'permits':
      acting.cancel({ ...request, asking: false });
      client.request = undefined;
      client.task += 1;
      return;
    case 'gone':
    case 'taken':
      throw new Error(`a request that takes no hold over was answered ${told.kind}`);
  }
}

/** The server put the request into its queue; the message of its grant may have come before this answer. */
function waits(acting: Acting, request: Request, askInMs: number | undefined): void {
  request.askAt = askInMs === undefined ? undefined : acting.now + askInMs;
  request.hasPlace = true;
  if (request.hadPlace && request.place === undefined) return heard(acting, request, undefined);
  const early = acting.has('early messages are dropped') ? undefined : (request.early ?? request.place?.early);
  const { floor } = request;
  request.place = { floor, answered: true, early: undefined };
  if (early === undefined) return heard(acting, request, undefined);
  const grant = acting.pushed(floor, early);
  if (grant === undefined) {
    request.askedAt = acting.now;
    return acting.send(request);
  }
  request.place = undefined;
  heard(acting, request, grant);
}

function askAnew(acting: Acting, request: Request): void {
  request.place = undefined;
  request.replaces = request.id;
  acting.send(request);
  request.replaces = undefined;
}

/** StoreRequest.onReply for an answer that came in time. */
function heard(acting: Acting, request: Request, grant: Grant | undefined): void {
  request.asking = false;
  request.replaces = undefined;
  if (grant !== undefined) {
    request.place = undefined;
    acting.judge(grant);
  } else {
    request.wasDelayed = true;
  }
  if (acting.client.request === request && request.askAgain) acting.ask();
}

listeners.lengthen = (acting, { id, reply, sentAt }) => {
  const { request } = acting.client;
  if (request?.id !== id || request.lengthens === undefined) return;
  const { leaseMs } = acting.rules;
  const leftMs = reply === undefined ? -1 : leftOf(reply, leaseMs);
  const grant = request.lengthens;
  request.lengthens = undefined;
  if (leftMs < 0) return acting.ask();
  acting.take(request, { ...grant, trustedUntil: trustOf(leftMs, sentAt) });
};

listeners.renew = (acting, { id, reply, sentAt }) => {
  const { held } = acting.client;
  if (held?.id !== id) return;
  held.renewing = false;
  if (reply === undefined) return;
  const leftMs = leftOf(reply, acting.rules.leaseMs);
  if (leftMs >= 0) {
    held.trustedUntil = Math.min(trustOf(leftMs, sentAt), Math.max(held.trustedUntil, acting.now + acting.rules.leaseMs));
    if (acting.client.known !== UNKNOWN_MEMORY) held.memory = acting.client.known;
    return;
  }
  if (acting.rules.recoveryMs === 0) return lose(acting);
  held.renewing = true;
  acting.bringBack();
};

listeners['bring back'] = (acting, { id, reply, sentAt }) => {
  const { held, handing } = acting.client;
  if (handing?.id === id) return handOffBroughtBack(acting, handing, reply);
  if (held?.id !== id) return;
  held.renewing = false;
  if (reply === undefined) {
    held.lateUntil = Math.max(held.lateUntil, acting.now);
    return;
  }
  const told = readBringBack(reply).answers[0]!;
  if (told.kind === 'lost') return lose(acting);
  if (told.kind !== 'held') return;
  held.trustedUntil = trustOf(told.leftMs, sentAt);
  held.memory = told.memory;
};

/** The store said that it does not know the lease. */
function lose(acting: Acting): void {
  const { held } = acting.client;
  if (held !== undefined) held.trustedUntil = Math.min(held.trustedUntil, acting.now);
}

const leftOf = (reply: readonly (string | number)[], leaseMs: number): number => Number(readRenew(reply).leases[0]?.left ?? leaseMs);

listeners.release = (acting, { id, reply, sentAt }) => {
  const { client, now } = acting;
  const owed = client.owed.find((one) => one.id === id);
  if (owed !== undefined) {
    const rest = client.owed.filter((one) => one !== owed);
    // An answer to a release that was sent after all else can act is the last one; a failure is, once the lease must have ended.
    const isOver = reply === undefined ? now > owed.until : sentAt > owed.lateUntil;
    client.owed = isOver ? rest : [...rest, { ...owed, isSent: false }];
    return;
  }
  if (client.leaving?.id !== id) return;
  const { leaving } = client;
  const { lateUntil } = leaving;
  if (reply !== undefined) acting.remember(leaving);
  client.leaving = undefined;
  client.task += 1;
  // BackgroundRelease.releaseLate: the release was not the last word if something for its id could act after it was sent.
  const isLast = lateUntil <= (acting.has('an answered release is the last word') ? now : sentAt);
  if (reply === undefined || !isLast) acting.owe(id, lateUntil);
};

listeners.recall = (acting, { reply }) => {
  const { client } = acting;
  if (reply === undefined) return void (client.recall = 'wanted');
  client.recall = 'no';
  const { memory } = readRecall(reply).groups[0]!;
  const hasChanged = client.last !== UNKNOWN_MEMORY && client.last !== memory;
  client.known = client.last = memory;
  if (hasChanged) acting.releaseForgotten();
  if (hasChanged && client.held !== undefined && !client.held.renewing) acting.renew();
};

listeners.message = (acting, { text = '' }) => {
  const [word, id = '', ...rest] = text.split(' ');
  const { client } = acting;
  if (word === 'g') return pushed(acting, id, pushOf(id, rest));
  if (word === 'l' && client.held?.id === id && !client.held.renewing) acting.renew();
  if (word === 'f' && client.known !== id) client.recall = 'wanted';
};

function pushed(acting: Acting, id: string, push: PushedGrant): void {
  const { client } = acting;
  const { request } = client;
  if (request?.id !== id) {
    if (client.held?.id !== id && client.leaving?.id !== id && !client.cancelled.includes(id)) acting.owe(id, 0);
    return;
  }
  const { place } = request;
  if (place === undefined) {
    if (request.asking) request.early = push;
    return;
  }
  if (!place.answered) return void (request.place = { ...place, early: push });
  const grant = acting.pushed(place.floor, push);
  if (grant === undefined) return acting.ask();
  request.place = undefined;
  acting.judge(grant);
}

function pushOf(id: string, [fence, fences, mode, end, lengthMs, contended, ...key]: readonly string[]): PushedGrant {
  return { key: key.join(' '), id, fence: Number(fence), fences: Number(fences), mode: mode === 'w' ? 'write' : 'read', end: Number(end) - AHEAD, lengthMs: Number(lengthMs), contended: contended === '1' };
}
