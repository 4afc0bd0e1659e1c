import { describe, expect, it } from '@jest/globals';
import { readFileSync } from 'node:fs';
import * as holdfast from '../lib/index.js';

describe('the public API', () => {
  it('has these values and no others', () => {
    expect(Object.keys(holdfast).sort()).toEqual([
      'InjectLocks', 'Leader', 'LockClosedError', 'LockError', 'LockExceptionFilter', 'LockInterceptor', 'LockKeyError', 'LockLostError',
      'LockModule', 'LockService', 'LockStoreError', 'LockTimeoutError', 'LockUsageError', 'Locked', 'ReadLock', 'WriteLock', 'lockKey',
      'writeFenced',
    ]);
  });

  it('has these types and no others', () => {
    const source = readFileSync(new URL('index.ts', `file://${process.cwd()}/lib/`), 'utf8');
    const lists = [...source.matchAll(/export (type )?\{([^}]*)\}/g)];
    const types = lists.flatMap(([, all, names = '']) =>
      names.split(',').flatMap((name) => (all || name.trim().startsWith('type ') ? name.replace('type ', '').trim() || [] : [])),
    );
    expect(types.sort()).toEqual([
      'AdoptOptions', 'BusyHolder', 'CallKey', 'ClusterTarget', 'EvalClient', 'HandOffOptions', 'HolderState', 'KeyFunction', 'LeadOptions',
      'LeaderDecorator', 'LeaderOptions', 'Leadership', 'Lease', 'LeaseFacts', 'ListOptions', 'LockErrorCode', 'LockEvent', 'LockHolder', 'LockKey',
      'LockMode', 'LockModuleExtras', 'LockModuleOptions', 'LockOptions', 'LockProfile', 'LockState', 'LockedDecorator', 'LockedOptions',
      'LossReason', 'NodeFailure', 'RedisTarget', 'ReleaseOutcome', 'RouteKey', 'RouteLockOptions', 'StoreEvent', 'WaiterState',
      'WithAdoptedOptions', 'WithLockOptions', 'WorkOutcome',
    ]);
    expect(source).not.toMatch(/export \*|export default/);
  });
});
