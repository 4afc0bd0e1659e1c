/**
 * What the lock machine says: its replies, its wakes, and the instants they speak of. They mirror the port's outcomes,
 * but end times are those of the machine; the store turns them into trust.
 */
import type { LockMode } from '../../core/port/lock-mode.js';
import type { HolderRef } from '../../core/port/lock-store.js';

/** A waiter that is silent for longer than this loses its place. */
export const WAITER_LEASE_MS = 2_500;

/** The machine's time: `ms` for leases, and the wall clock's `us` from which fences grow, so that they outlive a restart. */
export interface Instant {
  readonly ms: number;
  readonly us: number;
}

/** A grant on the machine's time. */
export interface MachineGrant {
  readonly fence: number;
  readonly fences: number;
  readonly mode: LockMode;
  /** Last instant of the lease. */
  readonly end: number;
  readonly contended: boolean;
}

export type Granted = { readonly kind: 'granted'; readonly grant: MachineGrant };
export type Waiting = { readonly kind: 'waiting'; readonly askAgainInMs?: number | undefined };

export type AcquireReply = AcquireAnswer & { readonly replacedLost?: boolean };

type AcquireAnswer =
  | Granted
  | Waiting
  | { readonly kind: 'busy' }
  | { readonly kind: 'upgrade' | 'full' }
  /** After `notAfter`: nothing was done. */
  | { readonly kind: 'late' };

export type HeartbeatReply = Granted | Waiting | { readonly kind: 'gone' };

export type RenewReply =
  | { readonly kind: 'renewed'; readonly end: number; readonly contended: boolean }
  | { readonly kind: 'lost' };

export type MachineWake = HolderRef &
  ({ readonly kind: 'granted'; readonly grant: MachineGrant } | { readonly kind: 'contended' } | { readonly kind: 'lost' });
