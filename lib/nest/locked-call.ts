/**
 * What is known of a locked method when its class is defined: everything that a call does not have to find out again.
 */
import { LockUsageError } from '../core/port/errors.js';
import { compileCallKey, type CallKey, type KeyOfCall } from '../core/key/call-key.js';
import type { CallSite, WithLockOptions } from '../core/port/lock-options.js';
import { DEFAULT_INSTANCE } from './lock-names.js';
import type { LockedOptions, OnBusy, Returns } from './locked-method.js';

/** What a holder says of itself is this long at most, in bytes: it is stored with every lock. */
const LONGEST_LABEL_BYTES = 48;

/** What a decorator takes beside what it keeps to itself; the compiler sees to it that none is missing. */
const KNOWN: Readonly<Record<keyof WithLockOptions, true>> = {
  mode: true,
  leaseMs: true,
  waitMs: true,
  renew: true,
  maxHoldMs: true,
  minHoldMs: true,
  owner: true,
  signal: true,
  minReplicas: true,
  onLost: true,
};

/** How a locked method is called. */
export interface LockedCall {
  /** Class and method, for messages: `OrderService.pay`. */
  readonly place: string;
  /** The name of the lock module that keeps the lock. */
  readonly instance: string;
  readonly keyOf: KeyOfCall;
  readonly options: WithLockOptions & CallSite;
  readonly onBusy: OnBusy;
  readonly returns: Returns;
}

/** Checks and completes what a decorator was given. @throws LockKeyError, LockUsageError naming class and method */
export function lockedCall(key: CallKey, given: LockedOptions, place: string): LockedCall {
  const { onBusy = 'throw', returns = 'promise', instance = DEFAULT_INSTANCE, ...options } = given;
  if (onBusy !== 'throw' && onBusy !== 'skip' && typeof onBusy !== 'function') {
    throw new LockUsageError(`${place}: expected onBusy to be 'throw', 'skip' or a function, got ${String(onBusy)}.`);
  }
  if (returns !== 'promise' && returns !== 'observable') {
    throw new LockUsageError(`${place}: expected returns to be 'promise' or 'observable', got ${String(returns)}.`);
  }
  if (typeof instance !== 'string' || instance === '') {
    throw new LockUsageError(`${place}: expected instance to be the name of a lock module, got ${String(instance)}.`);
  }
  for (const name of Object.keys(options)) {
    if (!Object.hasOwn(KNOWN, name)) throw new LockUsageError(`${place}: unknown option '${name}'.`);
  }
  // Who has something else to do when the lock is busy does not want to wait for it.
  const waitMs = options.waitMs ?? (onBusy === 'throw' ? undefined : 0);
  const site = { label: shortLabel(place), template: templateText(key), expectsBusy: onBusy !== 'throw' };
  const keyOf = compileCallKey(key, place);
  return { place, instance, keyOf, options: { ...options, waitMs, ...site }, onBusy, returns };
}

/** The key before rendering, in one line, for telemetry. */
export function templateText(key: unknown): string {
  if (Array.isArray(key)) return key.map(templateText).join(' ');
  return typeof key === 'function' ? `${key.name || 'function'}()` : String(key);
}

/** The end of `place`, where the method is named, as far as it fits. */
export function shortLabel(place: string): string {
  let label = place;
  while (Buffer.byteLength(label) > LONGEST_LABEL_BYTES) label = label.slice(1);
  return label;
}
