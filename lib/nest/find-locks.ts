/** Finds the locks of a lock module for the modules beside it: the board, the metrics, the health indicator. */
import type { ModuleRef } from '@nestjs/core';
import { LockUsageError } from '../core/port/errors.js';
import type { LockService } from '../lock.service.js';
import { locksToken } from './lock-names.js';

/** Wherever in the application it is imported. `who` asks for it. @throws LockUsageError */
export function findLocks<Asked extends Partial<LockService>>(moduleRef: ModuleRef, instance: string, who: string): Asked {
  try {
    return moduleRef.get<LockService, Asked>(locksToken(instance), { strict: false });
  } catch (cause) {
    throw new LockUsageError(`${who} needs lock module '${instance}', but the application imports no such module.`, { cause });
  }
}
