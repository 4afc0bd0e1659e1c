/** What tests start and stop again: `const redis = forAll(startRedis)` stands for the server that runs while the tests around it do. */
import { afterAll, afterEach, beforeAll, beforeEach } from '@jest/globals';

type Started = object & { stop(): Promise<unknown> };
type Hook = (act: () => Promise<unknown>) => void;

function standIn<T extends Started>(before: Hook, after: Hook, start: () => Promise<T>, close: () => unknown): T {
  let started: T | undefined;
  before(async () => {
    started = await start();
  });
  after(async () => {
    await close();
    await started?.stop();
  });
  const thing = (name: string | symbol): T => {
    if (started === undefined) throw new Error(`Nothing has started yet that has a ${String(name)}`);
    return started;
  };
  return new Proxy({} as T, {
    get: (_, name) => {
      const value: unknown = Reflect.get(thing(name), name);
      return typeof value === 'function' ? value.bind(started) : value;
    },
    set: (_, name, value) => Reflect.set(thing(name), name, value),
  });
}

/**
 * It is started once, and stopped behind the last test; what an `afterAll` closes before that stands above it, because these hooks run
 * in the order of the file. It cannot be used where tests are declared.
 */
export function forAll<T extends Started>(start: () => Promise<T>): T {
  return standIn(beforeAll, afterAll, start, () => undefined);
}

/** It is started for each test, and stopped behind it when `close` has ended what uses it. */
export function forEachTest<T extends Started>(start: () => Promise<T>, close: () => unknown): T {
  return standIn(beforeEach, afterEach, start, close);
}
