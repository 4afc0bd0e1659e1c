/** What ends when: a process that has nothing to do but to wait for a lock. Each is a process of its own, with the built package. */
import { describe, expect, it } from '@jest/globals';
import { builtPackage } from '../support/built-package.js';
import { runToItsEnd, type EndedProgram } from '../support/ended-program.js';
import { startRedis } from '../support/redis-server.js';
import { forAll } from '../support/started.js';

const LONGEST_MS = 30_000;

const server = forAll(startRedis);

/** Runs a program that has `locks`, of a lock module with these options, and neither closes it nor exits. */
function run(options: object, program: string): Promise<EndedProgram> {
  const source = `
    import 'reflect-metadata';
    import { Module } from '@nestjs/common';
    import { NestFactory } from '@nestjs/core';
    import { LockModule, LockService } from ${JSON.stringify(builtPackage())};
    class App {}
    Module({ imports: [LockModule.forRoot(${JSON.stringify(options)})] })(App);
    const app = await NestFactory.createApplicationContext(App, { logger: false });
    const locks = app.get(LockService);
    ${program}`;
  return runToItsEnd(process.execPath, ['--input-type=module', '--eval', source], { env: { ...process.env, NODE_OPTIONS: '' }, longestMs: LONGEST_MS });
}

describe('A process that does nothing but wait for a lock', () => {
  it('lives until it has the lock, and ends by itself when no call waits', async () => {
    const { exitCode, output } = await run(
      { embedded: true },
      `await locks.acquire('k', { leaseMs: 500, renew: false });
       await locks.acquire('k', { waitMs: Infinity });
       console.log('has it');`,
    );
    expect({ exitCode, output }).toEqual({ exitCode: 0, output: 'has it\n' });
  });

  it.each(['ioredis', 'redis'] as const)('lives through an outage of Redis by %s, until its waitMs is over', async (client) => {
    const { exitCode, output } = await run(
      { redis: server.url, client, recoveryMs: 0 },
      `const ticket = await (await locks.acquire('handed')).handOff();
       process.kill(${server.pid}, 'SIGKILL');
       await locks.acquire('k', { waitMs: 1_500 }).catch((error) => console.log(error.code));
       await locks.adopt(ticket, { waitMs: 1_500 }).catch((error) => console.log(error.code));
       await app.close();`,
    );
    expect({ exitCode, output }).toEqual({ exitCode: 0, output: 'LOCK_STORE\nLOCK_STORE\n' });
    await server.restart({ keepData: false });
  });
});
