/**
 * Translates between the words of the port and the flat lists that the scripts return.
 */
import { LockStoreError } from '../../core/port/errors.js';
import type { LockMode } from '../../core/port/lock-options.js';
import type { AcquireRequest } from '../../core/port/lock-store.js';
import { type HolderState, type LockState, untilFree, type WaiterState } from '../../core/port/lock-state.js';
import { isTicketId } from '../../core/port/ticket.js';
import {
  inspectHeadSize, inspectHolderSize, inspectWaiterSize, readInspectHead, readInspectHolder, readInspectWaiter, readRenewNews, renewHeadSize, renewNewsSize,
  type AcquireArgs, type RenewArgs, type ReplyItems,
} from './lua.generated.js';
import type { ScriptReply } from './script-runner.js';
import { unexpected } from './store-failure.js';

/** A grant whose end is in the server's time. */
export interface ServerGrant {
  readonly fence: number;
  readonly fences: number;
  readonly mode: LockMode;
  /** The last instant of the lease, in ms of the server's clock. */
  readonly end: number;
  readonly contended: boolean;
}

/** With whom a hold shares its lock, as scripts are told: with a permit how many there are stands in the owner's place. */
export function sharing({ mode, owner, permits }: Pick<AcquireRequest, 'mode' | 'owner' | 'permits'>): Pick<AcquireArgs, 'mode' | 'owner'> {
  return permits === undefined ? { mode, owner } : { mode: 'permit', owner: String(permits) };
}

/** The reason that is told while a server recovers. */
export const RECOVERING_REASON = 'recovering';

/** For a request to a server that recovers, and does so for `forMs` more. */
export function recoveringError(key: string, node: string, forMs: number): LockStoreError {
  const message =
    `Lock '${key}': ${node} was restarted, replaced or flushed, and grants nothing new for ${Math.ceil(forMs)} ms more, so that those ` +
    'who hold locks can tell it. Nothing was begun; it is safe to try again then.';
  return new LockStoreError(message, { key, nodes: [{ node, reason: RECOVERING_REASON }] });
}

/** The reply as a list. @throws Error with the server's words when it refused this request of several (refusal.lua) */
export function listOf(reply: ScriptReply): ReplyItems {
  if (!Array.isArray(reply)) throw unexpected(reply);
  const list = reply as ReplyItems;
  if (list[0] === 'refused') throw new Error(String(list[1]));
  return list;
}

/** The outcome that release.lua returns for one id. */
export function releaseOutcome(reply: ScriptReply): 'released' | 'lost' {
  if (reply === 1) return 'released';
  if (reply === 0) return 'lost';
  listOf(reply);
  throw unexpected(reply);
}

/** How many leases one command renews at most: 250 cost a server well under a millisecond. */
export const MAX_RENEWED_TOGETHER = 250;

/** The leases as renew.lua takes them. Leases of one length that stand side by side share a single statement of that length. */
export function runsOf(requests: readonly { readonly id: string; readonly leaseMs: number; readonly graceMs?: number | undefined }[]): RenewArgs['runs'] {
  const runs: { leaseMs: number; ids: string }[] = [];
  for (const { id, leaseMs, graceMs = 0 } of requests) {
    const length = Math.floor(leaseMs) + graceMs;
    const last = runs.at(-1);
    if (last?.leaseMs === length) last.ids += ` ${id}`;
    else runs.push({ leaseMs: length, ids: id });
  }
  return runs;
}

/**
 * The outcome of each renewal. The reply of renew.lua lists only leases that did not just get what was asked for. A lost one has
 * -1 ms left; for one whose Redis key the server refused, `refused` gets the server's words.
 */
export function renewOutcomes<R extends { readonly leaseMs: number; readonly graceMs?: number | undefined }, T>(
  reply: ScriptReply,
  requests: readonly R[],
  outcomeOf: (leftMs: number, contended: boolean) => T,
  refused: (words: string, request: R) => T,
): T[] {
  const news = listOf(reply);
  const outcomes = requests.map(({ leaseMs }) => outcomeOf(Math.floor(leaseMs), false));
  for (let at = renewHeadSize; at < news.length; at += renewNewsSize) {
    const { position, left, contended } = readRenewNews(news, at);
    const place = position - 1;
    const { graceMs = 0 } = requests[place]!;
    outcomes[place] = typeof left === 'string' ? refused(left, requests[place]!) : outcomeOf(left < 0 ? left : Math.max(0, left - graceMs), contended);
  }
  return outcomes;
}

/** The state of a lock from the reply of inspect.lua. Waiters are in the order of service: phases alternate, readers enter together. */
export function lockState(key: string, reply: ScriptReply): LockState {
  const told = listOf(reply);
  const { phase, holderCount } = readInspectHead(told);
  if (!(told.length >= inspectHeadSize + holderCount * inspectHolderSize)) throw unexpected(reply);
  const holders: HolderState[] = [];
  const readers: WaiterState[] = [];
  const writers: WaiterState[] = [];
  let permits: number | undefined;
  let at = inspectHeadSize;
  for (; holders.length < holderCount; at += inspectHolderSize) {
    const { leftMs, graceMs, owner, ...holder } = readInspectHolder(told, at);
    // In place of an owner, a holder of a permit says how many there are.
    if (phase === 'p') permits = Number(owner);
    holders.push({ ...holder, owner: phase === 'p' ? undefined : owner, ...untilFree(leftMs, graceMs), ...(isTicketId(holder.id) && { handedOff: true as const }) });
  }
  for (; at < told.length; at += inspectWaiterSize) {
    const waiter = readInspectWaiter(told, at);
    (waiter.mode === 'write' ? writers : readers).push(waiter);
  }
  const waiters = phase === 'w' ? [...readers, ...writers] : [...writers.slice(0, 1), ...readers, ...writers.slice(1)];
  const mode = holders.length === 0 ? null : phase === 'r' ? 'read' : 'write';
  return { key, mode, permits, holders, waiters };
}
