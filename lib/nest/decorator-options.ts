/**
 * The options that the decorators and LockInterceptor.of take, and their check when the class is defined: callers in JavaScript or
 * behind a cast are not checked by the compiler. What depends on the module is checked at boot.
 */
import { checkOptions, isSignal, lockOptionNames, type NamesOf, oneOfProblem, type OptionList, show } from '../core/port/options.js';
import type { LeaderOptions } from './leader.decorator.js';
import type { LockedOptions } from './locked-method.js';
import type { RouteLockOptions } from './route-lock.js';

const example = '{ leaseMs: 5000 }';
const routeNames: NamesOf<RouteLockOptions> = { ...lockOptionNames, onLost: true, awaitRelease: true, instance: true };
const lockedNames: NamesOf<LockedOptions> = { ...routeNames, onBusy: true, returns: true };
const { mode: _saidByTheName, ...sidedNames } = lockedNames;

/** The options of LockInterceptor.of. */
export const ROUTE_OPTIONS: OptionList = { names: routeNames, example, valueProblem };
/** The options of @Locked. */
export const LOCKED_OPTIONS: OptionList = { names: lockedNames, example, valueProblem };
/** The options of @WriteLock and @ReadLock, whose names say the mode. */
export const SIDED_OPTIONS: OptionList = { names: sidedNames, example, valueProblem };

const leaderNames: NamesOf<LeaderOptions> = { leaseMs: true, graceMs: true, minReplicas: true, label: true, profile: true, restMs: true, instance: true };
/** The options of @Leader. */
export const LEADER_OPTIONS: OptionList = { names: leaderNames, example: '{ restMs: 5000 }', valueProblem };

/** Checks the options of a decorator, if any were given. @throws LockUsageError that begins with `site`, the class and the method */
export function checkDecorator(given: unknown, list: OptionList, site: string): void {
  if (given !== undefined) checkOptions(given, { ...list, of: site });
}

function valueProblem({ onBusy, returns, instance, signal }: Readonly<Record<string, unknown>>): string | undefined {
  return (
    busyProblem(onBusy) ??
    oneOfProblem('returns', returns, ['promise', 'observable']) ??
    instanceProblem(instance) ??
    signalProblem(signal)
  );
}

function busyProblem(onBusy: unknown): string | undefined {
  if (onBusy === undefined || onBusy === 'throw' || onBusy === 'skip' || typeof onBusy === 'function') return undefined;
  return `expected onBusy to be 'throw', 'skip' or a function, got ${show(onBusy)}`;
}

function instanceProblem(instance: unknown): string | undefined {
  if (instance === undefined || (typeof instance === 'string' && instance !== '')) return undefined;
  return `expected instance to be the name of a lock module, got ${show(instance)}`;
}

function signalProblem(signal: unknown): string | undefined {
  if (signal === undefined || typeof signal === 'function' || isSignal(signal)) return undefined;
  return `expected signal to be an AbortSignal, or a function that gives one, got ${show(signal)}`;
}
