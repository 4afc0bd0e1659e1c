/** Which options the decorators take, and LockInterceptor.of: for callers whose compiler did not look. */
import type { NamesOf, OptionList } from '../core/port/option-names.js';
import type { LockedOptions } from './locked-method.js';
import type { RouteLockOptions } from './route-lock.js';

const example = '{ leaseMs: 5000 }';
const routeNames: NamesOf<RouteLockOptions> = {
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
  instance: true,
};
const lockedNames: NamesOf<LockedOptions> = { ...routeNames, onBusy: true, returns: true };
const { mode: _saidByTheName, ...sidedNames } = lockedNames;

/** Of LockInterceptor.of. */
export const ROUTE_OPTIONS: OptionList = { names: routeNames, example };
/** Of @Locked. */
export const LOCKED_OPTIONS: OptionList = { names: lockedNames, example };
/** Of @WriteLock and @ReadLock. */
export const SIDED_OPTIONS: OptionList = { names: sidedNames, example };
