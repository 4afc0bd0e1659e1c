/** The package under Bun, which runs it as it is: locks by either client, and Redis away and back. */
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from '@jest/globals';
import { startFlakyProxy, type FlakyProxy } from '../support/flaky-proxy.js';
import { startRedis } from '../support/redis-server.js';
import { forAll } from '../support/started.js';
import { Application } from './application.js';
import { pack } from './packed.js';
import { BUN_PACKAGE, BUN_PROGRAM } from './peers.js';

const OUTAGE_MS = 300;

const packed = forAll(pack);
const redis = forAll(startRedis);
const app = forAll(() => Application.install('smoke', [packed.tarball, '@nestjs/common@12', '@nestjs/core@12', 'ioredis@6', 'redis@6', BUN_PACKAGE]));
let proxy: FlakyProxy;

describe.each(['ioredis', 'redis'])('Under Bun with %s', (client) => {
  it('a decorated service locks, and the program ends by itself', async () => {
    const seen = await app.seen(BUN_PROGRAM, ['smoke.cjs'], { REDIS_URL: redis.url, REDIS_CLIENT: client });
    expect(seen).toMatchObject({ atOnce: 1, fencesRise: true, released: 'released', oneCopy: true });
  });

  it.each<[string, (act: 'begin' | 'end') => unknown]>([
    ['its connections were accepted and closed for a while', (act) => (act === 'begin' ? proxy.hangUp() : proxy.pickUp())],
    ['Redis was frozen', (act) => (act === 'begin' ? redis.pause() : redis.resume())],
  ])('an application is served again after %s', async (_, fault) => {
    proxy = await startFlakyProxy(redis.port);
    const env = { REDIS_URL: proxy.url, REDIS_CLIENT: client, BOOT_TIMEOUT_MS: '5000' };
    const acts: Readonly<Record<string, () => unknown>> = { up: () => fault('begin'), refused: () => sleep(OUTAGE_MS).then(() => fault('end')) };
    const { output, exitCode } = await app.run(BUN_PROGRAM, ['outage.cjs', 'hold'], env, (line) => acts[line]?.());
    expect({ output, exitCode }).toEqual({ output: 'up\nrefused\nserved again\n', exitCode: 0 });
    await proxy.stop();
  });
});
