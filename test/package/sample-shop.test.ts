/** `npm start -- --once` as a newcomer runs it: what it prints, and that it ends by itself. */
import { fileURLToPath } from 'node:url';
import { beforeAll, describe, expect, it } from '@jest/globals';
import { runToItsEnd, type EndedProgram } from '../support/ended-program.js';
import { startRedis } from '../support/redis-server.js';
import { forAll } from '../support/started.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const LONGEST_MS = 600_000;

/** Runs a command in the repository; its whole process group is killed when it does not end. */
function run(command: string, args: readonly string[], redisUrl: string): Promise<EndedProgram> {
  return runToItsEnd(command, args, { cwd: ROOT, env: { ...process.env, REDIS_URL: redisUrl, NODE_OPTIONS: '', PORT: '' }, longestMs: LONGEST_MS });
}

/** What the row of the flash sale that begins like this says. */
function row(output: string, name: string): { sold: number; oversold: number } {
  const [, sold, oversold] = new RegExp(`${name}\\s+(\\d+)\\s+(\\d+)`).exec(output) ?? [];
  return { sold: Number(sold), oversold: Number(oversold) };
}

function expectHonestTour({ exitCode, output }: EndedProgram): void {
  expect({ exitCode, output }).toEqual({ exitCode: 0, output: expect.stringContaining('Flash sale') });
  expect(row(output, 'with @Locked')).toEqual({ sold: 40, oversold: 0 });
  expect(row(output, 'without a lock').oversold).toBeGreaterThan(0);
}

describe('npm start -- --once', () => {
  let started: EndedProgram;

  const redis = forAll(startRedis);
  beforeAll(async () => {
    started = await run('npm', ['start', '--', '--once'], '');
  });

  it('builds, shows that the lock sells nothing twice and no lock does, and ends by itself', () => {
    expectHonestTour(started);
  });

  it('can be read on one screen', () => {
    const tour = started.output.slice(started.output.indexOf('Holdfast sample shop'));
    expect(tour.trim().split('\n').length).toBeLessThan(40);
  });

  it('says the same with three processes on one Redis', async () => {
    const shared = await run(process.execPath, ['build/sample-app/main.js', '--once'], redis.url);
    expectHonestTour(shared);
    expect(shared.output).toContain('3 processes');
  });
});
