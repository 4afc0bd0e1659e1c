/** Hands holds off to tickets and adopts them, without the library: the requests that it makes for that, in one step for all locks of a ticket. */
import type { AcquireRequest, Grant, HolderRef, LockStore, TakenHold } from '../../lib/core/port/lock-store.js';
import type { LockStoreError } from '../../lib/core/port/errors.js';

export type HandOffOutcome =
  /** `until`: the last instant of the ticket on the store's clock, in ms. `memory` names what the store remembers of the first lock. */
  | { readonly kind: 'handedOff'; readonly until: number; readonly memory?: string | undefined }
  /** The store does not know the hold of this lock. Those before it were handed off. */
  | { readonly kind: 'lost'; readonly key: string };

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

interface HandOff {
  /** The holder id of the ticket, the same for all locks. */
  readonly ticketId: string;
  readonly withinMs: number;
  /** `stays`: the id stays a holder beside the ticket, because other readers of its process go on under it. */
  readonly holds: readonly (HolderRef & { readonly stays: boolean })[];
  readonly notAfter: number;
}

/** Hands holds off, for each lock by a request that takes the hold over, one after another. */
export async function handOff(store: Pick<LockStore, 'acquire'>, { ticketId, withinMs, holds, notAfter }: HandOff): Promise<HandOffOutcome> {
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
}

interface Adoption extends Pick<AcquireRequest, 'leaseMs' | 'graceMs' | 'label' | 'minReplicas' | 'notAfter'> {
  readonly ticketId: string;
  /** The last instant of the ticket, as the hand-off told it: on the store's clock, in ms. */
  readonly until: number;
  /** The locks of the ticket, each with the id of its new holder. */
  readonly holds: readonly HolderRef[];
}

/** Adopts a ticket, for each lock by a request that takes the hold over, one after another. */
export async function adopt(store: Pick<LockStore, 'acquire' | 'capabilities'>, { ticketId, until, holds, ...terms }: Adoption): Promise<AdoptOutcome> {
  // Each server of a Cluster has a clock of its own, and the ticket names one end.
  const ticketUntil = holds.length > 1 && store.capabilities.groupOf ? Number.MAX_SAFE_INTEGER : until;
  const adopted: AdoptedHold[] = [];
  for (const { key, id } of holds) {
    const outcome = await store.acquire({ ...WHATEVER, ...terms, key, id, replaces: ticketId, takesOver: 'ticket', ticketUntil });
    if (outcome.kind === 'granted') adopted.push({ grant: outcome.grant, ...outcome.taken! });
    else return outcome.kind === 'gone' ? { ...outcome, key } : (outcome as Extract<AdoptOutcome, { kind: 'recovering' }>);
  }
  return { kind: 'adopted', holds: adopted };
}
