/** One question to many nodes, on virtual time: when it is answered, and what a silent node costs. */
import { describe, expect, it } from '@jest/globals';
import { delay } from '../../../lib/core/port/clock.js';
import { LockStoreError } from '../../../lib/core/port/errors.js';
import { Deadlines } from '../../../lib/stores/redlock/deadlines.js';
import { hearing, noQuorum, poll, type Asked, type Hear, type Reply } from '../../../lib/stores/redlock/poll.js';
import { verdict } from '../../../lib/stores/redlock/quorum.js';
import { FakeClock } from '../../support/fake-clock.js';

/** A node that answers after a time, or never. */
interface Voter extends Asked {
  silent: boolean;
  heardAt: number;
  readonly afterMs: number;
  readonly word: string;
}

function voter(name: string, afterMs: number, word = 'yes'): Voter {
  const one: Voter = { name, silent: false, heardAt: -Infinity, afterMs, word, fellSilent: () => void (one.silent = true) };
  return one;
}

async function answerOf(node: Voter, clock: FakeClock): Promise<string> {
  await delay(clock, node.afterMs);
  if (node.word === 'fails') throw new LockStoreError('it failed', { nodes: [{ node: node.name, reason: 'it failed' }] });
  return node.word;
}

async function ask(clock: FakeClock, nodes: readonly Voter[], late: string[] = []): Promise<{ result: string; atMs: number }> {
  const result = await poll({
    nodes,
    deadlines: new Deadlines(clock),
    timeoutMs: 100,
    ask: (node: Voter, hear: Hear<string>) => hearing(answerOf(node, clock), hear),
    decide: (replies: ReadonlyMap<Voter, Reply<string>>) =>
      verdict<string>(
        nodes.map((node) => {
          const reply = replies.get(node);
          return reply === undefined ? undefined : reply.kind === 'answer' ? reply.answer : null;
        }),
      ),
    late: (node) => late.push(node.name),
  });
  return { result, atMs: clock.now() };
}

describe('poll', () => {
  it('is answered by the fastest quorum, and tells of the others later', async () => {
    const clock = new FakeClock();
    const start = clock.now();
    const late: string[] = [];
    const nodes = [voter('a', 1), voter('b', 2), voter('c', 3), voter('d', 60), voter('e', 1_000)];
    await clock.runUntil(
      (async () => {
        const { result, atMs } = await ask(clock, nodes, late);
        expect({ result, afterMs: atMs - start }).toEqual({ result: 'yes', afterMs: 3 });
        await delay(clock, 2_000);
        expect(late).toEqual(['d', 'e']);
        expect(nodes.some(({ silent }) => silent)).toBe(false);
      })(),
    );
  });

  it('waits for a silent node no longer than its time, and remembers it as silent', async () => {
    const clock = new FakeClock();
    const start = clock.now();
    const nodes = [voter('a', 1), voter('b', 1), voter('c', 1, 'no'), voter('d', 1, 'no'), voter('e', 100_000)];
    await clock.runUntil(
      (async () => {
        const { result, atMs } = await ask(clock, nodes);
        expect(result).toBe('split');
        expect(atMs - start).toBeLessThanOrEqual(105);
        expect(nodes.map(({ silent }) => silent)).toEqual([false, false, false, false, true]);
      })(),
    );
  });

  it('gives a node more time that answers others meanwhile', async () => {
    const clock = new FakeClock();
    const nodes = [voter('a', 1), voter('b', 1), voter('c', 1, 'no'), voter('d', 1, 'no'), voter('e', 250)];
    await clock.runUntil(
      (async () => {
        const asked = ask(clock, nodes);
        await delay(clock, 50);
        nodes[4]!.heardAt = clock.now();
        expect((await asked).result).toBe('yes');
        expect(nodes[4]!.silent).toBe(false);
      })(),
    );
  });

  it('tells every node with its reason when no quorum agrees, and whether trying again can help', () => {
    const nodes = ['a', 'b', 'c'].map((name) => voter(name, 0));
    const failure = (node: string, retryable: boolean): Reply<string> => ({
      kind: 'failure',
      error: new LockStoreError('', { nodes: [{ node, reason: `${node} is down` }], retryable }),
    });
    const some = new Map<Voter, Reply<string>>([
      [nodes[0]!, { kind: 'answer', answer: 'busy' }],
      [nodes[1]!, failure('b', false)],
      [nodes[2]!, failure('c', true)],
    ]);
    const error = noQuorum('a grant', 'k', nodes, some, String);
    expect(error).toMatchObject({ code: 'LOCK_STORE', key: 'k', retryable: true });
    expect(error.nodes).toEqual([{ node: 'a', reason: 'busy' }, { node: 'b', reason: 'b is down' }, { node: 'c', reason: 'c is down' }]);
    some.delete(nodes[2]!);
    expect(noQuorum('a grant', 'k', nodes, some, String).nodes[2]).toMatchObject({ node: 'c' });
    some.set(nodes[2]!, failure('c', false));
    expect(noQuorum('a grant', 'k', nodes, some, String).retryable).toBe(false);
    const operator = 'Another try will not help before an operator has fixed these nodes.';
    for (const namesNobody of [false, true]) expect(noQuorum('a forced release', 'k', nodes, some, String, namesNobody).message).toContain(operator);
  });
});
