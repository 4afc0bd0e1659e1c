/**
 * The port: what the core needs of a store, in which the state of all locks lives. Every store keeps the numbered promises
 * below; `test/contract` repeats the numbers and runs the same suite against each store.
 *
 *   P1  A write holder excludes every other holder; read holders exclude write holders only (but P13, P17).
 *   P2  A grant's fence is greater than every fence the key was granted before, and it reserves `fences` numbers (but P13).
 *   P3  acquire is idempotent by holder id: the same request again gives the same grant or keeps the same place.
 *   P4  release takes an id away wherever it is, holding or waiting, then grants the next waiters; a second release is harmless.
 *       The lock stays taken for what is left of the hold's minHoldMs, unless the hold is abandoned: its work never began.
 *   P5  renew never creates and never revives: an id that is gone or has ended is `lost` (but P16).
 *   P6  An act of an old id never touches another id.
 *   P7  Writers are served in the order they came; after a writer all waiting readers enter together; a reader
 *       that comes while a writer waits queues behind it (only with `capabilities.queue`).
 *   P8  A waiter that does not ask again for 2,500 ms loses its place, and a grant made to a waiter is short
 *       until its first renewal, so dead waiters delay the next live one by a bounded time.
 *   P9  `trustedUntil` is an instant on this process's monotonic clock, counted from a moment before the grant, and comes before
 *       the store gives the lock to anybody else.
 *   P10 A wake is a hint. A store may lose wakes; a repeated acquire always tells the truth.
 *   P11 A refusal is a value. A method rejects (or answers `unknown`) only when the outcome is not known or the
 *       store cannot serve; the error is always a LockStoreError.
 *   P12 An idle lock leaves nothing behind but memory for fences that does not grow with the number of keys.
 *   P13 Requests with the same owner as the present hold share its mode and its fence and pass the queue; those that had
 *       queued before their owner was granted do so when they ask again. An owner has at most MAX_HOLDS_OF_OWNER holds of one lock.
 *   P14 An acquire does not act after `notAfter`.
 *   P15 A lock whose lease ended without a release stays taken for the request's `graceMs` more; `trustedUntil` ends with the
 *       lease, without it. A release, an abandoned one too, hands over at once, also in that time.
 *   P16 A store that forgot what it granted grants nothing new for a while. A renewal that says what its lease is brings it back
 *       then: under its id and fence, not after its trust has ended, where the lock is free or has an older holder.
 *   P17 Requests that name a number of permits, with `capabilities.permits`, hold the lock up to that many at a time, each with a
 *       fence of its own, in the order of P7. While anybody holds or waits, a request that names another number, or none, is refused.
 *       A request with `handsOn` takes over the permit of the lease that it replaces, before those who wait.
 *   P18 A request with `takesOver` stands in the place of the holder that it replaces, in one step, if that is there: nobody is let in, and
 *       mode, owner, permit and what is left of minHoldMs stay. It is answered alike as often as it comes. See ticket.ts.
 *   P19 `whenSent` calls back only when the releases that were asked for before act, and before whatever its process asks next for their
 *       locks.
 */
import type { LockStoreError } from './errors.js';
import type { StoreEvent } from './lock-events.js';
import type { LockMode } from './lock-options.js';
import type { ListOptions, LockState } from './lock-state.js';

/** How many holds of one lock an owner can have at a time. It is bounded, because each script reads them all. Part of the wire format. */
export const MAX_HOLDS_OF_OWNER = 1_000;

/** The longest that a grant made to a waiter lasts before its first renewal, in ms (P8). Part of the wire format. */
export const FIRST_LEASE_MS = 1_500;

/** What a store can do. The module refuses options at boot that need more. */
export interface StoreCapabilities {
  /** True if the store keeps waiters in order and wakes them. If not, a refused request asks again after a random pause. */
  readonly queue: boolean;
  /** True if several can hold a lock at a time, each with one of its permits (P17). */
  readonly permits: boolean;
  /** True if the store can count the replicas that acknowledged a grant (`minReplicas`). */
  readonly replicas: boolean;
  /** A number for each key: one command can only renew locks of the same number. Undefined when it can renew all locks together. */
  readonly groupOf?: ((key: string) => number) | undefined;
}

/** Names exactly one grant, or one place in the queue. */
export interface HolderRef {
  /** The lock's key as its caller wrote it. It may contain any character, but no half of a surrogate pair. */
  readonly key: string;
  /** The holder's id, new for every request: `process.sequence`. */
  readonly id: string;
}

/** `lost`: the store did not have the lease any more. */
export type Released = 'released' | 'lost';

export interface ReleaseRequest extends HolderRef {
  /** A local instant (clock.now()) not later than the sending of this request; by default now. */
  readonly askedAt?: number | undefined;
  /** The local instant until which its holder could trust it. A lease that is given back before that has not ended, so the store need not look. */
  readonly trustedUntil?: number | undefined;
  /** True if no work was done under this grant, if it was granted: the lock then does not stay taken for minHoldMs. */
  readonly abandoned?: boolean | undefined;
  /** The memory of the store that knows the lease, where that is known. */
  readonly memory?: string | undefined;
}

export interface AcquireRequest extends HolderRef {
  readonly mode: LockMode;
  /** Length of the lease, in ms. */
  readonly leaseMs: number;
  /** True if the request takes a place in the queue when the lock is busy. */
  readonly queue: boolean;
  /** How many consecutive fences to reserve, at least 1. */
  readonly fences: number;
  /** How long the lock stays taken after the grant, in ms, even when it is released earlier. */
  readonly minHoldMs: number;
  /** How long the lock stays taken after the lease, in ms; see P15. */
  readonly graceMs?: number | undefined;
  /** How many may hold the lock at a time, this request among them; undefined for one (P17). Then the mode is `write`, and there is no owner. */
  readonly permits?: number | undefined;
  /** The name of the owner that shares the lock with itself (P13). */
  readonly owner?: string | undefined;
  /** What the holder says of itself in errors and on the board; at most 48 bytes. */
  readonly label?: string | undefined;
  /** How many replicas must acknowledge a grant; with fewer the outcome is an error. */
  readonly minReplicas: number;
  /** The id of a lease of this process on the same key, which the store releases in the same step before it looks at this request. */
  readonly replaces?: string | undefined;
  /** True if the permit of the lease that it replaces goes to it before those who wait (P17). */
  readonly handsOn?: boolean | undefined;
  /**
   * True if it takes the hold that it replaces, if that is there (P18): as a ticket, in its place or `beside` it, for `leaseMs` and under its
   * fence; or from a ticket, with a fence of its own. Its mode, owner, permits and minHoldMs are those of the hold, whatever it says.
   */
  readonly takesOver?: 'hold' | 'beside' | 'ticket' | undefined;
  /** The last instant on the store's clock, in ms, at which the ticket can be taken over, as its hand-off told it. */
  readonly ticketUntil?: number | undefined;
  /** A local instant (clock.now()) not later than the sending of this request. Trust in its grant counts from it; by default now. */
  readonly askedAt?: number | undefined;
  /** The local instant (clock.now()) after which the store must not act on this request any more (P14). */
  readonly notAfter: number;
}

/** What becomes of a request: the answer of the store, or why there was none. */
export type Reply<A> = A | LockStoreError;

/** A callback for the reply to a request. It stands in place of a promise where one for each request would be a cost. */
export type Done<A> = (reply: Reply<A>) => void;

/**
 * A verb that every call needs. With `done` a store may return nothing, and call `done` with the reply once, later: then no promise is made.
 * Without `done`, or when it does not do that, it returns the promise of the answer.
 */
export interface Verb<R, A> {
  (request: R): Promise<A>;
  (request: R, done: Done<A>): Promise<A> | undefined;
}

/** The lock as the store granted it. */
export interface Grant {
  /** The first of the reserved fences. */
  readonly fence: number;
  /** How many fences were reserved, from `fence` upward. */
  readonly fences: number;
  /** The mode that was granted: that of the request, or the hold's mode for an owner (P13). */
  readonly mode: LockMode;
  /** The local instant (clock.now()) after which the grant must not be trusted (P9). */
  readonly trustedUntil: number;
  /** True if others wait for this lock. */
  readonly contended: boolean;
  /** Names what the store remembers, of a store that may forget; see {@link HeldLease}. */
  readonly memory?: string | undefined;
}

/** What a hold has beside its grant when it changes hands. */
export interface TakenHold {
  readonly owner: string | undefined;
  /** How many permits the lock has, of which this hold has one; undefined without permits. */
  readonly permits: number | undefined;
  /** For how much longer the lock stays taken although it is released, in ms. */
  readonly minHoldMs: number;
  /** The last instant of the new lease on the store's clock, in ms. */
  readonly end: number;
}

/** The answer to an acquire. `replacedLost`: the lease that the request replaces had ended in the store before. */
export type AcquireOutcome = AcquireAnswer & { readonly replacedLost?: boolean | undefined };

export type AcquireAnswer =
  /** `taken`: what a request with `takesOver` has from the hold. */
  | { readonly kind: 'granted'; readonly grant: Grant; readonly taken?: TakenHold | undefined }
  /** The holder from which the request was to take the hold is not there. `now`: the store's clock in ms; `memory` names what it remembers. */
  | { readonly kind: 'gone'; readonly now: number; readonly memory: string | undefined }
  /** The request has a place in the queue. The first in the queue also gets `askAgainInMs`: when the present holder's lease ends. */
  | { readonly kind: 'waiting'; readonly askAgainInMs?: number | undefined }
  /** The request was refused and has no place in a queue. Only where the store has no queue at all it may ask again, after `retryInMs`. */
  | { readonly kind: 'busy'; readonly retryInMs: number }
  /** The request's owner holds the lock for reading and asks for writing: it would wait for itself. */
  | { readonly kind: 'upgrade' }
  /**
   * The store may have forgotten who holds the lock: until `retryInMs` have passed it grants nothing new, so that holders can report what they
   * hold, and keeps no places.
   */
  | { readonly kind: 'recovering'; readonly retryInMs: number; readonly cause: LockStoreError }
  /** The request's owner has {@link MAX_HOLDS_OF_OWNER} holds of the lock already. */
  | { readonly kind: 'full' }
  /** Those who hold the lock or wait for it name so many permits, or none, and the request does not (P17). */
  | { readonly kind: 'permits'; readonly permits: number | undefined };

export interface RenewRequest extends HolderRef {
  /** Length of the lease from now, in ms. A renewal never shortens a lease, because the holder may trust its earlier end. */
  readonly leaseMs: number;
  /** That of the request which was granted (P15). */
  readonly graceMs?: number | undefined;
  readonly minReplicas: number;
  /** What the lease is, so that a store that forgot it can have it back (P16). Without it an id that is not found is lost. */
  readonly held?: HeldLease | undefined;
}

/** A lease as its holder knows it. Instants are local ones (clock.now()). */
export interface HeldLease {
  /**
   * Only a lease that is held may come back. Once its process has given it back (`released`), a request that brings it back all the same
   * has to be undone.
   */
  readonly state: 'held' | 'released' | 'lost';
  readonly mode: LockMode;
  /** The fences that were reserved for it. */
  readonly grant: Pick<Grant, 'fence' | 'fences'>;
  readonly options: Pick<AcquireRequest, 'owner' | 'permits' | 'label'>;
  /** Until when the lock stays taken also when it is released. */
  readonly minHoldUntil: number;
  readonly trustedUntil: number;
  /** The store's memory that knew it last: one that it still has did not forget the lease, so the lease was lost. */
  readonly memory: string | undefined;
  /** The holder id of the ticket of which the lease was made: a store that went back to an earlier state may have the ticket again. */
  readonly ticketId?: string | undefined;
}

/** Names a lease, and the store's memory that knew it last. */
export type LeaseRef = HolderRef & Pick<HeldLease, 'memory'>;

export type RenewOutcome =
  | { readonly kind: 'renewed'; readonly trustedUntil: number; readonly contended: boolean; readonly memory?: string | undefined }
  | { readonly kind: 'lost' }
  /** `lateUntil`: local instant until which an unanswered request may still bring the lease back. */
  | { readonly kind: 'unknown'; readonly cause: LockStoreError; readonly lateUntil?: number | undefined };

/** The trust in a grant that comes as a message is counted from an answer of the store that is at most this old, in ms. */
export const WAKES_COUNT_FROM_MS = 10_000;

/** A hint that the store gives to this process, about one of its ids that wants or has the lock `key` (P10). */
export type Wake = HolderRef &
  (
    | { readonly kind: 'granted'; readonly grant: Grant }
    /** Something may have changed for this waiter, so it should ask again. */
    | { readonly kind: 'ask' }
    /** The lock was granted to an id that this process no longer waits with, as after a failover to a replica that lags behind. */
    | { readonly kind: 'stray' }
    /** Another process began to wait for the lock that this id holds. */
    | { readonly kind: 'contended' }
    /** An operator took the lock away from this id. */
    | { readonly kind: 'lost' }
  );

/**
 * Which leases a store may have forgotten. `all`: every one that is held. `some`: those for which `mayHaveForgotten` is true. `rolled back`:
 * all, and the store may be in an earlier state of the same memory, so that the memory of a lease does not prove that it was lost.
 */
export type Doubt = 'all' | 'some' | 'rolled back';
/** Renews what is in doubt; see {@link LockStore.onDoubt}. */
export type DoubtListener = (doubt: Doubt) => Promise<void> | void;
/** Stands for the memory of a lease after the store went back to an earlier state: no memory has this name, so the lease is brought back. */
export const NO_MEMORY = '-';

export interface LockStore {
  readonly capabilities: StoreCapabilities;
  /**
   * Names the locks that a ticket of this store can be for: the kind of the store and its prefix. Tickets with another home are refused.
   * Undefined for a store that cannot hand holds to other processes.
   */
  readonly ticketHome?: string | undefined;
  /** What it is and what guards it, once it is open; undefined for a store that says nothing of itself. */
  readonly summary?: StoreSummary | undefined;
  /** What it asks, as messages name it; undefined for a store without a server, and for a Redlock, whose messages name each node. */
  readonly server?: string | undefined;
  /** Sets the one listener for what happens to the store itself. A store to which nothing happens has no such method. */
  onEvent?(listener: (event: StoreEvent) => void): void;

  /** Undefined for a store that cannot forget, or has no recovery. */
  readonly recovery?: StoreRecovery | undefined;
  /** Connects, and checks that the server can do what the store needs. Rejects with LockStoreError. */
  open(): Promise<void>;
  /** Sets the function that receives wakes. Called once, before the first acquire. */
  onWake(listener: (wake: Wake) => void): void;
  /**
   * Adds a listener that is called when the store may have forgotten something: leases in doubt are then renewed at once, and recent
   * releases that it may have forgotten repeated. The promise of a listener resolves when each of these renewals was answered. `held`
   * names the leases that are held. A store that cannot forget does not have it.
   */
  onDoubt?(listener: DoubtListener, held?: () => Iterable<LeaseRef>): void;
  /** True if the store has another memory by now than the one that knew this lease last, as far as this process has heard. */
  mayHaveForgotten?(lease: LeaseRef): boolean;
  /** The name of the memory that the store has of this key, as far as is known. */
  memoryOf?(key: string): string | undefined;
  /**
   * P1–P3, P7, P8, P10, P13, P14. Asks for a lock; asked again, keeps its place in the queue. Rejects with LockStoreError when the outcome is
   * unknown: then the caller must ask again with the same id, or release it, together with the id that it replaces.
   */
  readonly acquire: Verb<AcquireRequest, AcquireOutcome>;
  /** P5, P9. Renews a lease. Those of one turn are sent together. Never rejects. */
  renew(request: RenewRequest): Promise<RenewOutcome>;
  /** P4, P6. Releases a lock, or leaves its queue. `lost`: the store no longer knew the id. Rejects with LockStoreError when unknown. */
  readonly release: Verb<ReleaseRequest, Released>;
  /**
   * P19. Calls `done` when all releases that were asked for have left the process: they act, and before whatever it asks next
   * for their locks, even if the process ends now. Never calls it when it cannot vouch for that before they are answered. A store whose
   * releases act at once does not have it.
   */
  whenSent?(done: () => void): void;
  /** Turns a write hold into a read hold in one step, and admits the readers in the queue. Rejects as {@link release} does. */
  downgrade(holder: HolderRef): Promise<'downgraded' | 'lost'>;
  /** The present state of one lock. Rejects with LockStoreError when the store cannot be asked. */
  inspect(key: string): Promise<LockState>;
  /** Every lock that is held or waited for. It reads in small steps that do not block the store; each may reject like {@link inspect}. */
  list(options?: ListOptions): AsyncIterable<LockState>;
  /**
   * Takes the lock from the holder with this fence, of a permit that which `inspect` tells, or without a fence from all holders, and
   * sends them a wake. False when there was no such holder. Rejects as {@link release} does; the store does not act later than it takes
   * to give up a command, and without a fence the error is not retryable, because another try could hit the next holder.
   */
  forceRelease(key: string, fence?: number): Promise<boolean>;
  /** Takes and releases a lock whose key nobody else uses. Rejects with LockStoreError when no lock can be had at present. */
  tryOut(): Promise<void>;
  /** Closes what {@link open} opened. Clients that the application gave to the store stay open. */
  close(): Promise<void>;
}

/** What a store is, as it says once it is open. The lock module logs it in the one line with which an application starts. */
export interface StoreSummary {
  /** Which store, and on which servers: `one Redis (127.0.0.1:6379)`. */
  readonly place: string;
  /** The prefix of its Redis keys. */
  readonly prefix: string;
  /** What would guard the locks and is switched off, each as a noun, with the reason in brackets. */
  readonly off: readonly string[];
  /** What the store may not ask its server, as the end of a sentence; undefined when it knows all. */
  readonly unknown?: string | undefined;
}

/** The times in which a store grants nothing new, because it may have forgotten who holds what (recoveryMs). */
export interface StoreRecovery {
  /** How many such times this process has heard of since it started. */
  readonly recoveries: number;
  /** How long the present one still lasts, in ms; 0 when there is none. */
  readonly recoversForMs: number;
}

/**
 * A number that is the same for leases of like length, which may be renewed by one command: of two with the same number neither is twice as
 * long as the other. The answer to a command is waited for no longer than the shortest lease in it allows, so a short lease in a batch of
 * long ones would make the long ones give up an answer that comes in time for them.
 */
export function likeLength(leaseMs: number): number {
  return Math.floor(Math.log2(leaseMs));
}
