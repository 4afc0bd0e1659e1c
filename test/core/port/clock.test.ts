/** A boot that has nothing but timers of the library to wait for, in a process of its own. */
import { AsyncLocalStorage } from 'node:async_hooks';
import { dirname, join } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { describe, expect, it } from '@jest/globals';
import { systemClock } from '../../../lib/core/port/clock.js';
import { builtPackage } from '../../support/built-package.js';
import { runToItsEnd } from '../../support/ended-program.js';

const clock = join(dirname(builtPackage()), 'core', 'port', 'clock.js');

/** A store that takes a while to find out that it cannot serve, and an application that says how its boot ended. */
const PROGRAM = `
  import { LockService } from '${builtPackage()}';
  import { delay, systemClock } from '${clock}';
  const store = { capabilities: {}, onWake() {}, open: () => delay(systemClock, 50).then(() => Promise.reject(new Error('no store'))) };
  void new LockService({ store, process: 'p' }).open().catch((error) => console.log(error.message));
`;

async function printed(program: string): Promise<string> {
  const { NODE_OPTIONS: _, ...env } = process.env;
  return (await runToItsEnd(process.execPath, ['--input-type=module', '--eval', program], { env })).stdout.trim();
}

describe('A boot that waits', () => {
  it('keeps its process alive until its error is told, and no longer', async () => {
    expect(await printed(PROGRAM)).toBe('no store');
  });
});

describe('What keeps the process alive while calls wait', () => {
  it('keeps nothing of the request whose call waited first, however long others wait after it', async () => {
    const requests = new AsyncLocalStorage<object>();
    const begin = (request: object): [() => void, WeakRef<object>] => [requests.run(request, () => systemClock.keepAlive()), new WeakRef(request)];
    const [letGo, request] = begin({ user: 'ann' });
    setFlagsFromString('--expose-gc');
    await new Promise((resolve) => setTimeout(resolve, 5));
    (runInNewContext('gc') as () => void)();
    expect(request.deref()).toBeUndefined();
    letGo();
  });
});
