/** Redis away, with every version of ioredis that users have: what an application sees of it, and the program `holdfast`. */
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from '@jest/globals';
import type { EndedProgram } from '../support/ended-program.js';
import { eventually } from '../support/eventually.js';
import { startFlakyProxy } from '../support/flaky-proxy.js';
import { startRedis } from '../support/redis-server.js';
import { forAll, forEachTest } from '../support/started.js';
import { Application } from './application.js';
import { pack } from './packed.js';
import { IOREDIS_VERSIONS } from './peers.js';

const BOOT_TIMEOUT_MS = 2_000;
const OUTAGE_MS = 300;

const packed = forAll(pack);
const redis = forAll(startRedis);
const proxy = forEachTest(() => startFlakyProxy(redis.port), () => redis.resume());

describe.each(IOREDIS_VERSIONS)('With ioredis %s an application', (version) => {
  const app = forAll(() => Application.install('smoke', [packed.tarball, '@nestjs/common@12', '@nestjs/core@12', `ioredis@${version}`]));

  /** `react` may cause what the application is to go through, when it has printed a line. */
  function boots(then: 'hold' | 'end', react: Readonly<Record<string, () => unknown>> = {}): Promise<EndedProgram> {
    const env = { REDIS_URL: proxy.url, BOOT_TIMEOUT_MS: String(BOOT_TIMEOUT_MS) };
    return app.run(process.execPath, ['outage.cjs', then], env, (line) => react[line]?.());
  }

  it('is served again after its connections were accepted and closed for a while', async () => {
    const { output, exitCode } = await boots('hold', {
      up: async () => {
        proxy.hangUp();
        await sleep(OUTAGE_MS);
        proxy.pickUp();
      },
    });
    expect({ output, exitCode }).toEqual({ output: 'up\nrefused\nserved again\n', exitCode: 0 });
  });

  it('is served again after Redis was frozen', async () => {
    const { output, exitCode } = await boots('hold', { up: () => redis.pause(), refused: () => redis.resume() });
    expect({ output, exitCode }).toEqual({ output: 'up\nrefused\nserved again\n', exitCode: 0 });
  });

  it('boots when its endpoint serves in time', async () => {
    proxy.hangUp();
    const booted = boots('end');
    await eventually(() => expect(proxy.accepted).toBeGreaterThan(2));
    proxy.pickUp();
    expect(await booted).toMatchObject({ output: 'up\n', exitCode: 0 });
  });

  it.each([
    ['accepts connections and closes them', () => proxy.hangUp()],
    ['is frozen', () => redis.pause()],
  ])('ends its boot with an error, and `holdfast list` too, while Redis %s', async (_, fail) => {
    await fail();
    expect(await boots('end')).toMatchObject({ exitCode: 1, output: expect.stringMatching(new RegExp(`127\\.0\\.0\\.1:${proxy.port}.*${BOOT_TIMEOUT_MS} ms`)) });
    const listed = await app.run('npx', ['holdfast', 'list', '--redis', proxy.url]);
    expect(listed).toMatchObject({ exitCode: 3, stdout: '', output: expect.stringContaining(`127.0.0.1:${proxy.port} cannot be reached`) });
  });
});
