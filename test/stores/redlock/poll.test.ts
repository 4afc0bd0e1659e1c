/** One question to all nodes, for which a test speaks: when it is decided, who is heard later, and what the error says. */
import { describe, expect, it } from '@jest/globals';
import { LockStoreError } from '../../../lib/core/port/errors.js';
import { agree, asking, poll, type Hear } from '../../../lib/stores/redlock/quorum.js';

const NODES = ['a', 'b', 'c', 'd', 'e'].map((name) => ({ name }));

function ask(nodes = NODES, how: Parameters<typeof agree>[4] = {}) {
  const hears = new Map<string, Hear<string>>();
  const answer = (name: string, word: string): void => hears.get(name)!(word);
  const fail = (name: string, retryable = true): void => hears.get(name)!(new LockStoreError('out of order', { retryable, nodes: [{ node: name, reason: 'LOADING' }] }));
  let settled = 'no';
  const outcome = agree('a trial', 'k', nodes, ({ name }, hear: Hear<string>) => void hears.set(name, hear), how);
  outcome.then((word) => (settled = word), (error: Error) => (settled = error.message));
  const said = async (): Promise<string> => (await new Promise((resolve) => setImmediate(resolve)), settled);
  return { answer, fail, said, outcome };
}

describe('A word', () => {
  it('is agreed on as soon as a quorum said it, and not before', async () => {
    const { answer, said } = ask();
    for (const name of ['a', 'c']) answer(name, 'yes');
    answer('b', 'no');
    expect(await said()).toBe('no');
    answer('e', 'yes');
    expect(await said()).toBe('yes');
  });

  it('is agreed on only when all have answered, where the caller waits for all', async () => {
    const { answer, fail, said } = ask(NODES, { waitsForAll: true });
    for (const name of ['a', 'b', 'c', 'd']) answer(name, 'yes');
    expect(await said()).toBe('no');
    fail('e');
    expect(await said()).toBe('yes');
  });

  it('has no quorum as soon as the missing answers cannot give it one: the error names every node with its reason', async () => {
    const { answer, fail, said, outcome } = ask();
    answer('a', 'yes');
    answer('b', 'no');
    fail('c');
    expect(await said()).toBe('no');
    fail('d');
    expect(await said()).toBe("Lock 'k': no quorum of 5 nodes for a trial (a: yes; b: no; c: LOADING; d: LOADING; e: had not answered when the others had decided). It is safe to try again.");
    await expect(outcome).rejects.toMatchObject({ retryable: true, cause: { message: 'out of order' } });
  });

  it('that an operator has to help to is not worth another try, unless the others are a quorum', async () => {
    const [helpless, one] = [ask(NODES.slice(0, 3)), ask(NODES.slice(0, 3))];
    for (const name of ['a', 'b']) helpless.fail(name, false);
    await expect(helpless.outcome).rejects.toMatchObject({ retryable: false, message: expect.stringContaining('Another try will not help before an operator has fixed these nodes.') });
    one.fail('a', false);
    one.fail('b');
    await expect(one.outcome).rejects.toMatchObject({ retryable: true });
  });

  it('about whoever holds the lock is not asked for again without a look', async () => {
    const { fail, outcome } = ask(NODES.slice(0, 3), { namesNobody: true });
    for (const name of ['a', 'b']) fail(name);
    await expect(outcome).rejects.toMatchObject({ retryable: false, message: expect.stringContaining('look with inspect()') });
  });
});

describe('A poll', () => {
  it('rejects with what its decision throws, and tells of later replies', async () => {
    const late: string[] = [];
    const hears: Hear<string>[] = [];
    const asked = poll<{ name: string }, string, never>(NODES, (_, hear) => void hears.push(hear), () => { throw new Error('no'); }, (_, at) => void late.push(NODES[at]!.name));
    for (const hear of hears) hear('yes');
    await expect(asked).rejects.toThrow('no');
    expect(late).toEqual(['b', 'c', 'd', 'e']);
  });

  it('hears promises of nodes that may be asked', async () => {
    const heard: string[] = [];
    const hear: Hear<string> = (reply) => void heard.push(reply instanceof LockStoreError ? reply.message : reply);
    const node = (name: string, isUsable = true) => ({ name, isUsable, refusal: () => new LockStoreError('away') });
    const ask = asking('k', ({ name }: { name: string }) => (name === 'a' ? Promise.resolve('yes') : Promise.reject(new LockStoreError('no'))));
    for (const [at, each] of [node('a'), node('b'), node('a', false)].entries()) ask(each, hear, at);
    await new Promise((resolve) => setImmediate(resolve));
    expect(heard.sort()).toEqual(['away', 'no', 'yes']);
  });
});
