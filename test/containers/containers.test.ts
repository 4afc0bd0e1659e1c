/**
 * Holdfast against Redis in containers: the way for machines where Docker is the only source of a server. The image is
 * redis:7, or what HOLDFAST_TEST_IMAGE names. Red, not skipped, where Docker does not answer.
 */
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { NestFactory } from '@nestjs/core';
import { Module } from '@nestjs/common';
import { LockModule, LockService } from 'nestjs-holdfast';
import { GenericContainer, Wait, type StartedTestContainer } from 'testcontainers';
import { startRedis } from '../support/redis-server.js';
import { TEST_IMAGE } from '../support/server-process.js';

const PULLING_TAKES_AT_MOST_MS = 180_000;

describe('Redis in a container', () => {
  let container: StartedTestContainer | undefined;

  beforeAll(async () => {
    container = await new GenericContainer(TEST_IMAGE)
      .withCommand(['redis-server', '--protected-mode', 'no', '--save', ''])
      .withExposedPorts(6379)
      .withWaitStrategy(Wait.forLogMessage(/Ready to accept connections/))
      .start();
  }, PULLING_TAKES_AT_MOST_MS);

  afterAll(async () => void (await container?.stop()));

  it('keeps two applications apart', async () => {
    const redis = `redis://${container!.getHost()}:${container!.getMappedPort(6379)}`;
    @Module({ imports: [LockModule.forRoot({ redis })] })
    class App {}
    const apps = await Promise.all([1, 2].map(() => NestFactory.createApplicationContext(App, { logger: ['error'] })));
    const [here, there] = apps.map((app) => app.get(LockService));
    const lease = await here!.acquire('order:1');
    expect(await there!.tryAcquire('order:1')).toBeNull();
    expect(await lease.release()).toBe('released');
    const next = await there!.acquire('order:1');
    expect(next.fence).toBeGreaterThan(lease.fence);
    await next.release();
    await Promise.all(apps.map((app) => app.close()));
  });
});

describe('a server of a test, where only Docker is there', () => {
  it('can be paused, killed and restarted as a process can', async () => {
    await using redis = await startRedis();
    expect(await redis.command('PING')).toBe('PONG');
    await redis.pause();
    const reply = redis.command('SET', 'a', 1);
    await redis.resume();
    expect(await reply).toBe('OK');
    await redis.kill();
    expect(redis.exitCode).toBeGreaterThanOrEqual(128);
    await redis.restart({ keepData: false });
    expect(await redis.command('GET', 'a')).toBeNull();
  });
});
