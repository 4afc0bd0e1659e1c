/**
 * What is known of a locked method when its class is defined: everything that a call does not have to find out again.
 */
import { LockUsageError } from '../core/port/errors.js';
import { compileCallKey, type CallKey, type KeyOfCall } from '../core/key/call-key.js';
import type { CallSite, WithLockOptions } from '../core/port/lock-options.js';
import { optionsProblem, type OptionList } from '../core/port/option-names.js';
import type { TemplateSubject } from '../core/key/key-template.js';
import { DEFAULT_INSTANCE } from './lock-names.js';
import type { LockedOptions, OnBusy, Returns } from './locked-method.js';

/** What a holder says of itself is this long at most, in bytes: it is stored with every lock. */
const LONGEST_LABEL_BYTES = 48;

/** How a locked method is called. */
export interface LockedCall {
  /** Class and method, for messages: `OrderService.pay`. */
  readonly place: string;
  /** The name of the lock module that keeps the lock. */
  readonly instance: string;
  /** As it was given, and what its placeholders look into. */
  readonly key: unknown;
  readonly subject: TemplateSubject;
  readonly keyOf: KeyOfCall;
  readonly options: WithLockOptions & CallSite;
  /** Gives the signal of a call, where the decorator was given a function. */
  readonly signalOf: ((args: readonly unknown[]) => AbortSignal | undefined) | undefined;
  readonly onBusy: OnBusy;
  readonly returns: Returns;
}

/** Checks and completes what a decorator was given. @throws LockKeyError, LockUsageError naming class and method */
export function lockedCall(key: CallKey, given: LockedOptions, place: string): LockedCall {
  const { onBusy = 'throw', returns = 'promise', instance = DEFAULT_INSTANCE, signal, ...options } = given;
  if (onBusy !== 'throw' && onBusy !== 'skip' && typeof onBusy !== 'function') {
    throw new LockUsageError(`${place}: expected onBusy to be 'throw', 'skip' or a function, got ${String(onBusy)}.`);
  }
  if (returns !== 'promise' && returns !== 'observable') {
    throw new LockUsageError(`${place}: expected returns to be 'promise' or 'observable', got ${String(returns)}.`);
  }
  if (typeof instance !== 'string' || instance === '') {
    throw new LockUsageError(`${place}: expected instance to be the name of a lock module, got ${String(instance)}.`);
  }
  // Who has something else to do when the lock is busy does not want to wait for it.
  const waitMs = options.waitMs ?? (onBusy === 'throw' ? undefined : 0);
  const site = { label: shortLabel(place), template: templateText(key), expectsBusy: onBusy !== 'throw' };
  const keyOf = compileCallKey(key, place);
  const signalOf = typeof signal === 'function' ? signalFunction(signal, place) : undefined;
  const fixed = typeof signal === 'function' ? undefined : signal;
  checkSignal(fixed, `${place}: expected signal to be an AbortSignal, or a function that gives one`);
  return { place, instance, key, subject: 'arguments', keyOf, options: { ...options, waitMs, signal: fixed, ...site }, signalOf, onBusy, returns };
}

/** @throws LockUsageError for options that nobody would read */
export function checkNames(given: unknown, list: OptionList, place: string): void {
  const problem = given === undefined ? undefined : optionsProblem(given, list);
  if (problem !== undefined) throw new LockUsageError(`${place}: ${problem}.`);
}

function signalFunction(signal: CallableFunction, place: string): (args: readonly unknown[]) => AbortSignal | undefined {
  return (args) => {
    const given: unknown = Reflect.apply(signal, undefined, args);
    checkSignal(given, `${place}: expected its signal function to give an AbortSignal or undefined`);
    return given;
  };
}

function checkSignal(given: unknown, expected: string): asserts given is AbortSignal | undefined {
  if (given === undefined) return;
  const isSignal = typeof given === 'object' && given !== null && 'addEventListener' in given && 'aborted' in given;
  if (!isSignal) throw new LockUsageError(`${expected}, got ${String(given)}.`);
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
