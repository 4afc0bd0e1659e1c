/** Finds the LockService of a lock module, for the board, the telemetry and the health indicator. */
import type { ModuleRef } from '@nestjs/core';
import { LockUsageError } from '../core/port/errors.js';
import type { LockService } from '../lock.service.js';
import { interceptorToken, locksToken } from './lock-names.js';

/**
 * The LockService of the lock module named `instance`, in whichever module of the application it is imported. `member` is what `who` needs
 * of it.
 * @throws LockUsageError when there is no lock module of that name, or a test has put an object without that member in its place
 */
export function findLocks<Asked extends Partial<LockService>>(moduleRef: ModuleRef, instance: string, who: string, member: keyof Asked & string): Asked {
  const locks = find<Asked>(moduleRef, instance, who);
  if (locks[member] !== undefined) return locks;
  throw new LockUsageError(`${who} needs a LockService, but an object without '${member}' stands in its place. Use TestLocks, or leave ${who} out.`);
}

function find<Asked>(moduleRef: ModuleRef, instance: string, who: string): Asked {
  try {
    return moduleRef.get<LockService, Asked>(locksToken(instance), { strict: false });
  } catch (cause) {
    const why = isOfAnotherCopy(moduleRef, instance)
      ? 'which the application imports from another copy of nestjs-holdfast: its LockService is another class. Let both import one copy (npm ls nestjs-holdfast)'
      : 'but the application imports no such module';
    throw new LockUsageError(`${who} needs lock module '${instance}', ${why}.`, { cause });
  }
}

/** Whether there is a lock module of this name all the same: the token of an interceptor is the same in all copies of this package, that of LockService is its class. */
function isOfAnotherCopy(moduleRef: ModuleRef, instance: string): boolean {
  try {
    moduleRef.get(interceptorToken(instance), { strict: false });
    return true;
  } catch {
    return false;
  }
}
