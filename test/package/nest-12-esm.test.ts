/** The package in a Nest 12 application of ES modules: jest in ESM mode, exact types, ioredis 6. */
import { describe, expect, it } from '@jest/globals';
import { startRedis } from '../support/redis-server.js';
import { forAll } from '../support/started.js';
import { Application } from './application.js';
import { pack } from './packed.js';

const LOCKED = { paid: 20, steps: ['2.0', '2.1', '2.2'], atOnce: 1, fencesRise: true, busy: true, oneCopy: true, released: 'released', leftOver: false };

describe('a Nest 12 application of ES modules', () => {
  const packed = forAll(pack);
  const redis = forAll(startRedis);
  const app = forAll(() => Application.install('nest-12-esm', [packed.tarball]));

  it('installs it without a conflict of peers', async () => {
    expect(app.installed.output).not.toMatch(/ERESOLVE|conflicting peer/i);
    const { exitCode, output } = await app.run('npm', ['ls', '@nestjs/core', 'ioredis', 'nestjs-holdfast']);
    expect({ exitCode, output }).toEqual({ exitCode: 0, output: expect.stringMatching(/@nestjs\/core@12\.[^]*ioredis@6\./) });
  });

  it('compiles under nodenext, and as bundlers resolve types', async () => {
    expect(await app.run('npm', ['run', 'build'])).toMatchObject({ exitCode: 0 });
    const { exitCode, output } = await app.run('node', ['node_modules/typescript/bin/tsc', '--noEmit', '--module', 'esnext', '--moduleResolution', 'bundler']);
    expect({ exitCode, output }).toEqual({ exitCode: 0, output: '' });
  });

  it('locks in one process and ends by itself; an error is of one class by import and by require', async () => {
    expect(await app.seen('node', ['dist/main.js'])).toEqual(LOCKED);
  });

  it('locks on Redis, leaves no lock there, and ends by itself', async () => {
    expect(await app.seen('node', ['dist/main.js'], { REDIS_URL: redis.url })).toEqual(LOCKED);
  });

  it('is not changed by loading the package', async () => expect(await app.seen('node', ['effects.mjs'])).toEqual([]));

  it('finds the command `holdfast`, which says its version and looks into Redis', async () => {
    expect(await app.run('npx', ['--no-install', 'holdfast', '--version'])).toMatchObject({ exitCode: 0, stdout: expect.stringMatching(/^\d+\.\d+\.\d+/) });
    const { exitCode, output } = await app.run('npx', ['--no-install', 'holdfast', 'list', '--redis', redis.url]);
    expect({ exitCode, output }).toEqual({ exitCode: 1, output: expect.stringContaining('No lock is held') });
  });

  it('passes its own unit tests under jest in ESM mode, with the testing entry', async () => {
    const { exitCode, output } = await app.run('npm', ['test']);
    expect({ exitCode, output }).toEqual({ exitCode: 0, output: expect.stringContaining('4 passed') });
  });
});
