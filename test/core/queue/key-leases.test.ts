/** The leases that a process has of one lock: which of them a grant shows to have ended. */
import { describe, expect, it } from '@jest/globals';
import type { StoreLease } from '../../../lib/core/lease/store-lease.js';
import type { LockMode } from '../../../lib/core/port/lock-mode.js';
import { KeyLeases } from '../../../lib/core/queue/key-leases.js';

/** The leases of these modes, in the order of their grants. */
function having(...modes: LockMode[]) {
  const granted = modes.map((mode) => ({ mode }) as StoreLease);
  const leases = new KeyLeases();
  for (const lease of granted) leases.add(lease);
  return { leases, granted };
}

describe('A lock', () => {
  it('is used by a caller of the process while one is on the lease at hand', () => {
    const leases = new KeyLeases();
    const lease = { mode: 'write', users: 0 } as { users: number } & StoreLease;
    const isUsed = [leases.isUsed];
    leases.add(lease);
    isUsed.push(leases.isUsed);
    Object.assign(lease, { users: 1 });
    isUsed.push(leases.isUsed);
    leases.remove(lease);
    expect([...isUsed, leases.isUsed]).toEqual([false, false, true, false]);
  });
});

describe('A grant of a lock of which the process has leases', () => {
  it('to write shows that all of them have ended', () => {
    const { leases, granted } = having('read', 'read', 'read');
    expect(leases.takeEndedBy('write')).toStrictEqual(granted);
    expect([leases.count, leases.current]).toStrictEqual([0, undefined]);
  });

  it('to write shows it also of earlier ones, when the one to which callers were admitted is gone', () => {
    const { leases, granted: [first, last] } = having('read', 'read');
    leases.remove(last!);
    expect(leases.takeEndedBy('write')).toStrictEqual([first]);
    expect(leases.count).toBe(0);
  });

  it('to read shows it of one that wrote, and of no other', () => {
    const reading = having('read', 'read').leases;
    expect(reading.takeEndedBy('read')).toStrictEqual([]);
    expect(reading.count).toBe(2);
    const { leases, granted } = having('write');
    expect(leases.takeEndedBy('read')).toStrictEqual(granted);
    expect(leases.count).toBe(0);
  });
});
