/**
 * The replies and the wakes of the lock machine. They are like the outcomes of the port, but with the end of a lease in the
 * machine's time, from which the store makes the end of trust.
 */
import type { LockMode } from '../../core/port/lock-mode.js';
import type { HolderRef } from '../../core/port/lock-store.js';
import { isContended, type Holder, type LockRecord } from './lock-record.js';

/** A waiter that sends no heartbeat for longer than this, in ms, loses its place. */
export const WAITER_LEASE_MS = 2_500;

/** The machine's time: `ms` for leases, and `us` of the wall clock for fences, so that they go on rising after a restart. */
export interface Instant {
  readonly ms: number;
  readonly us: number;
}

/** A grant whose end is in the machine's time. */
export interface MachineGrant {
  readonly fence: number;
  readonly fences: number;
  readonly mode: LockMode;
  /** The last instant of the lease. */
  readonly end: number;
  readonly contended: boolean;
}

export type Granted = { readonly kind: 'granted'; readonly grant: MachineGrant };
export type Waiting = { readonly kind: 'waiting'; readonly askAgainInMs?: number | undefined };

export type AcquireReply = Answer & { readonly replacedLost?: boolean };

type Answer =
  | Granted
  | Waiting
  | { readonly kind: 'busy' }
  | { readonly kind: 'upgrade' | 'full' }
  | { readonly kind: 'permits'; readonly permits: number | undefined }
  /** The request came after its `notAfter`, so nothing was done. */
  | { readonly kind: 'late' };

export type HeartbeatReply = Granted | Waiting | { readonly kind: 'gone' };

export type RenewReply =
  | { readonly kind: 'renewed'; readonly end: number; readonly contended: boolean }
  | { readonly kind: 'lost' };

export type HandOffReply =
  | { readonly kind: 'handedOff'; readonly until: number }
  | { readonly kind: 'lost'; readonly key: string }
  /** The request came after its `notAfter`, so nothing was done. */
  | { readonly kind: 'late' };

/** What an adoption made of a ticket for one lock. */
export interface MachineAdoption {
  readonly grant: MachineGrant;
  readonly owner: string | undefined;
  readonly permits: number | undefined;
  readonly minHoldMs: number;
}

export type AdoptReply =
  | { readonly kind: 'adopted'; readonly holds: readonly MachineAdoption[] }
  | { readonly kind: 'gone'; readonly key: string }
  /** The request came after its `notAfter`, so nothing was done. */
  | { readonly kind: 'late' };

export type MachineWake = HolderRef &
  ({ readonly kind: 'granted'; readonly grant: MachineGrant } | { readonly kind: 'contended' } | { readonly kind: 'lost' });

export function grantOf(lock: LockRecord, { fence, fences, end, graceMs }: Holder): MachineGrant {
  return { fence, fences, mode: lock.mode, end: end - graceMs, contended: isContended(lock) };
}
