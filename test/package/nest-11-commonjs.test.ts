/** The package in a Nest 11 application as most are today: CommonJS, ts-jest, the old resolution of types, ioredis 5.4. */
import { cp, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { startRedis } from '../support/redis-server.js';
import { forAll } from '../support/started.js';
import { Application } from './application.js';
import { pack } from './packed.js';

const LOCKED = { paid: 20, atOnce: 1, fencesRise: true, busy: 423, health: 'ok', oneCopy: true };

describe('a Nest 11 CommonJS application', () => {
  const packed = forAll(pack);
  const redis = forAll(startRedis);
  const app = forAll(() => Application.install('nest-11-commonjs', [packed.tarball]));

  it('installs it without a conflict of peers', async () => {
    expect(app.installed.output).not.toMatch(/ERESOLVE|conflicting peer/i);
    const { exitCode, output } = await app.run('npm', ['ls', '@nestjs/core', 'ioredis', 'nestjs-holdfast']);
    expect({ exitCode, output }).toEqual({ exitCode: 0, output: expect.stringMatching(/@nestjs\/core@11\.[^]*ioredis@5\.4\./) });
  });

  it('compiles, with and without the resolution of exports, and without strict, as many applications are', async () => {
    expect(await app.run('npm', ['run', 'build'])).toMatchObject({ exitCode: 0 });
    for (const flags of [['--module', 'node16', '--moduleResolution', 'node16'], ['--strict', 'false']]) {
      const { exitCode, output } = await app.run('node', ['node_modules/typescript/bin/tsc', '--noEmit', ...flags]);
      expect({ exitCode, output }).toEqual({ exitCode: 0, output: '' });
    }
  });

  it('locks in one process, by HTTP, and ends by itself', async () => expect(await app.seen('node', ['dist/main.js'])).toEqual(LOCKED));

  it('locks on Redis, by HTTP, and ends by itself', async () => {
    expect(await app.seen('node', ['dist/main.js'], { REDIS_URL: redis.url })).toEqual(LOCKED);
  });

  it('passes its own unit tests under jest, with the testing entry', async () => {
    const { exitCode, output } = await app.run('npm', ['test']);
    expect({ exitCode, output }).toEqual({ exitCode: 0, output: expect.stringContaining('4 passed') });
  });

  it('leaves what it does not use out of its bundle', async () => {
    expect(await app.run('node', ['bundle-error.js'])).toMatchObject({ exitCode: 0 });
    const bundle = await readFile(join(app.folder, 'bundle', 'error.mjs'), 'utf8');
    expect(bundle).toContain('LockTimeoutError');
    expect(bundle).not.toMatch(/redis\.call|class LockService|class LockModule/);
  });

  it('locks as one minified file with mangled names, where nothing is installed', async () => {
    expect(await app.run('npm', ['run', 'bundle'])).toMatchObject({ exitCode: 0 });
    const elsewhere = await mkdtemp(join(tmpdir(), 'holdfast-bundle-'));
    try {
      const file = join(elsewhere, 'main.js');
      await cp(join(app.folder, 'bundle', 'main.js'), file);
      const seen = { ...LOCKED, oneCopy: 'not installed here' };
      expect(await app.seen('node', [file])).toEqual(seen);
      expect(await app.seen('node', [file], { REDIS_URL: redis.url })).toEqual(seen);
    } finally {
      await rm(elsewhere, { recursive: true });
    }
  });

  /** swc keeps the folder of the sources when tsconfig.json names a rootDir. */
  it.each([['swc', 'dist/src/main.js'], ['webpack', 'dist/main.js']])('locks when the builder is %s', async (builder, main) => {
    expect(await app.run('npx', ['nest', 'build', '--builder', builder])).toMatchObject({ exitCode: 0 });
    expect(await app.seen('node', [main])).toEqual(LOCKED);
    expect(await app.seen('node', [main], { REDIS_URL: redis.url })).toEqual(LOCKED);
  });
});
