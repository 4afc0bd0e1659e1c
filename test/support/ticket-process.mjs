/** A Nest application with the built package that takes a job of a BullMQ queue and dies (test/nest/bullmq-attempts.test.ts). */
import 'reflect-metadata';
import { Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { answerCalls, given, load } from './answer-calls.mjs';

const { LockModule, LockService } = await load();

class App {}
Module({ imports: [LockModule.forRoot({ client: process.env.HOLDFAST_TEST_CLIENT ?? 'ioredis', ...given.options })] })(App);

const die = () => process.kill(process.pid, 'SIGKILL');

const verbs = {
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
};

const app = await NestFactory.createApplicationContext(App, { logger: ['error'], abortOnError: false });
const locks = app.get(LockService);
answerCalls(verbs);
