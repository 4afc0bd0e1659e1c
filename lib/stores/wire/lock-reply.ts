/**
 * Translates between the words of the port and the flat lists that the scripts return.
 */
import { LockStoreError } from '../../core/port/errors.js';
import type { LockMode } from '../../core/port/lock-options.js';
import type { AcquireRequest } from '../../core/port/lock-store.js';
import { type HolderState, type LockState, untilFree, type WaiterState } from '../../core/port/lock-state.js';
import { isTicketId } from '../../core/port/ticket.js';
import {
  inspectHeadSize, inspectHolderSize, inspectWaiterSize, readInspectHead, readInspectHolder, readInspectWaiter, type AcquireArgs,
  type ReplyItems,
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
