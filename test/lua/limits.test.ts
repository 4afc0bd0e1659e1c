/** Limits of the wire format that stand in the scripts and in TypeScript: one that is changed in one place only must be noticed. */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from '@jest/globals';
import { FIRST_LEASE_MS, MAX_HOLDS_OF_OWNER } from '../../lib/core/port/lock-store.js';
import { WAITER_LEASE_MS } from '../../lib/stores/memory/lock-machine.js';
import { FenceFloors } from '../../lib/stores/redis/server-view.js';
import { NO_SERVER, USUAL_LEASE_MS } from '../../lib/stores/wire/redis-keys.js';

/** What a line `local NAME = value` of a shared file says. */
function inLua(file: string, name: string): string | undefined {
  const text = readFileSync(fileURLToPath(new URL(`../../lib/stores/wire/lua/shared/${file}.lua`, import.meta.url)), 'utf8');
  return new RegExp(`^local ${name} = '?([^'\\s]+)'?(?: --.*)?$`, 'm').exec(text)?.[1];
}

/** The highest fence that a process believes it has seen. */
function highestFloor(): number {
  const floors = new FenceFloors();
  floors.saw(0, Infinity);
  return floors.of(0);
}

describe('A limit of the wire format', () => {
  it.each<[string, string, number | string]>([
    ['limits', 'WAITER_LEASE_MS', WAITER_LEASE_MS],
    ['limits', 'FIRST_LEASE_MS', FIRST_LEASE_MS],
    ['limits', 'MAX_HOLDS_OF_OWNER', MAX_HOLDS_OF_OWNER],
    ['limits', 'USUAL_LEASE_MS', USUAL_LEASE_MS],
    ['limits', 'HIGHEST_FLOOR', highestFloor()],
    ['memory', 'NO_SERVER', NO_SERVER],
  ])('is the same in shared/%s.lua and in TypeScript: %s', (file, name, value) => {
    expect(inLua(file, name)).toBe(String(value));
  });
});
