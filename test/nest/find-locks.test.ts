/** How the board, the telemetry and the health indicator find the LockService of a lock module. */
import { describe, expect, it } from '@jest/globals';
import type { ModuleRef } from '@nestjs/core';
import { LockService, LockUsageError } from '../../lib/index.js';
import { findLocks } from '../../lib/nest/lock-names.js';
import { interceptorToken, locksToken } from '../../lib/nest/lock-names.js';

/** An application in which these are found, wherever they are imported. */
function application(found: Map<unknown, object>): ModuleRef {
  const get = (token: unknown, options: unknown): object => {
    expect(options).toEqual({ strict: false });
    const one = found.get(token);
    if (one === undefined) throw new Error('Nest could not find it');
    return one;
  };
  return { get } as unknown as ModuleRef;
}

describe('The LockService of a lock module', () => {
  const [own, billing] = [{ events: 'own' }, { events: 'billing' }];
  const modules = application(new Map<unknown, object>([[LockService, own], [locksToken('billing'), billing], [locksToken('double'), { withLock: () => undefined }]]));

  it('is found by the name of the module', () => {
    expect(findLocks(modules, 'default', 'The board', 'events')).toBe(own);
    expect(findLocks(modules, 'billing', 'The board', 'events')).toBe(billing);
  });

  it('is missed in words, with what Nest said as the cause', () => {
    const cause = new Error('Nest could not find it');
    expect(() => findLocks(modules, 'other', 'The board', 'events')).toThrow(
      new LockUsageError(`The board needs lock module 'other', but the application imports no such module.`, { cause }),
    );
  });

  it('of another copy of the package is named as that', () => {
    const foreign = application(new Map<unknown, object>([[class LockService {}, own], [interceptorToken('default'), {}]]));
    expect(() => findLocks(foreign, 'default', 'The board', 'events')).toThrow(
      "The board needs lock module 'default', which the application imports from another copy of nestjs-holdfast: its LockService is another class.",
    );
  });

  it('is none where an object without what is needed stands in its place', () => {
    expect(() => findLocks(modules, 'double', 'The board', 'events')).toThrow(
      new LockUsageError(`The board needs a LockService, but an object without 'events' stands in its place. Use TestLocks, or leave The board out.`),
    );
  });
});
