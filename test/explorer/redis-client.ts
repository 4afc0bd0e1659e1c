/**
 * What a process does, a step at a time: the rules of core/queue, core/lease and stores/redis written as changes of a state. What
 * goes over the wire, the trust in a grant and its verdict are the library's own functions; the order of its awaits is told here.
 */
import { NEARLY_OVER_MS } from '../../lib/core/queue/store-request.js';
import type { LockMode } from '../../lib/core/port/lock-options.js';
import type { AcquireRequest, Grant } from '../../lib/core/port/lock-store.js';
import { acquireCall, bringBackCall, recallCall, releaseCall, renewCall, type BuiltCall } from '../../lib/stores/wire/lua.generated.js';
import { UNKNOWN_MEMORY } from '../../lib/stores/wire/redis-keys.js';
import { LONG_AGO, ServerClock } from '../../lib/stores/wire/server-clock.js';
import { beginningOf, Trust } from '../../lib/stores/redis/remote-redis.js';
import { grantedAt, type PushedGrant } from '../../lib/stores/wire/wake-channel.js';
import { PROCESS_BEGINS_AT, SERVER_BEGINS_AT } from './canonical.js';
import { localNow, type Client, type Held, type Letter, type Question, type Released, type Request, type State, type Task } from './redis-state.js';

export const KEYS = { lockKey: '{sim:1}:l:k', queueKey: '{sim:1}:q:k', fenceKey: '{sim:1}:f' };
/** How far the server's clock is ahead of those of the processes. */
export const AHEAD = SERVER_BEGINS_AT - PROCESS_BEGINS_AT;
export const COMMAND_TIMEOUT_MS = 1_000;
const GROUP = 1;

/** What all processes of a world agree on, and what is wrong with them where a defect is planted. */
export interface Rules {
  readonly leaseMs: number;
  readonly recoveryMs: number;
  /** How long a ticket can be adopted; as long as a lease when it is left out. */
  readonly withinMs?: number;
  readonly tasks: readonly (readonly Task[])[];
  readonly defect?: string | undefined;
}

/** One process in a draft of a state: it acts on it and sends letters. */
export class Acting {
  readonly now: number;
  readonly client: Client;

  constructor(readonly state: State, readonly at: number, readonly rules: Rules) {
    this.now = localNow(state);
    this.client = state.clients[at]!;
  }

  get task(): Task | undefined {
    return this.rules.tasks[this.at]?.[this.client.task];
  }

  /** A new request, and its first question. */
  begin(): void {
    const { client } = this;
    client.seq += 1;
    client.request = {
      id: `${client.name}.${client.seq}`, asking: false, askAgain: false, hasPlace: false, wasDelayed: false, askedAt: 0,
      notAfter: 0, limit: 0, unansweredUntil: 0, memory: '', floor: client.floor, hadPlace: false, place: undefined, early: undefined,
      askAt: undefined, replaces: undefined, lengthens: undefined,
    };
    if (this.task?.replaces && client.held !== undefined) {
      client.request.replaces = client.held.id;
      client.held = undefined;
    }
    this.ask();
  }

  ask(): void {
    const { request } = this.client;
    if (request === undefined) return;
    request.askAgain = request.asking;
    if (request.asking) return;
    request.asking = true;
    request.askAt = undefined;
    request.askedAt = this.now;
    request.notAfter = this.now + COMMAND_TIMEOUT_MS;
    this.send(request);
  }

  /** Sends the request; `askedAt` and `notAfter` stand. */
  send(request: Request): void {
    const { client, rules } = this;
    const { place, id, replaces } = request;
    request.hadPlace = place !== undefined;
    request.early = undefined;
    if (place !== undefined) request.place = { floor: place.floor, answered: false, early: undefined };
    request.floor = place?.floor ?? client.floor;
    request.memory = client.known;
    request.limit = this.before(request.notAfter);
    const { mode, owner, minHoldMs } = this.wish;
    const plain = minHoldMs === 0 && replaces === undefined;
    const notAfter = this.has('requests have no limit') ? 9_000_000_000_000 : request.limit || LONG_AGO;
    this.post('acquire', id, acquireCall(KEYS, {
      id, mode, leaseMs: rules.leaseMs, queue: true, needsListener: true, plain, takes: 'nothing', notAfter, floor: client.floor, known: request.memory, fences: 1, minHoldMs, graceMs: 0,
      recoveryMs: rules.recoveryMs, replaces, owner,
    }));
  }

  renew(): void {
    const { held } = this.client;
    if (held === undefined) return;
    held.renewing = true;
    held.renewedAt = this.now;
    this.post('renew', held.id, renewCall({ lockKeys: [KEYS.lockKey] }, { runs: [{ leaseMs: this.rules.leaseMs, ids: held.id }] }));
  }

  lengthen(id: string): void {
    this.post('lengthen', id, renewCall({ lockKeys: [KEYS.lockKey] }, { runs: [{ leaseMs: this.rules.leaseMs, ids: id }] }));
  }

  bringBack(): void {
    const { held } = this.client;
    if (held !== undefined) this.bringBackHold(held);
  }

  bringBackHold({ id, fence, trustedUntil, memory, minHoldUntil }: Pick<Held, 'id' | 'fence' | 'trustedUntil' | 'memory' | 'minHoldUntil'>): void {
    const { mode, owner } = this.wish;
    const until = this.has('ended leases come back') ? this.now + COMMAND_TIMEOUT_MS : Math.min(trustedUntil, this.now + COMMAND_TIMEOUT_MS);
    this.post('bring back', id, bringBackCall(KEYS, {
      id, mode, notAfter: this.before(until) || LONG_AGO, leaseMs: this.rules.leaseMs, fence, fences: 1, minHoldMs: Math.max(0, minHoldUntil - this.now), graceMs: 0,
      recoveryMs: this.rules.recoveryMs, knownBy: memory, owner,
    }));
  }

  /** Gives the lease back; its caller goes on when that is answered. */
  leave(): void {
    const { client, now, rules } = this;
    const { held } = client;
    if (held === undefined) return;
    client.held = undefined;
    client.leaving = { id: held.id, lateUntil: held.lateUntil, memory: held.memory, endsAt: now + rules.leaseMs };
    this.release(held.id, false, this.now >= held.trustedUntil);
  }

  giveUp(): void {
    const { client } = this;
    const { request } = client;
    if (request === undefined) return;
    this.cancel(request);
    this.owe(request.id, request.unansweredUntil);
    if (request.replaces !== undefined) this.owe(request.replaces, 0);
    client.request = undefined;
    client.task += 1;
  }

  release(id: string, abandoned: boolean, mayBeOver = true): void {
    const { client, rules } = this;
    this.post('release', id, releaseCall(KEYS, { id, mayBeOver, floor: client.floor, abandoned, recoveryMs: rules.recoveryMs, known: client.known }));
  }

  recall(): void {
    this.client.recall = 'sent';
    this.post('recall', '', recallCall({ keys: [{ fenceKey: KEYS.fenceKey }] }, { process: 'p', recoveryMs: this.rules.recoveryMs, groups: [{ floor: this.client.floor, holds: false }] }));
  }

  /** Notes a release that was answered, where a server may forget it. */
  remember({ id, memory, endsAt }: Released): void {
    const { client, now, rules } = this;
    if (rules.recoveryMs > 0) client.remembered = [...client.remembered.filter((before) => before.endsAt > now), { id, memory, endsAt }];
  }

  /** Releases again what another memory knew, and what has not ended by itself. */
  releaseForgotten(): void {
    const { client, now } = this;
    const forgotten = client.remembered.filter(({ memory, endsAt }) => memory !== client.known && endsAt > now);
    client.remembered = client.remembered.filter((release) => !forgotten.includes(release));
    if (!this.has('releases are not repeated')) for (const { id } of forgotten) this.owe(id, 0);
  }

  /** Releases an id in the background, until that is answered and no request for it can act any more. */
  owe(id: string, lateUntil: number): void {
    const { client, now, rules } = this;
    const before = client.owed.find((owed) => owed.id === id);
    const until = before?.until ?? now + rules.leaseMs + COMMAND_TIMEOUT_MS;
    client.owed = [...client.owed.filter((owed) => owed !== before), { id, lateUntil: Math.max(lateUntil, before?.lateUntil ?? 0), until, sentAt: now, isSent: true }];
    this.release(id, true);
  }

  /** An answer or a message that has arrived. */
  hear(letter: Letter): void {
    const { reply } = letter;
    const sentAt = this.has('trust from receipt') ? this.now : letter.sentAt;
    if (reply !== undefined && letter.what !== 'release') this.observe(sentAt, this.serverTimeOf(letter.what, reply));
    listeners[letter.what](this, { ...letter, sentAt });
  }

  /** As the store's clock keeps samples: the one that allows the most trust, for a while. */
  observe(sentAt: number, serverNow: number): void {
    const { client, now } = this;
    const { sample } = client;
    if (sample !== undefined && now - sample.receivedAt < 2_000 && sentAt - serverNow < sample.sentAt - sample.serverNow) return;
    client.sample = { sentAt, receivedAt: now, serverNow };
  }

  get trust(): Trust {
    const { client } = this;
    const trust = new Trust();
    trust.floors.saw(GROUP, client.floor);
    if (client.sample !== undefined) trust.clock.observe(0, client.sample);
    return trust;
  }

  /** The grant in a message, if that is enough to trust it. */
  pushed(floor: number, push: PushedGrant): Grant | undefined {
    const { client, now } = this;
    if (this.has('pushed trust from arrival')) return { ...push, trustedUntil: now + push.lengthMs * 0.99 - 5 };
    const memory = !isUnknown(client.known) && beginningOf(client.known) <= grantedAt(push) ? client.known : undefined;
    const grant = this.trust.pushed({ request: this.asRequest(), spot: { group: GROUP, shard: 0 }, floor }, push, now, memory);
    if (grant !== undefined) client.floor = Math.max(client.floor, grant.fence);
    return grant;
  }

  /** StoreRequest.judge: takes the grant, or makes it longer first. */
  judge(grant: Grant): void {
    const { client, now, rules } = this;
    const { request } = client;
    if (request === undefined) return;
    const leftMs = grant.trustedUntil - now;
    if (leftMs <= 0) return this.failed(request);
    if (leftMs >= Math.min(NEARLY_OVER_MS, rules.leaseMs / 2)) return this.take(request, grant);
    request.lengthens = grant;
    this.lengthen(request.id);
  }

  take(request: Request, { fence, trustedUntil, memory }: Grant): void {
    const { client, now } = this;
    const lateUntil = request.asking ? Math.max(request.unansweredUntil, request.notAfter) : request.unansweredUntil;
    client.request = undefined;
    // A lease whose trust is over by now admits nobody (StoreLease.admits): it is given back, and the lock asked for anew.
    if (trustedUntil <= now && !this.has('work begins without trust')) {
      this.owe(request.id, lateUntil);
      return this.begin();
    }
    this.hold({ id: request.id, fence, trustedUntil, memory, lateUntil });
  }

  /** Work begins under a lease. */
  hold(lease: Pick<Held, 'id' | 'fence' | 'trustedUntil' | 'memory' | 'lateUntil'>): void {
    const { client, now, task } = this;
    const minHoldUntil = task?.minHoldMs === undefined ? 0 : now + task.minHoldMs;
    client.held = { ...lease, minHoldUntil, renewing: false, isShared: false, renewedAt: now };
    this.state.broken ??= this.compareFences(lease.fence);
  }

  failed(request: Request): void {
    request.wasDelayed = true;
    request.askAt = this.now;
  }

  /** The request is over without a grant: an answer that is still on its way is of no use. */
  cancel(request: Request): void {
    if (request.asking) this.client.cancelled = [...this.client.cancelled, request.id];
  }

  has(defect: string): boolean {
    return this.rules.defect === defect;
  }

  private compareFences(fence: number): string | undefined {
    const { state, task, now, client } = this;
    const { any, write } = state.fences;
    // Readers, and those who have a permit, have the lock beside each other, and hear of it in any order.
    const isAlone = task?.mode === 'write' && task.permits === undefined;
    const before = isAlone ? any : write;
    const shared = task?.owner !== undefined && fence === before;
    state.fences = { any: Math.max(any, fence), write: isAlone ? Math.max(write, fence) : write };
    if (client.held!.trustedUntil <= now) return `S1: ${client.name} begins work without trust`;
    return fence > before || shared ? undefined : `S2: a fence of ${client.name} does not exceed an earlier one`;
  }

  /** A server time that is not later than this local instant; 0 when none is known. */
  before(local: number): number {
    const clock = new ServerClock();
    if (this.client.sample !== undefined) clock.observe(0, this.client.sample);
    const at = clock.lowerBound(0, local, this.now);
    return at === 0 ? 0 : at + AHEAD;
  }

  private serverTimeOf(what: Question | 'message', reply: readonly (string | number)[]): number {
    return Number(reply[what === 'acquire' || what === 'hand off' || what === 'adopt' ? 1 : 0]);
  }

  /** What its task says on the wire, where a permit is a mode and their number stands in the owner's place (bundled-acquire.ts). */
  private get wish(): { readonly mode: LockMode | 'permit'; readonly owner: string | undefined; readonly minHoldMs: number } {
    const { mode = 'write', owner, permits, minHoldMs = 0 } = this.task ?? {};
    return permits === undefined ? { mode, owner, minHoldMs } : { mode: 'permit', owner: String(permits), minHoldMs };
  }

  private asRequest(): AcquireRequest {
    const { mode = 'write', owner, permits, minHoldMs = 0 } = this.task ?? {};
    return { key: 'k', id: '', permits, mode, leaseMs: this.rules.leaseMs, queue: true, fences: 1, minHoldMs, owner, minReplicas: 0, notAfter: 0 };
  }

  post(what: Question, id: string, call: BuiltCall): void {
    this.state.letters.push({ way: 'request', of: this.at, stray: false, what, id, sentAt: this.now, call });
  }
}

type Listener = (acting: Acting, letter: Letter) => void;

/** Filled in by redis-answers.ts, which follows each kind of answer. */
export const listeners: Record<Question | 'message', Listener> = {} as Record<Question | 'message', Listener>;

export function isUnknown(memory: string): boolean {
  return memory === UNKNOWN_MEMORY;
}
