/** Makes the errors with which hand-offs and adoptions end. Each message says what happened to which lock, and what to do next. */
import { LockLostError, LockStoreError, LockUsageError } from '../port/errors.js';
import { failuresOf } from '../port/hold-errors.js';
import type { Ticket } from '../port/ticket.js';

export function noTicketsError(key: string): LockUsageError {
  return new LockUsageError(
    `Lock '${key}': a Redlock cannot hand a hold off, because no node could say alone whose it is. Release it here, and let the other process take it.`,
    { key },
  );
}

export function nestedHandOffError(key: string): LockUsageError {
  return new LockUsageError(`Lock '${key}': a nested hold cannot be handed off, because the hold around it has the lock. Call handOff() on that one, with no call inside.`, { key });
}

export function entangledHandOffError(key: string): LockUsageError {
  return new LockUsageError(`Lock '${key}': calls are still inside this hold, so it cannot be handed off. Await them first.`, { key });
}

export function handOffError(key: string, cause: LockStoreError): LockStoreError {
  const message = `Lock '${key}' could not be handed off: ${failuresOf(cause)}. The hold has ended and there is no ticket; the lock is released in the background. Start the work again.`;
  return new LockStoreError(message, { key, cause, nodes: cause.nodes, retryable: false });
}

/** The ticket is for locks that live elsewhere. */
export function foreignTicketError({ keys, home, instance }: Ticket, here: { readonly home: string; readonly instance: string }): LockUsageError {
  const [key] = keys as [string];
  const isOther = home !== here.home;
  const [theirs, ours] = isOther ? [homeText(home), homeText(here.home)] : [`the lock module '${instance}'`, `the lock module '${here.instance}'`];
  return new LockUsageError(`Lock '${key}': this ticket is of ${theirs}, but was given to ${ours}. The store was not asked. Adopt it where its locks are.`, { key });
}

/** A home is the kind of a store, and what tells it from others of its kind. */
function homeText(home: string): string {
  const [kind = '', ...name] = home.split(' ');
  return kind === 'embedded' ? 'an embedded store, which is in one process only' : `a Redis with the prefix '${name.join(' ')}'`;
}

const NOT_ADOPTED = 'Nothing is held here; acquire the lock again if the work still has to be done.';

export function lateTicketError(key: string, lateByMs: number): LockLostError {
  return new LockLostError(`Lock '${key}' was lost: its ticket came too late, ${Math.max(1, Math.round(lateByMs))} ms after its end. ${NOT_ADOPTED}`, { key, reason: 'ticket-late' });
}

export function usedTicketError(key: string): LockLostError {
  return new LockLostError(`Lock '${key}' was lost: its ticket was adopted already (it is good for one adoption), or an operator took the lock away. ${NOT_ADOPTED}`, { key, reason: 'ticket-used' });
}

export function forgottenTicketError(key: string): LockLostError {
  return new LockLostError(`Lock '${key}' was lost: the store was restarted, replaced or flushed since it was handed off, and nobody can bring a ticket back. ${NOT_ADOPTED}`, { key, reason: 'forgotten' });
}
