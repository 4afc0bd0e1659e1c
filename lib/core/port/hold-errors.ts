/** Makes the errors with which calls for a lock and holds end. Each message says what happened to which lock, and what to do next. */
import { LockLostError, LockStoreError, LockTimeoutError, LockUsageError, type LossReason, type NodeFailure } from './errors.js';
import type { LockMode } from './lock-options.js';
import { MAX_HOLDS_OF_OWNER } from './lock-store.js';
import type { Ticket } from './ticket.js';

/** What is true of every failed call for a lock: its work did not begin, and a grant that it may have is released in the background. */
const NOTHING_BEGAN = 'The work did not begin, and what may have been granted is released in the background';

const usage = (key: string, what: string): LockUsageError => new LockUsageError(`Lock '${key}'${what}`, { key });
const timeout = (key: string, waitMs: number, what: string): LockTimeoutError => new LockTimeoutError(`Lock '${key}' ${what}`, { key, waitMs });
const lost = (key: string, reason: LossReason, why: string): LockLostError => new LockLostError(`Lock '${key}' was lost: ${why}`, { key, reason });
const store = (key: string, what: string, nodes: readonly NodeFailure[] = []): LockStoreError => new LockStoreError(`Lock '${key}'${what}`, { key, nodes });
/** The error of a request that failed because of `cause`, about the same servers. */
const because = (key: string, cause: LockStoreError, what: string, retryable = true): LockStoreError =>
  new LockStoreError(`Lock '${key}' could not be ${what}`, { key, cause, nodes: cause.nodes, retryable });

/** `why` completes the sentence "Lock … was lost: …". */
export function lostError(key: string, reason: LossReason, why: string): LockLostError {
  return lost(key, reason, `${why}. Another holder may be at work: stop, and let the fence refuse later writes.`);
}

export function renewalError(key: string, cause: LockStoreError): LockStoreError {
  return because(key, cause, `renewed; the lease is trusted until its present end. ${cause.message}`);
}

/** For a request that reached its store after its limit. `node` is the name of the server, if there is one. */
export function lateError(key: string, node?: string): LockStoreError {
  const what = `the request reached ${node ?? 'the store'} too late to be served, and was dropped: nothing was done. It is safe to try again.`;
  return store(key, `: ${what}`, node === undefined ? [] : [{ node, reason: 'late' }]);
}

export function notHeldError(key: string, mode: LockMode, isHeldForReading: boolean): LockUsageError {
  const found = isHeldForReading ? 'that code holds it for reading only' : 'that code does not hold it';
  const wanted = mode === 'write' ? 'writing' : 'reading';
  return usage(key, ` must be held for ${wanted} by the code that runs here, but ${found}. Call it inside withLock or a locked method.`);
}

export function upgradeError(key: string): LockUsageError {
  return usage(key, ' is held for reading by the code around this call, and the call asks for writing: it would wait for itself. Take it for writing from the start.');
}

export function siblingBusyError(key: string, waitMs: number): LockTimeoutError {
  return timeout(key, waitMs, 'is in use by another call inside the same hold, in this process. Try again later.');
}

export function busyError(key: string, waitMs: number, isHeldHere = false): LockTimeoutError {
  const waited = waitMs === 0 ? 'is busy' : `was still busy after ${waitMs} ms`;
  return timeout(key, waitMs, `${waited}${isHeldHere ? ': a call in this process holds it' : ''}. It was not taken; try again later.`);
}

export function ownerUpgradeError(key: string, owner: string | undefined): LockUsageError {
  return usage(key, `: owner '${owner}' holds it for reading and asks for writing, which would wait for itself. Take it for writing from the start.`);
}

export function tooManyHoldsError(key: string, owner: string | undefined): LockUsageError {
  return usage(key, `: owner '${owner}' has ${MAX_HOLDS_OF_OWNER} holds of it already, the most there can be. Give some back first, or share a hold inside the process.`);
}

/** `given` and `present`: how many permits the call names, and how many those who hold the lock or wait for it. */
export function permitsError(key: string, given: number | undefined, present: number | undefined): LockUsageError {
  const those = `those who hold the lock or wait for it name ${permitsText(present)}`;
  return usage(key, `: this call names ${permitsText(given)}, but ${those}. Name the same number everywhere; it can change only while the lock is free.`);
}

function permitsText(permits: number | undefined): string {
  return permits === undefined ? 'no permits' : `${permits} permit${permits === 1 ? '' : 's'}`;
}

export function outageError(key: string, waitMs: number, cause: LockStoreError): LockStoreError {
  const next = cause.retryable ? 'it is safe to try again' : 'trying again does not help until an operator has corrected the server';
  return because(key, cause, `acquired ${within(waitMs)}, because the store failed: ${failuresOf(cause)}. ${NOTHING_BEGAN}; ${next}.`, cause.retryable);
}

/** The error of a request that is not repeated. A `cause` whose message already says what to do next is returned as it is. */
export function givenUpError(key: string, waitMs: number, cause: LockStoreError): LockStoreError {
  return cause.retryable && cause.nodes.length > 0 ? outageError(key, waitMs, cause) : cause;
}

/** `server`: what was asked, if it has a name. `minReplicas`: how many replicas had to acknowledge the grant. */
export function silenceError(key: string, waitMs: number, server?: string, minReplicas = 0): LockStoreError {
  const since = `${within(waitMs)}${minReplicas > 0 ? `, or fewer than ${minReplicas} replicas acknowledged the grant` : ''}`;
  const who = server === undefined ? 'the store' : `the store (${server})`;
  return store(key, `: ${who} did not respond ${since}. ${NOTHING_BEGAN}; it is safe to try again.`, server === undefined ? [] : [{ node: server, reason: `no answer ${since}` }]);
}

export function slownessError(key: string, leaseMs: number): LockStoreError {
  return store(key, `: its grant came so late that too little of the lease of ${leaseMs} ms was left. It is safe to try again, with a longer lease if this happens often.`);
}

export function asStoreError(error: unknown, key: string): LockStoreError {
  if (error instanceof LockStoreError) return error;
  return new LockStoreError(`Lock '${key}': the store failed: ${String(error)}. This is a defect of the store; please report it.`, {
    key,
    cause: error,
    retryable: false,
  });
}

/** The reason of each node, or the cause's own message. The message of a cause with nodes is about one try, not the whole request. */
export function failuresOf({ nodes, message }: LockStoreError): string {
  return nodes.length === 0 ? message.replace(/\.$/, '') : nodes.map(({ node, reason }) => `${node}: ${reason}`).join('; ');
}

function within(waitMs: number): string {
  return waitMs === 0 ? 'in time' : `within ${waitMs} ms`;
}

// The errors with which hand-offs and adoptions end.

export function noTicketsError(key: string): LockUsageError {
  return usage(key, ': a Redlock cannot hand a hold off, because no node could say alone whose it is. Release it here, and let the other process take it.');
}

export function nestedHandOffError(key: string): LockUsageError {
  return usage(key, ': a nested hold cannot be handed off, because the hold around it has the lock. Call handOff() on that one, with no call inside.');
}

export function entangledHandOffError(key: string): LockUsageError {
  return usage(key, ': calls are still inside this hold, so it cannot be handed off. Await them first.');
}

export function handOffError(key: string, cause: LockStoreError): LockStoreError {
  const what = `handed off: ${failuresOf(cause)}. The hold has ended and there is no ticket; the lock is released in the background. Start the work again.`;
  return because(key, cause, what, false);
}

/** The ticket is for locks that live elsewhere. */
export function foreignTicketError({ keys, home, instance }: Ticket, here: Pick<Ticket, 'home' | 'instance'>): LockUsageError {
  const isOther = home !== here.home;
  const [theirs, ours] = isOther ? [homeText(home), homeText(here.home)] : [`the lock module '${instance}'`, `the lock module '${here.instance}'`];
  return usage(keys[0]!, `: this ticket is of ${theirs}, but was given to ${ours}. The store was not asked. Adopt it where its locks are.`);
}

/** A home is the kind of a store, and what tells it from others of its kind. */
function homeText(home: string): string {
  const [kind = '', ...name] = home.split(' ');
  return kind === 'embedded' ? 'an embedded store, which is in one process only' : `a Redis with the prefix '${name.join(' ')}'`;
}

const NOT_ADOPTED = 'Nothing is held here; acquire the lock again if the work still has to be done.';

/** The error of an adoption, when the store says that the ticket does not have this lock. `now`, `memory`: the store's clock in ms, and what it remembers. */
export function ticketError(
  key: string, { keys, until, memory: before }: Ticket, { now, memory }: { readonly now: number; readonly memory: string | undefined },
): LockLostError {
  if (now > until) return lost(key, 'ticket-late', `its ticket came too late, ${Math.max(1, Math.round(now - until))} ms after its end. ${NOT_ADOPTED}`);
  if (key === keys[0] && before && memory && memory !== before) {
    return lost(key, 'forgotten', `the store was restarted, replaced or flushed since it was handed off, and nobody can bring a ticket back. ${NOT_ADOPTED}`);
  }
  const why = 'its ticket was adopted already (and not handed back, or handed back for too short a withinMs), or an operator took the lock away';
  return lost(key, 'ticket-used', `${why}. ${NOT_ADOPTED}`);
}
