/** A Nest application with the built package that hands holds off and adopts them, and tells the test (test/faults/tickets.test.ts) what it had and when. */
import 'reflect-metadata';
import { Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { answerCalls, given, load } from './answer-calls.mjs';

const { LockModule, LockService } = await load();

class App {}
Module({ imports: [LockModule.forRoot({ client: process.env.HOLDFAST_TEST_CLIENT ?? 'ioredis', ...given.options })] })(App);

/** What all processes of this machine measure time with, in ms. */
const now = () => Number(process.hrtime.bigint()) / 1e6;
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const die = () => process.kill(process.pid, 'SIGKILL');

/** Works under a lease for as long as it is trusted, but not long. Tells from when to when it was, and whether it saw the end. */
async function work(lease, ms) {
  const told = { key: lease.key, fence: lease.fence, from: now(), until: now() };
  for (const end = now() + ms; lease.remainingMs > 0 && now() < end; await sleep(1)) told.until = now();
  return told;
}

const verbs = {
  /** Takes a lock and hands it off. With `dies` it is killed when the ticket was made, and nobody hears of it. */
  async give({ key, withinMs, dies }) {
    const lease = await locks.acquire(key, { waitMs: 30_000 });
    const hold = await work(lease, 1);
    const ticket = await lease.handOff({ withinMs });
    if (dies) die();
    return { hold, ticket };
  },
  /** Adopts a hold, works under it and releases it. With `dies` it is killed while it asks, or while it works. */
  async adopt({ ticket, dies }) {
    if (dies === 'asking') setTimeout(die, 0);
    const lease = await locks.adopt(ticket, { waitMs: 5_000 });
    if (dies) die();
    const hold = await work(lease, 2);
    await lease.release();
    return hold;
  },
  /** Takes one job of a BullMQ queue, adopts its ticket and is killed: `while` it works under the hold, or `after` it has handed it back. */
  async job({ queue, port, dies }) {
    const { Worker } = await import('bullmq');
    const process = async ({ data: { ticket } }) => {
      const fails = async () => {
        if (dies === 'while') die();
        throw new Error('the provider failed');
      };
      await locks.withAdopted(ticket, { onError: 'handBack', withinMs: 30_000, leaseMs: 2_000 }, fails).catch(die);
    };
    new Worker(queue, process, { connection: { host: '127.0.0.1', port }, lockDuration: 500, stalledInterval: 100 });
  },
  /** Takes a lock as everybody does. */
  async take({ key, waitMs }) {
    const lease = await locks.acquire(key, { waitMs });
    const hold = await work(lease, 1);
    await lease.release();
    return hold;
  },
  async close() {
    await app.close();
    process.disconnect();
  },
};

const app = await NestFactory.createApplicationContext(App, { logger: ['error'], abortOnError: false });
const locks = app.get(LockService);
answerCalls(verbs);
