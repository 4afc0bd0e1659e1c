/** What one uncontended call costs in the process of its caller, counted by scripts/count-calls.mjs in a process of its own. */
import { execFile } from 'node:child_process';
import { dirname } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, it } from '@jest/globals';
import { builtPackage } from '../support/built-package.js';
import { startRedis } from '../support/redis-server.js';
import { forAll } from '../support/started.js';

interface Costs {
  readonly calls: number;
  readonly clockReads: number;
  readonly timersSet: number;
  readonly timersCleared: number;
  readonly promises: number;
}

/** What was reached: whoever needs more raises it, and says in bench/README.md what for. */
const MAX_CALLS = { withLock: 111, locked: 124 };
const MAX_CLOCK_READS = 6;
const MAX_PROMISES = { withLock: 10, locked: 11 };

const server = forAll(startRedis);

async function costsOf(way: string): Promise<Costs> {
  const env = { ...process.env, HOLDFAST_DIST: dirname(builtPackage()), NODE_OPTIONS: '' };
  const { stdout } = await promisify(execFile)(process.execPath, ['scripts/count-calls.mjs', new URL(server.url).port, way, '1'], { env });
  return JSON.parse(stdout) as Costs;
}

describe.each(['withLock', 'locked'] as const)('an uncontended call by %s', (way) => {
  it('makes no more calls and promises, reads the clock no more often and sets no more timers than it did', async () => {
    const { calls, clockReads, timersSet, timersCleared, promises } = await costsOf(way);
    expect(calls).toBeGreaterThan(100);
    expect(calls).toBeLessThanOrEqual(MAX_CALLS[way]);
    expect(Math.floor(clockReads)).toBeLessThanOrEqual(MAX_CLOCK_READS);
    expect(timersSet + timersCleared).toBe(0);
    expect(Math.floor(promises)).toBeLessThanOrEqual(MAX_PROMISES[way]);
  });
});
