/** The side of a driven process: what its script imports to load the built package and to answer the calls of its test. */
import { pathToFileURL } from 'node:url';

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
