/**
 * The names of the options that the decorators and LockInterceptor.of take. They are checked at run time, because callers in
 * JavaScript or behind a cast are not checked by the compiler.
 */
import type { NamesOf, OptionList } from '../core/port/option-names.js';
import { lockOptionNames } from '../core/port/request-options.js';
import type { LeaderOptions } from './leader.decorator.js';
import type { LockedOptions } from './locked-method.js';
import type { RouteLockOptions } from './route-lock.js';

const example = '{ leaseMs: 5000 }';
const routeNames: NamesOf<RouteLockOptions> = { ...lockOptionNames, onLost: true, instance: true };
const lockedNames: NamesOf<LockedOptions> = { ...routeNames, onBusy: true, returns: true };
const { mode: _saidByTheName, ...sidedNames } = lockedNames;

/** The options of LockInterceptor.of. */
export const ROUTE_OPTIONS: OptionList = { names: routeNames, example };
/** The options of @Locked. */
export const LOCKED_OPTIONS: OptionList = { names: lockedNames, example };
/** The options of @WriteLock and @ReadLock, whose names say the mode. */
export const SIDED_OPTIONS: OptionList = { names: sidedNames, example };

const leaderNames: NamesOf<LeaderOptions> = { leaseMs: true, graceMs: true, minReplicas: true, label: true, restMs: true, instance: true };
/** The options of @Leader. */
export const LEADER_OPTIONS: OptionList = { names: leaderNames, example: '{ restMs: 5000 }' };
