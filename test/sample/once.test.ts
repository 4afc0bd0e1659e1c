/** `npm start -- --once` as a newcomer runs it: what it prints, and that it ends by itself. */
import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { startRedis, type RedisServer } from '../support/redis-server.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const LONGEST_MS = 150_000;

interface Run {
  readonly exitCode: number | null;
  readonly output: string;
}

/** Runs a command in the repository; its whole process group is killed when it does not end. */
async function run(command: string, args: readonly string[], redisUrl: string): Promise<Run> {
  const env = { ...process.env, REDIS_URL: redisUrl, NODE_OPTIONS: '', PORT: '' };
  const child = spawn(command, args, { cwd: ROOT, env, detached: true, stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  child.stdout.on('data', (chunk) => (output += String(chunk)));
  child.stderr.on('data', (chunk) => (output += String(chunk)));
  const watch = setTimeout(() => child.pid !== undefined && process.kill(-child.pid, 'SIGKILL'), LONGEST_MS);
  const exitCode = await new Promise<number | null>((resolve, reject) => {
    child.on('close', resolve).on('error', reject);
  });
  clearTimeout(watch);
  return { exitCode, output };
}

/** What the row of the flash sale that begins like this says. */
function row(output: string, name: string): { sold: number; oversold: number } {
  const [, sold, oversold] = new RegExp(`${name}\\s+(\\d+)\\s+(\\d+)`).exec(output) ?? [];
  return { sold: Number(sold), oversold: Number(oversold) };
}

function expectHonestTour({ exitCode, output }: Run): void {
  expect({ exitCode, output }).toEqual({ exitCode: 0, output: expect.stringContaining('Flash sale') });
  expect(row(output, 'with @Locked')).toEqual({ sold: 40, oversold: 0 });
  expect(row(output, 'without a lock').oversold).toBeGreaterThan(0);
}

describe('npm start -- --once', () => {
  let redis: RedisServer;
  let started: Run;

  beforeAll(async () => {
    redis = await startRedis();
    started = await run('npm', ['start', '--', '--once'], '');
  }, LONGEST_MS);

  afterAll(() => redis.stop());

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
  }, LONGEST_MS);
});
