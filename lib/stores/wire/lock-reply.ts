/**
 * Translates between the words of the port and the flat lists that the scripts return.
 */
import { LockStoreError } from '../../core/port/errors.js';
import type { AcquireRequest, Grant } from '../../core/port/lock-store.js';
import { type HolderState, type LockState, untilFree } from '../../core/port/lock-state.js';
import { isTicketId } from '../../core/port/ticket.js';
import { readInspect, type AcquireArgs } from './lua.generated.js';
import type { ScriptReply } from './script-runner.js';

/** A grant whose end is in the server's time. */
export interface ServerGrant extends Omit<Grant, 'trustedUntil' | 'memory'> {
  /** The last instant of the lease, in ms of the server's clock. */
  readonly end: number;
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

/** The state of a lock from the reply of inspect.lua. Waiters are in the order of service: phases alternate, readers enter together. */
export function lockState(key: string, reply: ScriptReply): LockState {
  const { phase, holders: found, waiters: waiting } = readInspect(reply);
  // In place of an owner, a holder of a permit says how many there are.
  const permits = phase === 'p' && found.length > 0 ? Number(found[0]!.owner) : undefined;
  const holders = found.map(({ leftMs, graceMs, owner, ...holder }): HolderState => ({
    ...holder, owner: phase === 'p' ? undefined : owner, ...untilFree(leftMs, graceMs), ...(isTicketId(holder.id) && { handedOff: true as const }),
  }));
  const writer = phase === 'w' ? undefined : waiting.find(({ mode }) => mode === 'write');
  const waiters = writer === undefined ? waiting : [writer, ...waiting.filter((waiter) => waiter !== writer)];
  const mode = holders.length === 0 ? null : phase === 'r' ? 'read' : 'write';
  return { key, mode, permits, holders, waiters };
}
