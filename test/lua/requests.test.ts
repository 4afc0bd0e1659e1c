/** What stands on the wire of a request that was built by name, and of a reply that is read by name: processes of two releases of one format version share locks. */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from '@jest/globals';
import { FIRST_LEASE_MS, MAX_HOLDS_OF_OWNER } from '../../lib/core/port/lock-store.js';
import { WAITER_LEASE_MS } from '../../lib/stores/memory/lock-machine.js';
import { FenceFloors } from '../../lib/stores/redis/remote-redis.js';
import * as scripts from '../../lib/stores/wire/lua.generated.js';
import { NO_SERVER, USUAL_LEASE_MS } from '../../lib/stores/wire/redis-keys.js';
import { listOf } from '../../lib/stores/wire/store-failure.js';

const on = { lockKey: 'L', queueKey: 'Q', fenceKey: 'F' };
const acquire = { id: 'p.1', mode: 'write', leaseMs: 30_000, queue: true, needsListener: false, plain: true, takes: 'nothing', notAfter: 9_999_999_999_999, floor: 0, fences: 1, minHoldMs: 0, graceMs: 0, recoveryMs: 900, known: '-'.repeat(30) } as const;
const known = 'f00dcafef00dcafe:1790000000000';
const named = { owner: 'saga 7', label: '-' };

describe('a request of format version 3', () => {
  it.each([
    ['acquire', scripts.acquireCall(on, acquire), 'L Q F', ['w101n 9999999999999 0000000000000000 ------------------------------ 31000 p.1 - - 1 0 0 900 - - -']],
    [
      'acquire with all that can be said',
      scripts.acquireCall(on, { ...acquire, ...named, mode: 'read', queue: false, needsListener: true, plain: false, takes: 'permit', notAfter: 1, floor: 70, known, fences: 16, minHoldMs: 900, graceMs: 400, replaces: 'p.0' }),
      'L Q F', ['r010p 0000000000001 0000000000000070 f00dcafef00dcafe:1790000000000 31000 p.1 saga%207 %2D 16 900 400 900 p.0 - -'],
    ],
    [
      'acquire of a hold that a ticket takes', scripts.acquireCall(on, { ...acquire, id: 'p.=t', queue: false, plain: false, takes: 'hold', replaces: 'p.1' }),
      'L Q F', ['w000h 9999999999999 0000000000000000 ------------------------------ 31000 p.=t - - 1 0 0 900 p.1 - -'],
    ],
    ['release', scripts.releaseCall(on, { id: 'p.1', mayBeOver: true, floor: 70, abandoned: false, recoveryMs: 900, known }), 'L Q F', [`10 p.1 70 900 ${known} -`]],
    ['release of what was never used', scripts.releaseCall(on, { id: 'p.1', mayBeOver: false, floor: 0, abandoned: true, recoveryMs: 900, known }), 'L Q F', [`01 p.1 0 900 ${known} -`]],
    ['renew', scripts.renewCall({ lockKeys: ['L', 'K'] }, { runs: [{ leaseMs: 900, ids: 'p.1 p.2' }, { leaseMs: 800, ids: 'p.3' }] }), 'L K', [900, 'p.1 p.2', 800, 'p.3']],
    ['downgrade', scripts.downgradeCall(on, { id: 'p.1', floor: 70, recoveryMs: 900 }), 'L Q F', ['p.1', 70, 900]],
    ['force-release of one', scripts.forceReleaseCall(on, { fence: 69, notAfter: 80, floor: 70, recoveryMs: 900 }), 'L Q F', [69, 80, 70, 900]],
    ['force-release of all', scripts.forceReleaseCall(on, { notAfter: 80, floor: 70, recoveryMs: 900 }), 'L Q F', ['', 80, 70, 900]],
    ['recall', scripts.recallCall({ keys: [{ fenceKey: 'F' }, { fenceKey: 'G' }] }, { process: 'p', recoveryMs: 900, groups: [{ floor: 70, holds: true }, { floor: 0, holds: false }] }), 'F G', ['p', 900, 70, 1, 0, 0]],
    [
      'bring-back',
      scripts.bringBackCall(on, { ...named, id: 'p.1', mode: 'write', notAfter: 80, leaseMs: 700, fence: 69, fences: 2, minHoldMs: 0, graceMs: 400, recoveryMs: 900, knownBy: known, ticketId: 'o.=t' }),
      'L Q F', ['p.1', `w 80 700 69 2 0 400 900 ${known} o.=t`, 'saga%207 %2D'],
    ],
    ['inspect', scripts.inspectCall(on), 'L Q', []],
    ['acquire as a vote', scripts.acquireCall(on, { ...acquire, id: 'p.1/1', queue: false, takes: 'floor', floor: 70, mark: 'w,9,50,p.1' }), 'L Q F', [`w001f 9999999999999 0000000000000070 ${'-'.repeat(30)} 31000 p.1/1 - - 1 0 0 900 - - w,9,50,p.1`]],
    ['admit', scripts.admitCall({ fenceKeys: ['F'] }, { maxLeaseMs: 60_000, since: 5, floors: [70] }), 'F', [60_000, 5, 70]],
    ['fenced-write', scripts.fencedWriteCall({ dataKey: 'D' }, { fence: 70, fields: ['state', 'paid'] }), 'D', [70, 'state', 'paid']],
  ])('stands on the wire in the order of the header: %s', (_, { keys, args }, redisKeys, said) => {
    expect(keys.join(' ')).toBe(redisKeys);
    expect(args).toEqual(said);
  });
});

describe('a reply of format version 3', () => {
  it.each([
    ['acquire', scripts.readAcquire([1, 5, 70, 16, 0, 905, 1]), { kind: 'granted', now: 5, fence: 70, fences: 16, mode: 'read', end: 905, contended: true }],
    [
      'acquire from a ticket', scripts.readAcquire([9, 5, 70, 1, 1, 905, 0, known, 'saga%207', 0, 80]),
      { kind: 'taken', now: 5, fence: 70, fences: 1, mode: 'write', end: 905, contended: false, memory: known, owner: 'saga 7', permits: 0, minHoldMs: 80 },
    ],
    ['acquire of a lock that is held', scripts.readAcquire([3, 5, 900, '-']), { kind: 'busy', now: 5, leftMs: 900, holds: '-' }],
    ['renew', scripts.readRenew([5, [[2, -1, 0]]]), { now: 5, leases: [{ position: 2, left: -1, contended: false }] }],
    [
      'inspect', scripts.readInspect(['w', [['p.1', 70, 'saga%207', 900, '-', 400]], [['q.1', 'r', 'a']]]),
      { phase: 'w', holders: [{ id: 'p.1', fence: 70, owner: 'saga 7', leftMs: 900, label: undefined, graceMs: 400 }], waiters: [{ id: 'q.1', mode: 'read', label: 'a' }] },
    ],
  ])('is read by the names of the header: %s', (_, told, expected) => expect(told).toEqual(expected));

  it('that no script gives is an error, and so is what the server refused', () => {
    expect(() => scripts.readAcquire([15, 5])).toThrow('the server gave an answer that no script of this library gives: [15,5]');
    expect(() => listOf(['refused', 'WRONGTYPE'])).toThrow('WRONGTYPE');
  });
});

// Limits stand in the scripts and in TypeScript: one that is changed in one place only must be noticed.

/** What a line `local NAME = value` of a shared file says. */
function inLua(file: string, name: string): string | undefined {
  const text = readFileSync(fileURLToPath(new URL(`../../lib/stores/wire/lua/shared/${file}.lua`, import.meta.url)), 'utf8');
  return new RegExp(`^local ${name} = '?([^'\\s]+)'?(?: --.*)?$`, 'm').exec(text)?.[1];
}

/** The highest fence that a process believes it has seen. */
function highestFloor(): number {
  const floors = new FenceFloors();
  floors.saw(0, Infinity);
  return floors.highest[0]!;
}

describe('A limit of the wire format', () => {
  it.each<[string, string, number | string]>([
    ['limits', 'WAITER_LEASE_MS', WAITER_LEASE_MS],
    ['limits', 'FIRST_LEASE_MS', FIRST_LEASE_MS],
    ['limits', 'MAX_HOLDS_OF_OWNER', MAX_HOLDS_OF_OWNER],
    ['limits', 'USUAL_LEASE_MS', USUAL_LEASE_MS],
    ['limits', 'HIGHEST_FLOOR', highestFloor()],
    ['memory', 'NO_SERVER', NO_SERVER],
  ])('is the same in shared/%s.lua and in TypeScript: %s', (file, name, value) => expect(inLua(file, name)).toBe(String(value)));
});
