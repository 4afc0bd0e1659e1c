/**
 * LockedCall: the key, the options and the names of one lock decorator. It is made once, when the class is defined, so that
 * calls of the method do not repeat the work.
 */
import type { KeyOfCall } from '../core/key/call-key.js';
import type { CallSite, WithLockOptions } from '../core/port/lock-options.js';
import { invalidOption, isSignal, show } from '../core/port/option-values.js';
import { LONGEST_LABEL_BYTES } from '../core/port/resolve-options.js';
import type { TemplateSubject } from '../core/key/key-template.js';
import { DEFAULT_INSTANCE } from './lock-names.js';
import type { LockedOptions, OnBusy, Returns } from './locked-method.js';

/** How the calls of a method or a route get their keys. */
interface KeysOfCall {
  /** The key as the decorator was given it. */
  readonly key: unknown;
  /** What the placeholders of the key are read from. */
  readonly subject: TemplateSubject;
  /** Makes the key of a call from its arguments and its object. */
  readonly keyOf: KeyOfCall;
}

/** One lock around a method. */
export interface LockedCall extends KeysOfCall {
  /** Class and method, for messages: `OrderService.pay`. */
  readonly site: string;
  /** The name of the lock module that keeps the lock. */
  readonly instance: string;
  /** They are frozen: so each lock module completes and checks them once, and not at every call. */
  readonly options: WithLockOptions & CallSite;
  /** The same without a label, unless the decorator was given one: for modules that do not describe their holders. */
  readonly unlabelled: WithLockOptions & CallSite;
  /** Gives the signal of a call; undefined when the decorator was given no signal function. */
  readonly signalOf: ((args: readonly unknown[], self?: unknown) => AbortSignal | undefined) | undefined;
  readonly onBusy: OnBusy;
  readonly returns: Returns;
}

/** Completes the options of a decorator, which have been checked. `place` is the class and method, by default the `site` that messages name. */
export function lockedCall(keys: KeysOfCall, given: LockedOptions, site: string, place = site): LockedCall {
  const { onBusy = 'throw', returns = 'promise', instance = DEFAULT_INSTANCE, signal, ...options } = given;
  // With 'skip' or a fallback function a busy lock is expected, so the default is not to wait for it.
  const waitMs = options.waitMs ?? (onBusy === 'throw' ? undefined : 0);
  const told = { label: options.label ?? shortLabel(place), template: templateText(keys.key), expectsBusy: onBusy !== 'throw' };
  const signalOf = typeof signal === 'function' ? signalFunction(signal, site) : undefined;
  const fixed = typeof signal === 'function' ? undefined : signal;
  const complete = Object.freeze({ ...options, waitMs, signal: fixed, ...told });
  const unlabelled = options.label === undefined ? Object.freeze({ ...complete, label: undefined }) : complete;
  return { ...keys, site, instance, options: complete, unlabelled, signalOf, onBusy, returns };
}

function signalFunction(signal: CallableFunction, site: string): NonNullable<LockedCall['signalOf']> {
  return (args, self) => {
    const given: unknown = Reflect.apply(signal, self, args);
    if (given === undefined || isSignal(given)) return given;
    throw invalidOption(`expected its signal function to give an AbortSignal or undefined, got ${show(given)}`, undefined, site);
  };
}

/** The key before rendering, as one line of text for telemetry and events. */
function templateText(key: unknown): string {
  if (Array.isArray(key)) return key.map(templateText).join(' ');
  return typeof key === 'function' ? `${key.name || 'function'}()` : String(key);
}

/** The label of a call that was given none: the last bytes of `site` that fit, because the name of the method is at its end. */
export function shortLabel(site: string): string {
  let label = site;
  while (Buffer.byteLength(label) > LONGEST_LABEL_BYTES) label = label.slice(1);
  return label;
}
