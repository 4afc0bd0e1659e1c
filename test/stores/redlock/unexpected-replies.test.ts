/** Answers of a node of a Redlock that none of its scripts gives: nothing is believed, and the connection is given up. */
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import type { RedlockNode } from '../../../lib/stores/redlock/redlock-node.js';
import { admit, downgrade, raiseFence, vote, type LuaScript } from '../../../lib/stores/wire/lua.generated.js';
import { RedisKeys } from '../../../lib/stores/wire/redis-keys.js';
import { answersWith, RedlockRequests } from '../../support/redlock-requests.js';
import { SimulatedRedlock, type RedlockMember } from '../../support/simulated-redlock.js';

const UNEXPECTED = /gave an answer that no script of this library gives/;

let redlock: SimulatedRedlock;
let member: RedlockMember;
let node: RedlockNode;
/** How many connections to the node have ended. */
let ended: number;
beforeEach(async () => {
  redlock = new SimulatedRedlock();
  member = await redlock.opened('p');
  node = member.store['members'].nodes[0]!;
  ended = 0;
  node.link['connections'].commands.onEnd(() => (ended += 1));
});
afterEach(() => redlock.close());

const on = new RedisKeys('lock').nodeSpotOf('k');
const ballot = { on, id: 'p.1/1', mode: 'write', leaseMs: 3_000, fences: 1, minHoldMs: 0, graceMs: 0, owner: undefined, label: undefined, waitedMs: -1, patienceMs: 0 } as const;
const memory = { whole: true, leftMs: 0, runId: 'r', since: 0, hasVoted: true, now: 0 };

describe('An answer that was for another script', () => {
  it.each<[string, LuaScript, () => Promise<unknown>]>([
    ['a downgrade', downgrade, () => node.downgrade('k', 'p.1/1')],
    ['a fence that was agreed on', raiseFence, () => node.raiseFence(ballot, 70)],
    ['the admission of a node', admit, () => node.memory.admit(memory, [])],
  ])('is neither a yes nor a no to %s', async (_, script, ask) => {
    answersWith(redlock.servers[0]!, script, [1, 70]);
    await expect(redlock.runUntil(ask())).rejects.toThrow(UNEXPECTED);
    await redlock.pass(50);
    expect(ended).toBe(1);
  });

  it.each([0, 1])('is no vote, though a vote may be a number as well: %i', async (code) => {
    for (const server of redlock.servers) answersWith(server, vote, code);
    const error = await new RedlockRequests(redlock).failure(member.store.acquire(new RedlockRequests(redlock).request('p.1')));
    expect(error.message).toMatch(UNEXPECTED);
    await redlock.pass(50);
    expect(ended).toBe(1);
  });
});
