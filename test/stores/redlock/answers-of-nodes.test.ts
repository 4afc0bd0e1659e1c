/** What the answers of five simulated nodes make of a request together: a grant, a refusal or an error. */
import { beforeEach, describe, expect, it } from '@jest/globals';
import type { AcquireOutcome } from '../../../lib/core/port/lock-store.js';
import { bringBack, vote } from '../../../lib/stores/wire/lua.generated.js';
import { RedisKeys } from '../../../lib/stores/wire/redis-keys.js';
import type { SimServer } from '../../simulation/sim-server.js';
import { answersWith, holdsUp, RedlockRequests, refuses } from '../../support/redlock-requests.js';
import { simulatedRedlock, type RedlockMember } from '../../support/simulated-redlock.js';

const redlock = simulatedRedlock(5);
const requests = new RedlockRequests(redlock);
let member: RedlockMember;
beforeEach(async () => void (member = await redlock.opened('p')));

const answer: Record<string, (server: SimServer) => void> = {
  grants: () => undefined,
  busy: (server) => answersWith(server, vote, [0, server.nowMs(), 3_000]),
  'not its turn': (server) => answersWith(server, vote, [0, server.nowMs(), -1]),
  upgrade: (server) => answersWith(server, vote, [2, server.nowMs()]),
  closed: (server) => answersWith(server, vote, [4, server.nowMs()]),
  full: (server) => answersWith(server, vote, [5, server.nowMs()]),
  fails: (server) => refuses(server, vote, 'OOM command not allowed'),
};
const ask = (answers: string): Promise<AcquireOutcome> => {
  answers.split(', ').forEach((how, at) => answer[how]!(redlock.servers[at]!));
  return requests.ask(member, 'p.1');
};

describe('The answers of the nodes', () => {
  it.each([
    ['grants, grants, grants, fails, closed', 'granted'],
    ['grants, grants, busy, busy, fails', 'busy'],
    ['grants, grants, busy, fails, fails', 'busy'],
    ['grants, busy, busy, busy, busy', 'busy'],
    ['upgrade, upgrade, upgrade, fails, fails', 'upgrade'],
    ['full, full, full, grants, grants', 'full'],
  ])('%s: %s', async (answers, kind) => {
    expect((await ask(answers)).kind).toBe(kind);
    if (kind === 'granted') await requests.release(member, 'p.1');
    await redlock.pass(50);
    expect(requests.standing()).toEqual([]);
  });

  it.each(['grants, grants, closed, closed, fails', 'grants, grants, fails, fails, fails'])('%s: nobody knows whether the lock is taken', async (answers) => {
    const error = await requests.failure(ask(answers));
    expect(error).toMatchObject({ retryable: true, key: 'k', message: expect.stringMatching(/^Lock 'k': no quorum of 5 nodes for a grant \(redis1:6379: /) });
    expect(error.nodes).toHaveLength(5);
    await redlock.pass(50);
    expect(requests.standing()).toEqual([]);
  });

  it.each([0, 1])('that were for another script are no votes, though a vote may be a number as well: %i', async (code) => {
    for (const server of redlock.servers) answersWith(server, vote, code);
    expect((await requests.failure(requests.ask(member, 'p.1'))).message).toMatch(/gave an answer that no script of this library gives/);
  });
});

describe('A request whose fence has to be written back to a quorum', () => {
  let arrives: (() => void)[];
  let asked: Promise<AcquireOutcome>;
  const keys = new RedisKeys('lock');
  beforeEach(async () => {
    const [one] = redlock.servers as [SimServer];
    const record = keys.fence(keys.groupOf('k'));
    one.put(record, `2000000000000000 ${one.text(record)!.split(' ')[1]!}`);
    arrives = redlock.servers.map((server) => holdsUp(server, bringBack));
    // The first three are heard of before the others.
    for (const { faults } of member.ways.slice(3)) faults.shortestMs = faults.longestMs = 10;
    asked = member.store.acquire(requests.request('p.1'));
    await redlock.pass(20);
  });

  it('is not granted while fewer have the fence', async () => {
    expect((await requests.failure(asked)).message).toMatch(/no quorum of 5 nodes for its agreement on a fence/);
    for (const arrive of arrives) arrive();
    await redlock.pass(500);
    expect(requests.standing()).toEqual([]);
  });

  it('is granted no more when it was released meanwhile', async () => {
    await requests.release(member, 'p.1');
    expect(await redlock.runUntil(asked.then(({ kind }) => kind, () => 'failed'))).not.toBe('granted');
    await redlock.pass(20);
    // What is held up comes behind the release, and is taken back once more.
    for (const arrive of arrives) arrive();
    expect(requests.standing()).not.toEqual([]);
    await redlock.pass(500);
    expect(requests.standing()).toEqual([]);
  });
});
