/** The clock of the machine, and a boot that has nothing but its timers to wait for, in a process of its own. */
import { AsyncLocalStorage } from 'node:async_hooks';
import { dirname, join } from 'node:path';
import { uptime } from 'node:os';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { afterAll, describe, expect, it, jest } from '@jest/globals';
import { inTime, keptAlive, pause, systemClock } from '../../../lib/core/port/clock.js';
import { builtPackage } from '../../support/built-package.js';
import { runToItsEnd } from '../../support/ended-program.js';
import { FakeClock } from '../../support/fake-clock.js';
import { gate } from '../../support/locks.js';

const clock = join(dirname(builtPackage()), 'core', 'port', 'clock.js');

/** A store that takes a while to find out that it cannot serve, and an application that says how its boot ended. */
const PROGRAM = `
  import { LockService } from '${builtPackage()}';
  import { pause, systemClock } from '${clock}';
  const store = { capabilities: {}, onWake() {}, open: () => pause(systemClock, 50).then(() => Promise.reject(new Error('no store'))) };
  void new LockService({ store, process: 'p' }).open().catch((error) => console.log(error.message));
`;

async function printed(program: string): Promise<string> {
  const { NODE_OPTIONS: _, ...env } = process.env;
  return (await runToItsEnd(process.execPath, ['--input-type=module', '--eval', program], { env })).stdout.trim();
}

/** How many of the intervals that were set here keep this process alive: Node's own list has the timers of the test runner too. */
const set = jest.spyOn(globalThis, 'setInterval');
const cleared = jest.spyOn(globalThis, 'clearInterval');
const keepers = (): number => set.mock.results.filter(({ value }) => (value as NodeJS.Timeout).hasRef() && !cleared.mock.calls.some(([timer]) => timer === value)).length;
afterAll(() => void jest.restoreAllMocks());
const pass = (ms: number): Promise<void> => new Promise((resolve) => void setTimeout(resolve, ms));

describe('A timer', () => {
  it.each([['of a while', 600_000], ['that is longer than one of Node can be', 2 ** 40]])('%s does not fire at once', async (_what, delayMs) => {
    let hasFired = false;
    const timer = systemClock.setTimer(() => (hasFired = true), delayMs);
    await pass(10);
    expect(hasFired).toBe(false);
    systemClock.clearTimer(timer);
  });

  it('whose time is over fires, and one that was cleared does not', async () => {
    const fired: string[] = [];
    systemClock.setTimer(() => fired.push('over'), -5);
    systemClock.setTimer(() => fired.push('now'), 0);
    systemClock.clearTimer(systemClock.setTimer(() => fired.push('cleared'), 0));
    await pass(10);
    expect(fired).toEqual(['over', 'now']);
  });

  it('does not keep the process alive', () => {
    const before = keepers();
    const timer = systemClock.setTimer(() => undefined, 600_000);
    expect(keepers()).toBe(before);
    systemClock.clearTimer(timer);
  });
});

describe('A pause', () => {
  it('says whether its time has passed or it was ended, and one without an end sets no timer', async () => {
    const fake = new FakeClock();
    const ends: (() => void)[] = [];
    const pauses = [10, 100, Infinity].map((ms) => pause(fake, ms, (end) => ends.push(end)));
    await fake.advance(10);
    expect(fake.pendingTimers).toBe(1);
    for (const end of ends) end();
    expect([await Promise.all(pauses), fake.pendingTimers]).toEqual([[true, false, false], 0]);
  });
});

describe('Work in time', () => {
  it('leaves no timer, and ends with what is told of it when it is late', async () => {
    const fake = new FakeClock();
    expect([await inTime(fake, Promise.resolve('done'), 100, () => new Error('late')), fake.pendingTimers]).toEqual(['done', 0]);
    await expect(fake.runUntil(inTime(fake, new Promise(() => {}), 100, async () => new Error('late')))).rejects.toThrow('late');
  });
});

it('The time since the machine booted is told in milliseconds', () => {
  expect(Math.abs(systemClock.uptimeMs() - uptime() * 1_000)).toBeLessThan(5_000);
});

it('A boot that waits keeps its process alive until its error is told, and no longer', async () => expect(await printed(PROGRAM)).toBe('no store'));

describe('What keeps the process alive while calls wait', () => {
  it.each([
    ['answers', () => undefined],
    ['fails', () => Promise.reject(new Error('no store'))],
  ])('does so for as long as work lasts that %s', async (_how, end) => {
    const [before, work] = [keepers(), gate()];
    const done = keptAlive(systemClock, () => work.promise.then(end)).catch(() => undefined);
    await new Promise((resolve) => void setImmediate(resolve));
    expect(keepers()).toBe(before + 1);
    work.open();
    await done;
    expect(keepers()).toBe(before);
  });

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
