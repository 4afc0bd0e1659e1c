/** The order and the turns in which a connection by node-redis hands its answers on, on a client that stands in for the package. */
import { setImmediate as turn } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { systemClock } from '../../../lib/core/port/clock.js';
import type { NodeRedisClient } from '../../../lib/stores/wire/node-redis/node-redis-client.js';
import { SingleConnection } from '../../../lib/stores/wire/node-redis/single-connection.js';

/** Writes the commands of a turn at its end, as node-redis does, and is answered when the test says so. */
class EndOfTurnClient implements NodeRedisClient {
  readonly isReady = true;
  answersAtOnce = true;
  written = 0;
  private unwritten: Command[] = [];
  private unanswered: Command[] = [];
  private fails: (error: Error) => void = () => {};

  async connect(): Promise<void> {}

  destroy(): void {
    for (const { reject } of [...this.unanswered, ...this.unwritten]) reject(new Error('Socket closed unexpectedly'));
  }

  sendCommand(args: string[]): Promise<unknown> {
    return new Promise((resolve, reject) => {
      if (this.unwritten.push({ answer: args.at(-1) as string, resolve, reject }) === 1) setImmediate(() => this.write());
    });
  }

  subscribe(): Promise<void> {
    return Promise.resolve();
  }

  on(event: string, listener: (error: Error) => void): void {
    if (event === 'error') this.fails = listener;
  }

  /** So many answers arrive in one piece. */
  answer(count = Infinity): void {
    for (const { answer, resolve } of this.unanswered.splice(0, count)) resolve(answer);
  }

  fail(): void {
    this.fails(new Error('Socket closed unexpectedly'));
  }

  private write(): void {
    this.written += this.unwritten.length;
    this.unanswered.push(...this.unwritten.splice(0));
    if (this.answersAtOnce) this.answer();
  }
}

interface Command {
  readonly answer: string;
  readonly resolve: (answer: string) => void;
  readonly reject: (error: Error) => void;
}

let client: EndOfTurnClient;
let connection: SingleConnection;
beforeEach(async () => {
  client = new EndOfTurnClient();
  const source = { given: {}, make: () => client };
  connection = new SingleConnection(() => Promise.resolve(source), { clock: systemClock, timeoutMs: 2_000 });
  await connection.start();
  [client.answersAtOnce, client.written] = [false, 0];
});
afterEach(() => connection.close());

const numbers = (count: number): string[] => Array.from({ length: count }, (_, n) => String(n));

/** Sends as many commands as named in one turn; `handedOn` is called with each answer. */
async function written(names: readonly string[], handedOn: (answer: string) => unknown): Promise<readonly Promise<unknown>[]> {
  const sent = names.map((name) => connection.send(['ECHO', name]).then((answer) => handedOn(String(answer))));
  await turn();
  expect(client.written).toBe(names.length);
  return sent;
}

describe('Answers that arrive together by node-redis', () => {
  it('are handed on by turns, so that what follows from the first is written before the last is handed on', async () => {
    const follow: Promise<unknown>[] = [];
    let writtenBefore = 0;
    const sent = await written(numbers(8), () => {
      writtenBefore = client.written;
      follow.push(connection.send(['ECHO', 'next']));
    });
    client.answer();
    await Promise.all(sent);
    expect(writtenBefore).toBeGreaterThan(8);
    await turn();
    client.answer();
    expect(await Promise.all(follow)).toEqual(numbers(8).map(() => 'next'));
  });

  it('are handed on in their order, and those of the next piece behind them', async () => {
    const order: string[] = [];
    const names = [...numbers(5), 'a', 'b', 'c'];
    const sent = await written(names, (answer) => order.push(answer));
    client.answer(5);
    await new Promise(process.nextTick);
    client.answer();
    await Promise.all(sent);
    expect(order).toEqual(names);
  });

  it('count as lost as far as they were not handed on when the connection ends', async () => {
    const sent = await written(numbers(5), (answer) => answer);
    client.answer();
    await Promise.race(sent);
    client.fail();
    const outcomes = await Promise.allSettled(sent);
    expect(outcomes.map((outcome) => (outcome.status === 'fulfilled' ? outcome.value : outcome.reason.message))).toEqual(['0', '1', 'not connected', 'not connected', 'not connected']);
  });
});

it('An answer by node-redis that comes alone is handed on in the turn in which it arrives', async () => {
  for (const name of numbers(5)) {
    let answer: string | undefined;
    client.written = 0;
    const sent = await written([name], (handedOn) => (answer = handedOn));
    client.answer();
    await new Promise(process.nextTick);
    expect(answer).toBe(name);
    await Promise.all(sent);
  }
});
