/**
 * The port: where lock state lives. Every store keeps the numbered promises below; `test/contract` repeats the
 * numbers and runs the same suite against each of them.
 *
 *   P1  A write holder excludes every other holder; read holders exclude write holders only.
 *   P2  A grant's fence is greater than every fence the key was granted before, and it reserves `fences` numbers.
 *   P3  acquire is idempotent by holder id: the same request again gives the same grant or the same place.
 *   P4  release takes an id away wherever it is, holding or waiting, then grants whom it can; twice is harmless.
 *       The lock stays taken for what is left of the hold's minHoldMs, unless the hold is abandoned: its work never began.
 *   P5  renew never creates and never revives: an id that is gone or has ended is `lost`.
 *   P6  An act of an old id never touches another id.
 *   P7  Writers are served in the order they came; after a writer all waiting readers enter together; a reader
 *       that comes while a writer waits queues behind it (only with `capabilities.queue`).
 *   P8  A waiter that is not heard of for `waiterLeaseMs` loses its place, and a grant made to a waiter is short
 *       until its first renewal, so dead waiters delay the next live one by a bounded time.
 *   P9  `trustedUntil` is counted on our monotonic clock from a moment before the grant and ends before the
 *       store gives the lock to anybody else.
 *   P10 A wake is a hint. A store may lose wakes; a heartbeat or a repeated acquire always tells the truth.
 *   P11 A refusal is a value. An error is thrown (or told as `unknown`) only when the outcome is not known or the
 *       store cannot serve; it is always a LockStoreError.
 *   P12 An idle lock leaves nothing behind but memory for fences that does not grow with the number of keys.
 *   P13 Requests that name the owner of the present hold share its mode and its fence and pass the queue; those that had
 *       queued before their owner was granted do so when they ask again, or at their next heartbeat. Up to MOST_HOLDS_OF_OWNER.
 *   P14 An acquire does not act after `notAfter`.
 *   P15 A store that forgot what it granted grants nothing new for a while. A renewal that says what its lease is brings it back
 *       then: under its id and fence, not after its trust has ended, where the lock is free or has an older holder.
 */
import type { LockStoreError } from './errors.js';
import type { LockMode } from './lock-mode.js';

/** How many holds of one lock an owner can have at a time: whoever looks at the lock reads them all. Part of the wire format. */
export const MOST_HOLDS_OF_OWNER = 1_000;

/** The most that a grant made to a waiter lasts until its first renewal, in ms (P8). Part of the wire format. */
export const FIRST_LEASE_MS = 1_500;

/** What a store can and cannot do; options that need what is not there are refused at boot. */
export interface StoreCapabilities {
  /** Keeps an order among waiters and wakes them; without it a refused request is asked again with jitter. */
  readonly queue: boolean;
  /** Can count replica acknowledgements (`minReplicas`). */
  readonly replicas: boolean;
  /** Longest lease this store grants, in ms. */
  readonly maxLeaseMs: number;
  /** Where not all locks can share a command: those with the same number can, so that their renewals should come together. */
  readonly groupOf?: ((key: string) => number) | undefined;
}

/** Names one grant or one place in the queue, exactly. */
export interface HolderRef {
  /** The lock's key, as its caller wrote it: with any character in it but half a surrogate pair. */
  readonly key: string;
  /** New for every request: `process.sequence`. */
  readonly id: string;
}

export interface ReleaseRequest extends HolderRef {
  /** Local instant (clock.now()) not later than its sending; by default now. */
  readonly askedAt?: number | undefined;
  /** Nobody worked under this grant, if it was one: it owes no minHoldMs. */
  readonly abandoned?: boolean | undefined;
}

export interface AcquireRequest extends HolderRef {
  readonly mode: LockMode;
  /** Length of the lease, in ms. */
  readonly leaseMs: number;
  /** Take a place in the queue when the lock is busy. */
  readonly queue: boolean;
  /** How many consecutive fences to reserve, at least 1. */
  readonly fences: number;
  /** The lock stays taken at least this long after the grant, even when released earlier, in ms. */
  readonly minHoldMs: number;
  /** See P13. */
  readonly owner?: string | undefined;
  /** What the holder says of itself (class.method), for people; at most 48 bytes. */
  readonly label?: string | undefined;
  /** Only count a grant that this many replicas acknowledged. */
  readonly minReplicas: number;
  /** An id of ours on the same key to release in the same step, before this request is looked at. */
  readonly replaces?: string | undefined;
  /** Local instant (clock.now()) not later than the sending of this request, from which trust in its grant is counted; by default now. */
  readonly askedAt?: number | undefined;
  /** Local instant (clock.now()) after which the store must not act on this request any more. */
  readonly notAfter: number;
}

/** The store's yes. */
export interface Grant {
  /** First of the reserved fences. */
  readonly fence: number;
  /** How many fences were reserved, from `fence` upward. */
  readonly fences: number;
  /** The mode that was granted: that of the request, or the hold's mode for an owner (P13). */
  readonly mode: LockMode;
  /** Local instant (clock.now()) after which the grant must not be trusted. */
  readonly trustedUntil: number;
  /** Somebody else waits for this lock. */
  readonly contended: boolean;
  /** Names what the store remembers, of a store that may forget; see {@link HeldLease}. */
  readonly memory?: string | undefined;
}

/** `replacedLost`: the id to replace was not there any more. */
export type AcquireOutcome = AcquireAnswer & { readonly replacedLost?: boolean | undefined };

export type AcquireAnswer =
  | { readonly kind: 'granted'; readonly grant: Grant }
  /** A place in the queue; `askAgainInMs` is when the present holder's lease ends, told to the first in line. */
  | { readonly kind: 'waiting'; readonly askAgainInMs?: number | undefined }
  /** Refused, and no place taken. `retryInMs` is a jittered hint for those who want to ask again. */
  | { readonly kind: 'busy'; readonly retryInMs: number }
  /** The owner holds the lock for reading and asks for writing: it would wait for itself. */
  | { readonly kind: 'upgrade' }
  /** The store may have forgotten who holds the lock: for so long it waits for them to say so, and keeps no places. */
  | { readonly kind: 'recovering'; readonly retryInMs: number; readonly cause: LockStoreError }
  /** The owner has {@link MOST_HOLDS_OF_OWNER} holds of the lock already. */
  | { readonly kind: 'full' };

export interface RenewRequest extends HolderRef {
  /** Length of the lease from now, in ms. A renewal never shortens: what was promised before may still be trusted. */
  readonly leaseMs: number;
  readonly minReplicas: number;
  /** What the lease is, so that a store that forgot it can have it back (P15). Without it an id that is not found is lost. */
  readonly held?: HeldLease | undefined;
}

/** A lease as its holder knows it. Instants are local ones (clock.now()). */
export interface HeldLease {
  readonly mode: LockMode;
  /** First of the reserved fences. */
  readonly firstFence: number;
  readonly fences: number;
  readonly owner: string | undefined;
  readonly label: string | undefined;
  /** Until when the lock stays taken also when it is released. */
  readonly minHoldUntil: number;
  readonly trustedUntil: number;
  /** The store's memory that knew it last: one that it still has did not forget the lease, so the lease was lost. */
  readonly memory: string | undefined;
}

export type RenewOutcome =
  | { readonly kind: 'renewed'; readonly trustedUntil: number; readonly contended: boolean; readonly memory?: string | undefined }
  | { readonly kind: 'lost' }
  | { readonly kind: 'unknown'; readonly cause: LockStoreError };

export type HeartbeatOutcome =
  | { readonly kind: 'granted'; readonly grant: Grant }
  | { readonly kind: 'waiting'; readonly askAgainInMs?: number | undefined }
  /** The place is gone (the waiter was silent for too long): ask anew. */
  | { readonly kind: 'gone' }
  | { readonly kind: 'unknown'; readonly cause: LockStoreError };

/** The hints a store gives upward, each about one id of ours that wants or has the lock `key`. */
export type Wake = HolderRef &
  (
    | { readonly kind: 'granted'; readonly grant: Grant }
    /** Something may have changed for this waiter. */
    | { readonly kind: 'ask' }
    /** A grant to an id that does not wait, as far as the store knows: a queue came back that had been served before. */
    | { readonly kind: 'stray' }
    /** Somebody began to wait for the lock that this id holds. */
    | { readonly kind: 'contended' }
    /** An operator took the lock away from this id. */
    | { readonly kind: 'lost' }
  );

export interface HolderState {
  readonly id: string;
  readonly fence: number;
  readonly owner?: string | undefined;
  /** Time until the lease ends unless it is renewed, in ms. */
  readonly remainingMs: number;
  /** What the holder said of itself. */
  readonly label?: string | undefined;
}

export interface WaiterState {
  readonly id: string;
  readonly mode: LockMode;
  readonly label?: string | undefined;
}

/** What the store knows of one lock. For a free key the mode is null and both lists are empty. */
export interface LockState {
  readonly key: string;
  readonly mode: LockMode | null;
  readonly holders: readonly HolderState[];
  /** In the order in which they will be served. */
  readonly waiters: readonly WaiterState[];
}

export interface ListOptions {
  /** Only keys that start with this. */
  readonly startsWith?: string | undefined;
}

export interface LockStore {
  readonly capabilities: StoreCapabilities;
  /** Connects and checks that the store can do what will be asked of it; rejects with a LockStoreError. */
  open(): Promise<void>;
  /** Where wakes go. Called once, before the first acquire. */
  onWake(listener: (wake: Wake) => void): void;
  /**
   * Who is told that the store may have forgotten what it granted, because it is reached anew or says so itself: all that is held is
   * renewed at once then. Called once, before the first acquire. A store that cannot forget does not have it.
   */
  onDoubt?(listener: () => void): void;
  /** P1–P3, P7, P13, P14. Rejects with LockStoreError when the outcome is unknown: then release the id, and the one it replaces. */
  acquire(request: AcquireRequest): Promise<AcquireOutcome>;
  /** P5, P9. Answers in the order of the requests; never rejects. */
  renew(requests: readonly RenewRequest[]): Promise<readonly RenewOutcome[]>;
  /** P8, P10. Keeps places in the queue and fetches grants whose wake was lost; never rejects. */
  heartbeat(waiters: readonly HolderRef[]): Promise<readonly HeartbeatOutcome[]>;
  /** P4, P6. `lost`: the id was not there any more. Rejects with LockStoreError when the outcome is unknown. */
  release(request: ReleaseRequest): Promise<'released' | 'lost'>;
  /** Turns a write hold into a read hold in one step and admits the queued readers. Rejects as a release does. */
  downgrade(holder: HolderRef): Promise<'downgraded' | 'lost'>;
  /** Rejects with LockStoreError when the store cannot be asked. */
  inspect(key: string): Promise<LockState>;
  /** Every lock that is held or waited for; never blocks the store. Rejects like {@link inspect}, also in the midst of the walk. */
  list(options?: ListOptions): AsyncIterable<LockState>;
  /** Takes the lock from the holder with this fence, or from all holders; they are told. False when there was none. Rejects as a release does. */
  forceRelease(key: string, fence?: number): Promise<boolean>;
  /** Takes a lock that nobody else can name and gives it back. Rejects with LockStoreError when no lock can be had at present. */
  tryOut(): Promise<void>;
  /** Closes what {@link open} opened; the clients that were given stay open. */
  close(): Promise<void>;
}
