/** A boot that has nothing but timers of the library to wait for, in a process of its own. */
import { dirname, join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
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
