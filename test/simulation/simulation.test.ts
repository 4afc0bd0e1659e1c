/** Twenty seeded worlds, and what makes a seed worth printing: it is the same run again. */
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { describe, expect, it } from '@jest/globals';

const SEEDS = 20;
const STORE_CALLS = 200;
const root = fileURLToPath(new URL('../..', import.meta.url));

/** What `npm run simulate` prints in the end, or all of it when it fails. */
async function simulateAll(...args: string[]): Promise<string> {
  const ended = promisify(execFile)(process.execPath, ['scripts/simulate.mjs', ...args], { cwd: root, maxBuffer: 2 ** 26 });
  return ended.then(({ stdout }) => stdout, ({ stdout, stderr }: { stdout: string; stderr: string }) => `${stdout}\n${stderr}`);
}

describe('the simulation', () => {
  it(`finds no promise broken in ${SEEDS} seeds of at least ${STORE_CALLS} store calls`, async () => {
    const printed = await simulateAll('--seeds', String(SEEDS), '--calls', String(STORE_CALLS), '--workers', '2');
    const [, seeds, least] = /^(\d+) seeds, \d+ failures: .* \(at least (\d+) in a seed\)/m.exec(printed) ?? [];
    const failed = [...printed.matchAll(/^seed \d+ \(.*$/gm)];
    expect({ seeds, failed, printed }).toEqual({ seeds: String(SEEDS), failed: [], printed });
    expect(Number(least)).toBeGreaterThanOrEqual(STORE_CALLS);
  });

  it.each([
    ['single', 'server'],
    ['redlock', 'storm'],
  ])('is the same run again with the same seed, alone or behind another (%s, %s)', async (topology, profile) => {
    const run = (...seeds: string[]): Promise<string> => simulateAll(...seeds, '--topology', topology, '--profile', profile, '--account', '--workers', '1');
    const [alone, behind] = await Promise.all([run('--seed', '23'), run('--from', '22', '--seeds', '2')]);
    const account = alone.slice(0, alone.lastIndexOf('1 seeds, '));
    expect(account.split('\n').length).toBeGreaterThan(STORE_CALLS);
    expect(behind.indexOf(account)).toBeGreaterThan(account.length / 4);
  });
});
