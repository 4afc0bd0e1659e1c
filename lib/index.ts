/**
 * The whole public surface of the package's main entry point. What this file does not name is private;
 * test/public-api.test.ts pins the list.
 */
export { LockModule } from './nest/lock.module.js';
export type { ClusterTarget, LockModuleOptions, RedisTarget } from './nest/lock-module-options.js';
export type { LockModuleExtras } from './nest/lock-providers.js';
export { InjectLocks } from './nest/lock-names.js';
export { Locked, ReadLock, WriteLock } from './nest/locked.decorator.js';
export type { LockedDecorator, LockedOptions } from './nest/locked-method.js';
export { Leader, type LeaderDecorator, type LeaderOptions } from './nest/leader.decorator.js';
export { LockInterceptor } from './nest/lock.interceptor.js';
export type { RouteKey, RouteLockOptions } from './nest/route-lock.js';
export { LockExceptionFilter } from './nest/lock-exception.filter.js';
export { LockService, type LockKey } from './lock.service.js';
export { writeFenced, type EvalClient } from './fenced-write.js';
export type { Lease, LeaseFacts, ReleaseOutcome } from './core/port/lease.js';
export type { LeadOptions, Leadership, LockHolder } from './core/hold/leading.js';
export type { LockMode } from './core/port/lock-options.js';
export type { LockEvent, StoreEvent } from './core/port/lock-events.js';
export type { AdoptOptions, HandOffOptions, LockOptions, LockProfile, WithAdoptedOptions, WithLockOptions } from './core/port/lock-options.js';
export type { HolderState, ListOptions, LockState, WaiterState } from './core/port/lock-state.js';
export type { CallKey, KeyFunction } from './nest/call-key.js';
export { lockKey } from './nest/key-template.js';
export {
  LockClosedError,
  LockError,
  LockKeyError,
  LockLostError,
  LockStoreError,
  LockTimeoutError,
  LockUsageError,
  type BusyHolder,
  type LockErrorCode,
  type LossReason,
  type NodeFailure,
  type WorkOutcome,
} from './core/port/errors.js';
