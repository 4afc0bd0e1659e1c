/** A server that is so busy that it answers late: the time that a connection gives it, on virtual time. */
import { describe, expect, it } from '@jest/globals';
import { type Client, ServerConnection } from '../../../lib/stores/wire/server-connection.js';
import { FakeClock } from '../../support/fake-clock.js';

const TIMEOUT_MS = 2_000;
/** How long a server has for each step of connecting, and the longest pause between two tries, in ms. */
const [STEP_MS, PAUSE_MS] = [1_000, 150];

/** A connection to a server that takes sockets at once, and each of its answers so long. */
function connection(answersAfterMs: number) {
  const clock = new FakeClock();
  const on = { answersAfterMs, problems: [] as string[] };
  const make = (): Client => {
    let destroy = (): void => {};
    const answer = (): Promise<unknown> => new Promise((resolve, reject) => {
      destroy = () => reject(new Error('the client was closed'));
      if (on.answersAfterMs < Infinity) clock.setTimer(() => resolve('OK'), on.answersAfterMs);
    });
    return { sender: { call: answer }, connect: () => Promise.resolve(), subscribe: answer, destroy: () => destroy() };
  };
  const source = { address: { host: 'a', port: 1 }, make };
  const to = new ServerConnection(() => Promise.resolve(source), { clock, timeoutMs: TIMEOUT_MS });
  to.events.on('problem', (error) => void on.problems.push(error.message));
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
