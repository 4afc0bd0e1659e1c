/** The answer of a node to a request for its vote: what it means here, what it counts as, and how a message tells it. */
import { describe, expect, it } from '@jest/globals';
import { LockStoreError } from '../../../lib/core/port/errors.js';
import { DOES_NOT_WAIT, textOfVote, voteOf, voteRequestOf, wordOf, type NodeVote } from '../../../lib/stores/redlock/node-vote.js';
import { giveBackArgs, trialVote, voteArgs } from '../../../lib/stores/redlock/node-calls.js';
import type { VoteReply } from '../../../lib/stores/wire/lua.generated.js';
import { RedisKeys } from '../../../lib/stores/wire/redis-keys.js';
import { trustOf } from '../../../lib/stores/wire/server-clock.js';

const GRANTED = { kind: 'granted', fence: 7, mode: 'write', end: 900, shared: false, sentAt: 100 } as const;
const others = ['upgrade', 'full', 'late', 'not admitted'] as const;

describe('The answer of a node', () => {
  it('that grants is trusted from before the request was sent', () => {
    const told = { kind: 'granted', now: 5_000, fence: 7, leftMs: 1_000, mode: 'read', shared: true, next: 'q' } as VoteReply;
    expect(voteOf(told, 100)).toEqual({ kind: 'granted', fence: 7, mode: 'read', end: trustOf(1_000, 100), shared: true, sentAt: 100, next: 'q' });
  });

  it('that refuses says for how long, and for ever when it is the turn of another process', () => {
    expect(voteOf({ kind: 'busy', now: 1, leftMs: 0 } as VoteReply, 0)).toEqual({ kind: 'busy', leftMs: 0 });
    expect(voteOf({ kind: 'busy', now: 1, leftMs: -1 } as VoteReply, 0)).toEqual({ kind: 'busy', leftMs: Infinity });
    expect(voteOf({ kind: 'quarantined', now: 1, leftMs: 30 } as VoteReply, 0)).toEqual({ kind: 'quarantined', leftMs: 30 });
    for (const kind of others) expect(voteOf({ kind, now: 1 } as VoteReply, 0)).toEqual({ kind });
  });

  it.each<[NodeVote, unknown]>([
    [GRANTED, 'granted'], [{ ...GRANTED, shared: true }, 7], [{ kind: 'upgrade' }, 'upgrade'], [{ kind: 'full' }, 'full'], [{ kind: 'busy', leftMs: 5 }, 'against'],
    [{ kind: 'quarantined', leftMs: 5 }, 'against'], [{ kind: 'late' }, 'against'], [{ kind: 'not admitted' }, 'against'],
  ])('%j counts as %j', (answer, word) => {
    expect(wordOf({ kind: 'answer', answer })).toBe(word);
  });

  it('counts as nothing while it may come, and as one against when the node failed', () => {
    expect(wordOf(undefined)).toBeUndefined();
    expect(wordOf({ kind: 'failure', error: new LockStoreError('away') })).toBe('against');
  });

  it('has a reason of its own in a message', () => {
    const reasons = [GRANTED, { kind: 'busy', leftMs: 1 }, { kind: 'quarantined', leftMs: 30 }, ...others.map((kind) => ({ kind }))].map((vote) => textOfVote(vote as NodeVote));
    expect(new Set(reasons).size).toBe(7);
    expect(reasons[2]).toContain('in 30 ms');
  });
});

describe('The request for a vote', () => {
  const keys = new RedisKeys('lock');
  const request = { key: 'k', id: 'p.1', mode: 'write', leaseMs: 1_000.7, queue: true, fences: 1, minHoldMs: 20.5, minReplicas: 0, notAfter: 0 } as const;

  it('has whole milliseconds, and no grace unless it was asked for', () => {
    expect(voteRequestOf(request, keys.nodeSpotOf('k'), 'p.1/1', 30, 0)).toMatchObject({ id: 'p.1/1', leaseMs: 1_000, minHoldMs: 20, graceMs: 0, waitedMs: 30, patienceMs: 150 });
    expect(voteRequestOf({ ...request, graceMs: 5 }, keys.nodeSpotOf('k'), 'p.1/1', DOES_NOT_WAIT, 0)).toMatchObject({ graceMs: 5, waitedMs: -1 });
  });

  it.each([
    [{}, true], [{ fences: 2 }, false], [{ minHoldMs: 1 }, false], [{ graceMs: 1 }, false],
  ])('with %j is plain: %s', (how, plain) => {
    const asked = voteArgs({ ...trialVote('t', 1_000), ...how }, { process: 'p', maxLeaseMs: 9 }, 5, undefined, 3);
    expect(asked).toMatchObject({ plain, proposal: 5, notAfter: 3, maxLeaseMs: 9, process: 'p', waitedMs: -1, patienceMs: 0 });
  });

  it('that only tries a node out has no fence, no grace and no place', () => {
    expect(trialVote('t', 1_000)).toEqual({ id: 't', leaseMs: 1_000, mode: 'write', fences: 1, minHoldMs: 0, graceMs: 0, owner: undefined, label: undefined, waitedMs: -1, patienceMs: 0 });
  });

  it('is taken back with the mark of who goes on waiting, and leaves that of others alone', () => {
    expect(giveBackArgs({ id: 'b' }, 'p')).toMatchObject({ keepsMarks: true, mayBeOver: false, abandoned: false, next: undefined });
    expect(giveBackArgs({ id: 'b', mayBeOver: true, abandoned: true, next: 'q', mark: { mode: 'read', waitedMs: 12.7, patienceMs: 9 } }, 'p')).toEqual({
      id: 'b', keepsMarks: false, mayBeOver: true, abandoned: true, mode: 'read', waitedMs: 12, patienceMs: 9, process: 'p', next: 'q',
    });
  });
});
