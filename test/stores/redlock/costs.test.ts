/** What a lock that nobody else wants costs on five masters: commands, counted by them, and calls, counted in a process of its own. */
import { execFile } from 'node:child_process';
import { dirname } from 'node:path';
import { promisify } from 'node:util';
import { beforeEach, describe, expect, it } from '@jest/globals';
import { systemClock } from '../../../lib/core/port/clock.js';
import { LockService } from '../../../lib/lock.service.js';
import { builtPackage } from '../../support/built-package.js';
import { admitAll, openRedlock, startVoters } from '../../support/redlock-store.js';
import { forAll } from '../../support/started.js';

const masters = forAll(() => startVoters(5));
beforeEach(() => admitAll(masters));

/** How many scripts the masters have run since their statistics were reset. */
async function scriptCalls(): Promise<number> {
  const stats = await Promise.all(masters.map((master) => master.command('INFO', 'commandstats')));
  return stats.flatMap((text) => [...String(text).matchAll(/cmdstat_eval(?:sha)?:calls=(\d+)/g)]).reduce((sum, [, calls]) => sum + Number(calls), 0);
}

/** So many callers take a lock of their own again and again. Resolves with the commands that one cycle took. */
async function commandsOf(callers: number, cycles: number): Promise<number> {
  const service = new LockService({ store: await openRedlock(masters, `p${callers}`, { clock: systemClock }), process: `p${callers}`, waitMs: 20_000 });
  const run = (turns: number): Promise<unknown> =>
    Promise.all(
      Array.from({ length: callers }, async (_, caller) => {
        for (let turn = 0; turn < turns; turn++) await service.withLock(`order:${caller}`, async () => undefined);
      }),
    );
  await run(1);
  for (const master of masters) await master.command('CONFIG', 'RESETSTAT');
  await run(cycles);
  await service.close();
  return (await scriptCalls()) / (callers * cycles);
}

describe('A lock of a Redlock that nobody else wants', () => {
  it('costs two commands to each node', async () => {
    expect(await commandsOf(1, 100)).toBe(10);
  });

  it('costs a quarter of that with 32 callers, who share commands', async () => {
    expect(await commandsOf(32, 20)).toBeLessThanOrEqual(2.5);
  });

  it('makes no more calls and promises, reads the clock no more often and sets no more timers than it did', async () => {
    const ports = masters.map(({ url }) => new URL(url).port).join(',');
    const env = { ...process.env, HOLDFAST_DIST: dirname(builtPackage()), NODE_OPTIONS: '' };
    const { stdout } = await promisify(execFile)(process.execPath, ['scripts/count-calls.mjs', ports, 'redlock', '1'], { env });
    const { calls, promises, clockReads, timersSet } = JSON.parse(stdout) as Record<string, number>;
    expect(calls).toBeGreaterThan(300);
    expect(calls).toBeLessThanOrEqual(560);
    expect(promises).toBeLessThanOrEqual(33);
    expect(clockReads).toBeLessThanOrEqual(17);
    expect(timersSet).toBeLessThanOrEqual(0.5);
  });
});
