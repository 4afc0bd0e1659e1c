/** The package in an application as `nest new` of Nest 12 makes it (ES modules, Vitest), with node-redis, on Express and on Fastify. */
import { beforeAll, describe, expect, it } from '@jest/globals';
import { startRedis } from '../support/redis-server.js';
import { forAll } from '../support/started.js';
import { Application } from './application.js';
import { pack } from './packed.js';
import { BUN_PACKAGE, BUN_PROGRAM } from './peers.js';

const PACKAGES = ['redis@6', '@nestjs/platform-fastify@12', '@swc/cli@0.8', '@swc/core@1.16.18', '@rspack/core@2', 'webpack-node-externals@3', 'tsconfig-paths-webpack-plugin@4', BUN_PACKAGE];
const PLATFORMS = ['express', 'fastify', 'lenient fastify'];
/** A page and the three files that it loads. */
const PAGE = [200, 200, 200, 200];

const seenOn = (platform: string) => ({
  platform, paid: 20, atOnce: 1, fencesRise: true, carts: 20, busy: [423, true], filledAfterOneLeft: 1, boards: [PAGE, PAGE, PAGE], events: true,
});

describe('an application that `nest new` made', () => {
  const packed = forAll(pack);
  const redis = forAll(startRedis);
  const app = forAll(() => Application.make('nest-12-default', [packed.tarball, ...PACKAGES]));

  it('passes its unit tests under Vitest, with the testing entry', async () => {
    const { exitCode, output } = await app.run('npm', ['test'], { NO_COLOR: '1' });
    expect({ exitCode, output }).toEqual({ exitCode: 0, output: expect.stringMatching(/Tests +4 passed/) });
  });

  it('passes its end-to-end tests under Vitest, on Redis', async () => {
    const { exitCode, output } = await app.run('npm', ['run', 'test:e2e'], { NO_COLOR: '1', REDIS_URL: redis.url });
    expect({ exitCode, output }).toEqual({ exitCode: 0, output: expect.stringMatching(/Tests +2 passed/) });
  });

  describe.each(['tsc', 'swc', 'rspack'])('built by %s', (builder) => {
    beforeAll(async () => {
      const { exitCode, output } = await app.run('npx', ['nest', 'build', '--builder', builder]);
      if (exitCode !== 0) throw new Error(output);
    });

    it.each(PLATFORMS)('locks by HTTP on %s, embedded and on Redis, with its interceptor, its filter and its board', async (platform) => {
      expect(await app.seen('node', ['dist/main.js'], { PLATFORM: platform })).toEqual(seenOn(platform));
      expect(await app.seen('node', ['dist/main.js'], { PLATFORM: platform, REDIS_URL: redis.url })).toEqual(seenOn(platform));
    });
  });

  it.each(PLATFORMS)('run by Bun from its sources, locks by HTTP on %s as under Node', async (platform) => {
    expect(await app.seen(BUN_PROGRAM, ['src/main.ts'], { PLATFORM: platform })).toEqual(seenOn(platform));
    expect(await app.seen(BUN_PROGRAM, ['src/main.ts'], { PLATFORM: platform, REDIS_URL: redis.url })).toEqual(seenOn(platform));
  });
});
