/** The side of a driven process: what its script imports to load the built package and to answer the calls of its test. */
import { pathToFileURL } from 'node:url';
import { Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';

/** What the test gave to the script. */
export const given = JSON.parse(process.argv[2]);

/** Loads a file of the built package. */
export function load(path = 'index.js') {
  return import(new URL(path, pathToFileURL(process.env.HOLDFAST_PACKAGE)));
}

/** Answers each call by the verb that it names, and tells the test that the process is ready. */
export function answerCalls(verbs) {
  process.on('message', async ({ call, verb, args }) => {
    try {
      const result = await verbs[verb](args);
      if (process.connected) process.send({ call, result });
    } catch ({ name, code, key, message, stack }) {
      if (process.connected) process.send({ call, error: { name, code, key, message, stack } });
    }
  });
  process.on('unhandledRejection', (error) => {
    console.error('unhandled rejection', error);
    process.exit(70);
  });
  process.send({ ready: true });
}

/**
 * Boots an application of a lock module and these providers, answers calls by the verbs that `verbsOf` makes of it, and closes it at the call
 * `close` or the signal of an orchestrator. The process must end by itself then.
 */
export async function serve(LockModule, providers, verbsOf) {
  class App {}
  Module({ imports: [LockModule.forRoot({ client: process.env.HOLDFAST_TEST_CLIENT ?? 'ioredis', ...given.options })], providers })(App);
  const app = await NestFactory.createApplicationContext(App, { logger: ['error'], abortOnError: false });
  const close = async () => {
    await app.close();
    process.disconnect();
  };
  // Not Nest's own hooks: they end the process with the signal, and it has to end by itself.
  process.once('SIGTERM', close);
  answerCalls({ ...verbsOf(app), close });
}
