/** A server that is so busy that it answers late, or that takes connections and does not serve: what a connection does then, on virtual time. */
import { describe, expect, it } from '@jest/globals';
import { type Client, ServerConnection } from '../../../lib/stores/wire/server-connection.js';
import { FakeClock } from '../../support/fake-clock.js';

const TIMEOUT_MS = 2_000;
/** How long a server has for each step of connecting, and the longest pause between two tries, in ms. */
const [STEP_MS, PAUSE_MS] = [1_000, 150];

/** A connection to a server that takes sockets at once, and each of its answers so long. */
function connection(answersAfterMs: number) {
  const clock = new FakeClock();
  const on = { answersAfterMs, problems: [] as string[], opened: 0, made: 0, destroyed: 0, connect: () => Promise.resolve(), refusal: undefined as Error | undefined };
  const make = (): Client => {
    let destroy = (): void => {};
    on.made += 1;
    const answer = (): Promise<unknown> => new Promise((resolve, reject) => {
      destroy = () => reject(new Error('the client was closed'));
      if (on.answersAfterMs < Infinity) clock.setTimer(() => (on.refusal ? reject(on.refusal) : resolve('OK')), on.answersAfterMs);
    });
    return { sender: { call: answer }, connect: () => on.connect(), subscribe: answer, destroy: () => ((on.destroyed += 1), destroy()) };
  };
  const source = { address: { host: 'a', port: 1 }, make };
  const to = new ServerConnection(() => Promise.resolve(source), { clock, timeoutMs: TIMEOUT_MS });
  to.events.on('problem', (error) => void on.problems.push(error.message));
  to.events.on('open', () => (on.opened += 1));
  to.start().catch(() => {});
  return Object.assign(on, { clock, to });
}

const late = (ms: number): string => `the server takes connections, but gave no answer within ${ms} ms`;

describe('A server that answers late', () => {
  it('has twice the time after each try in which it said nothing, up to four times', async () => {
    const { clock, problems, to } = connection(Infinity);
    for (const times of [1, 2, 4, 4]) await clock.advance(times * STEP_MS + PAUSE_MS + 2);
    expect(problems).toEqual([1, 2, 4, 4].map((times) => late(times * STEP_MS)));
    to.close();
  });

  it('is connected to as soon as it answers in that time, and may then be silent for longer', async () => {
    const { clock, problems, to } = connection(1_900);
    await clock.advance(STEP_MS + PAUSE_MS + 2_000);
    expect([problems, to.isOpen, to.patience]).toEqual([[late(STEP_MS)], true, 2]);
    to.leaveSilent(new Error('no answer within 3000 ms'));
    expect([to.isOpen, to.patience]).toEqual([false, 4]);
    to.close();
  });

  it('has the usual time again once a connection was made in that', async () => {
    const on = connection(1_900);
    await on.clock.advance(STEP_MS + PAUSE_MS + 2_000);
    on.answersAfterMs = 10;
    on.to.drop();
    await on.clock.advance(PAUSE_MS + 20);
    expect([on.to.isOpen, on.to.patience]).toEqual([true, 1]);
    on.to.close();
  });
});

describe('A server that takes connections and does not serve', () => {
  it.each(['ERR max number of clients reached', 'DENIED Redis is running in protected mode'])('and says %s, is not taken for one that does', async (words) => {
    const on = connection(1);
    on.refusal = Object.assign(new Error(words), { name: 'ReplyError' });
    await on.clock.advance(3_000);
    expect([on.opened, on.to.isOpen, new Set(on.problems)]).toEqual([0, false, new Set([words])]);
    on.to.close();
  });

  it('because it is no master is connected to less and less often, and at once when a connection ends that has lasted', async () => {
    const on = connection(1);
    let isRefused = true;
    on.to.events.on('open', () => on.clock.nextTurn(() => isRefused && on.to.drop(true)));
    await on.clock.advance(5_000);
    const before = on.opened;
    await on.clock.advance(30_000);
    expect(Math.abs(on.opened - before - 50)).toBeLessThan(30);
    isRefused = false;
    await on.clock.advance(5_000);
    const opened = on.opened;
    on.to.drop();
    await on.clock.advance(60);
    expect([on.opened, on.to.isOpen]).toEqual([opened + 1, true]);
    on.to.close();
  });
});

describe('A login that the code of the user asks for', () => {
  it('and that takes too long ends no connection for ever, and leaves none open that nobody uses', async () => {
    const on = connection(1);
    const late: (() => void)[] = [];
    on.connect = () => new Promise((resolve) => late.push(resolve));
    await on.clock.advance(10 * (STEP_MS + PAUSE_MS));
    expect(on.made).toBeGreaterThan(5);
    const [made, destroyed] = [on.made, on.destroyed];
    for (const connected of late.slice(0, -1)) connected();
    await on.clock.settle();
    expect([on.destroyed - destroyed, on.opened]).toEqual([late.length - 1, 0]);
    on.connect = () => Promise.resolve();
    await on.clock.advance(2 * (STEP_MS + PAUSE_MS));
    expect([on.to.isOpen, on.made]).toEqual([true, made + 1]);
    on.to.close();
  });
});
