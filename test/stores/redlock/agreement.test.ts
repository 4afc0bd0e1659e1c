/** Questions to nodes that a test speaks for: when a word has a quorum, when nobody waits any more, and what the error says. */
import { describe, expect, it } from '@jest/globals';
import { delay } from '../../../lib/core/port/clock.js';
import { LockStoreError } from '../../../lib/core/port/errors.js';
import { Deadlines } from '../../../lib/stores/redlock/deadlines.js';
import { agree, hearing, leaseTimeoutMs, poll, voteTimeoutMs, type Hear, type Reply } from '../../../lib/stores/redlock/poll.js';
import { FakeClock } from '../../support/fake-clock.js';

interface Node {
  readonly name: string;
  heardAt: number;
  silent: boolean;
  fellSilent(): void;
}

function setUp(count = 3) {
  const clock = new FakeClock();
  const deadlines = new Deadlines(clock);
  const nodes = Array.from({ length: count }, (_, n): Node => ({ name: 'abcde'[n]!, heardAt: -Infinity, silent: false, fellSilent() { this.silent = true; } }));
  const asks = new Map<Node, Hear<string>>();
  const answer = (n: number, word: string): void => asks.get(nodes[n]!)!({ kind: 'answer', answer: word });
  const fail = (n: number, error: LockStoreError): void => asks.get(nodes[n]!)!({ kind: 'failure', error });
  const question = { nodes, deadlines, timeoutMs: 100, ask: (node: Node, hear: Hear<string>) => void asks.set(node, hear) };
  return { clock, deadlines, nodes, answer, fail, question };
}
const outOfOrder = (retryable: boolean, nodes = [{ node: 'x', reason: 'LOADING' }]): LockStoreError => new LockStoreError('out of order', { retryable, nodes });

describe('A word', () => {
  it('is agreed on as soon as a quorum said it, whatever the others may say', async () => {
    const { clock, question, answer, fail } = setUp();
    const agreed = agree('a trial', 'k', question);
    let isSettled = false;
    void agreed.then(() => (isSettled = true));
    answer(0, 'yes');
    fail(1, outOfOrder(true));
    await clock.settle();
    expect(isSettled).toBe(false);
    answer(2, 'yes');
    expect(await agreed).toBe('yes');
    expect(clock.now()).toBe(1_000);
  });

  it('is agreed on by a quorum without an answer of the others', async () => {
    const { clock, question, answer } = setUp();
    const agreed = agree('a trial', 'k', question);
    answer(0, 'yes');
    answer(1, 'yes');
    expect(await clock.runUntil(agreed)).toBe('yes');
    expect(clock.now()).toBe(1_000);
  });

  it('that no quorum said is an error that names every node, also one that was not heard of', async () => {
    const { question, answer, fail } = setUp(5);
    const agreed = agree('a trial', 'k', question);
    answer(0, 'yes');
    answer(1, 'no');
    const first = outOfOrder(true);
    fail(2, first);
    fail(3, outOfOrder(true, []));
    await expect(agreed).rejects.toMatchObject({
      key: 'k',
      retryable: true,
      message: `Lock 'k': no quorum of 5 nodes for a trial (a: yes; b: no; c: LOADING; d: out of order; e: had not answered when the others had decided). It is safe to try again.`,
    });
    expect((await agreed.catch((error: LockStoreError) => error) as LockStoreError).cause).toBe(first);
  });

  it.each([[1, true], [2, false]])('that %i of three nodes cannot say before an operator comes may be asked for again: %s', async (broken, retryable) => {
    const { question, fail } = setUp();
    const agreed = agree('a trial', undefined, question);
    for (let n = 0; n < 3; n += 1) fail(n, outOfOrder(n >= broken));
    const next = retryable ? 'It is safe to try again.' : 'Another try will not help before an operator has fixed these nodes.';
    await expect(agreed).rejects.toMatchObject({ retryable, message: expect.stringMatching(new RegExp(`^Locks: no quorum of 3 nodes for a trial \\(.*\\)\\. ${next}$`)) });
  });

  it('that takes the lock from whoever has it is not to be asked for again before a look, as no quorum said what became of it', async () => {
    const { question, answer, fail } = setUp();
    const agreed = agree('a forced release', 'k', { ...question, namesNobody: true });
    answer(0, 'taken');
    for (const n of [1, 2]) fail(n, outOfOrder(true));
    await expect(agreed).rejects.toMatchObject({ retryable: false, message: expect.stringMatching(/The outcome is not known, and another holder may have the lock now: look with inspect\(\)/) });
  });

  it('that waits for all is decided by the last of them, though a quorum said the same before', async () => {
    const { question, answer, fail } = setUp(3);
    let word: string | undefined;
    const agreed = agree('a forced release', 'k', { ...question, waitsForAll: true }).then((said) => (word = said));
    answer(0, 'taken');
    answer(1, 'taken');
    await new Promise(setImmediate);
    expect(word).toBeUndefined();
    fail(2, outOfOrder(true));
    expect(await agreed).toBe('taken');
  });

  it('of a tie of four nodes that need an operator is not to be asked for again', async () => {
    const { question, answer, fail } = setUp(4);
    const agreed = agree('a trial', 'k', question);
    answer(0, 'yes');
    answer(1, 'yes');
    fail(2, outOfOrder(false));
    fail(3, outOfOrder(false));
    await expect(agreed).rejects.toMatchObject({ retryable: false });
  });
});

describe('A node that says nothing', () => {
  it('is silent after its time, and named with it', async () => {
    const { clock, nodes, question, answer } = setUp();
    const agreed = agree('a trial', 'k', question);
    answer(0, 'yes');
    await expect(clock.runUntil(agreed)).rejects.toThrow('b: no answer within 100 ms; c: no answer within 100 ms');
    expect(nodes.map(({ silent }) => silent)).toEqual([false, true, true]);
    expect(clock.now()).toBe(1_100);
  });

  it('to this question has four times the time when it, or another that owes an answer, was heard of meanwhile', async () => {
    const { clock, nodes, question, answer } = setUp();
    const agreed = agree('a trial', 'k', question);
    agreed.catch(() => {});
    answer(0, 'yes');
    await clock.advance(50);
    nodes[1]!.heardAt = clock.now();
    await clock.advance(349);
    expect(nodes[2]!.silent).toBe(false);
    await clock.advance(1);
    await expect(agreed).rejects.toThrow('b: no answer within 400 ms');
    expect([nodes[1]!.silent, nodes[2]!.silent]).toEqual([true, true]);
  });

  it('since the very moment of the question has no more time than others', async () => {
    const { clock, nodes, question, answer } = setUp();
    const agreed = agree('a trial', 'k', question);
    agreed.catch(() => {});
    answer(0, 'yes');
    nodes[1]!.heardAt = clock.now();
    await clock.advance(100);
    await expect(agreed).rejects.toThrow('b: no answer within 100 ms');
  });
});

describe('A question', () => {
  it('that is decided leaves no deadline, and hears what comes after it as late, as well as a second answer', async () => {
    const { clock, deadlines, nodes, question, answer } = setUp();
    const late: string[] = [];
    const decide = (replies: ReadonlyMap<Node, Reply<string>>): string | undefined => (replies.size === 2 ? 'done' : undefined);
    const decided = poll({ ...question, decide, late: (node, reply) => void late.push(`${node.name} ${reply.kind}`) });
    answer(0, 'yes');
    answer(0, 'again');
    answer(1, 'yes');
    expect(await decided).toBe('done');
    answer(2, 'yes');
    expect(late).toEqual(['a answer', 'c answer']);
    expect((deadlines as unknown as { open: Set<unknown> }).open.size).toBe(0);
    await clock.advance(1_000);
    expect(nodes.map(({ silent }) => silent)).toEqual([false, false, false]);
  });

  it('hears a promise, whether it is kept or not', async () => {
    const heard: Reply<string>[] = [];
    hearing(Promise.resolve('yes'), (reply) => heard.push(reply));
    const error = outOfOrder(true);
    hearing(Promise.reject(error), (reply) => heard.push(reply));
    await new Promise((resolve) => setImmediate(resolve));
    expect(heard).toEqual([{ kind: 'answer', answer: 'yes' }, { kind: 'failure', error }]);
  });

  it('has a time by the lease that it is about: a tenth for a vote, a fifth for a lease that is held, within bounds', () => {
    expect([100, 2_000, 30_000].map((leaseMs) => voteTimeoutMs(leaseMs, 2_000))).toEqual([50, 200, 500]);
    expect([100, 2_000, 30_000].map((leaseMs) => leaseTimeoutMs(leaseMs, 2_000))).toEqual([50, 400, 2_000]);
    expect([voteTimeoutMs(30_000, 300), leaseTimeoutMs(30_000, 300)]).toEqual([300, 300]);
  });
});

describe('Deadlines', () => {
  it('keep one timer, that of the first one, and none when there are none', async () => {
    const clock = new FakeClock();
    const deadlines = new Deadlines(clock);
    const told: number[] = [];
    const start = clock.now();
    for (const at of [300, 100]) deadlines.set({ at: start + at, due: () => void told.push(clock.now() - start) });
    expect(clock.pendingTimers).toBe(1);
    await clock.advance(100);
    expect([told, clock.pendingTimers]).toEqual([[100], 1]);
    await clock.runUntil(delay(clock, 200));
    expect([told, clock.pendingTimers]).toEqual([[100, 300], 0]);
    deadlines.set({ at: clock.now() + 50, due: () => void told.push(0) });
    expect(clock.pendingTimers).toBe(1);
    deadlines.close();
    expect(clock.pendingTimers).toBe(0);
    await clock.advance(100);
    expect(told).toHaveLength(2);
    deadlines.set({ at: clock.now() + 50, due: () => void told.push(50) });
    await clock.advance(100);
    expect(told).toEqual([100, 300, 50]);
  });
});
