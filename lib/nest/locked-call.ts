/**
 * LockedCall: the key, the options and the names of one lock decorator. It is made once, when the class is defined, so that
 * calls of the method do not repeat the work.
 */
import type { KeyOfCall } from '../core/key/call-key.js';
import type { AbortSignalLike, CallSite, LockProfiles, WithLockOptions } from '../core/port/lock-options.js';
import { checkOptions, expecting, invalidOption, isSignal, LONGEST_LABEL_BYTES, lockOptionNames, type NamesOf, oneOf, type OptionList, show, withProfile } from '../core/port/options.js';
import type { TemplateSubject } from '../core/key/key-template.js';
import { DEFAULT_INSTANCE } from './lock-names.js';
import type { LockedOptions, OnBusy, Returns } from './locked-method.js';
import type { LeaderOptions } from './leader.decorator.js';
import type { RouteLockOptions } from './route-lock.js';

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
  /** The class and method for the label of a holder. */
  readonly place: string;
  /** The options as the decorator was given them. */
  readonly given: LockedOptions;
  /** Gives the signal of a call; undefined when the decorator was given no signal function. */
  readonly signalOf: ((args: readonly unknown[], self?: unknown) => AbortSignalLike | undefined) | undefined;
  readonly returns: Returns;
}

/** What a lock module makes of a LockedCall, once. */
export interface CallInModule {
  /** They are frozen: so the LockService completes and checks them once, and not at every call. */
  readonly options: WithLockOptions & CallSite;
  readonly onBusy: OnBusy;
}

/** Notes what a decorator was given, which has been checked. `place` is the class and method, by default the `site` that messages name. */
export function lockedCall(keys: KeysOfCall, given: LockedOptions, site: string, place = site): LockedCall {
  const { returns = 'promise', instance = DEFAULT_INSTANCE, signal } = given;
  const signalOf = typeof signal === 'function' ? signalFunction(signal, site) : undefined;
  return { ...keys, site, place, instance, given, signalOf, returns };
}

/**
 * Completes the options of a decorator with those of its profile. `describe`: whether the holder says who it is, unless the decorator says
 * so. @throws LockUsageError for a profile that the module does not have
 */
export function callInModule({ given, key, place, subject }: LockedCall, describe: boolean, profiles: LockProfiles): CallInModule {
  const { onBusy = 'throw', returns: _, instance: __, signal, ...options } = withProfile(given, profiles, subject === 'request' ? ROUTE_OPTIONS : LOCKED_OPTIONS);
  // With 'skip' or a fallback function a busy lock is expected, so the default is not to wait for it.
  const waitMs = options.waitMs ?? (onBusy === 'throw' ? undefined : 0);
  const told = { label: options.label ?? (describe ? shortLabel(place) : undefined), template: templateText(key), expectsBusy: onBusy !== 'throw' };
  return { options: Object.freeze({ ...options, waitMs, signal: typeof signal === 'function' ? undefined : signal, ...told }), onBusy };
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

// The options that the decorators and LockInterceptor.of take, and their check when the class is defined: callers in JavaScript or
// behind a cast are not checked by the compiler. What depends on the module is checked at boot.

const example = '{ leaseMs: 5000 }';
const instance = expecting('the name of a lock module', (name) => typeof name === 'string' && name !== '');
const signal = expecting('an AbortSignal, or a function that gives one', (given) => typeof given === 'function' || isSignal(given));
const onBusy = expecting("'throw', 'skip' or a function", (given) => given === 'throw' || given === 'skip' || typeof given === 'function');
const routeNames: NamesOf<RouteLockOptions> = { ...lockOptionNames, onLost: true, awaitRelease: true, instance, signal };
const lockedNames: NamesOf<LockedOptions> = { ...routeNames, onBusy, returns: oneOf('promise', 'observable') };
const { mode: _saidByTheName, ...sidedNames } = lockedNames;
const leaderNames: NamesOf<LeaderOptions> = { leaseMs: true, graceMs: true, minReplicas: true, label: true, profile: true, restMs: true, instance };

/** The options of LockInterceptor.of. */
export const ROUTE_OPTIONS: OptionList = { names: routeNames, example };
/** The options of @Locked. */
export const LOCKED_OPTIONS: OptionList = { names: lockedNames, example };
/** The options of @WriteLock and @ReadLock, whose names say the mode. */
export const SIDED_OPTIONS: OptionList = { names: sidedNames, example };
/** The options of @Leader. */
export const LEADER_OPTIONS: OptionList = { names: leaderNames, example: '{ restMs: 5000 }' };

/** Checks the options of a decorator, if any were given. @throws LockUsageError that begins with `site`, the class and the method */
export function checkDecorator(given: unknown, list: OptionList, site: string): void {
  if (given !== undefined) checkOptions(given, { ...list, of: site });
}
