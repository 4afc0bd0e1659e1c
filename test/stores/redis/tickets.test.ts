/** What becomes of each answer to a hand-off and to an adoption, without a server. */
import { describe, expect, it } from '@jest/globals';
import type { LockStoreError } from '../../../lib/core/port/errors.js';
import { Spots } from '../../../lib/stores/redis/spots.js';
import { RedisTickets, type TicketParts } from '../../../lib/stores/redis/tickets.js';
import { Trust } from '../../../lib/stores/redis/trust.js';
import { RedisKeys } from '../../../lib/stores/wire/redis-keys.js';
import type { ScriptReply } from '../../../lib/stores/wire/script-runner.js';
import { UnexpectedReplyError } from '../../../lib/stores/wire/unexpected-reply.js';
import { FakeClock } from '../../support/fake-clock.js';

const NOW = 1_795_236_000_000;
const MEMORY = 'm'.repeat(30);

/** A server that gives these answers, one after another, and the limits that it was asked with. */
function stage(...answers: ScriptReply[]) {
  const clock = new FakeClock();
  const keys = new RedisKeys('lock');
  const trust = new Trust(() => 0);
  const limits: unknown[] = [];
  const run = async (call: { readonly args: readonly unknown[] }, decode: (reply: ScriptReply, sentAt: number, receivedAt: number) => unknown) => {
    limits.push(call.args[2]);
    return decode(answers.shift()!, 1_000, 1_000);
  };
  const memories = { of: () => MEMORY, knownOf: () => MEMORY };
  const parts = { runner: { run }, spots: new Spots(keys, () => 0), trust, memories, clock, isCluster: false, prefix: 'lock', maxLeaseMs: 60_000, recoveryMs: 0, node: 'a:6379' };
  const tickets = new RedisTickets(parts as unknown as TicketParts);
  const holds = [{ key: 'j', id: 'p.1', stays: false }, { key: 'k', id: 'p.2', stays: false }];
  const handOff = () => tickets.handOff({ ticketId: 'p.=t', withinMs: 5_000, holds, notAfter: 61_000 });
  const terms = { leaseMs: 4_000, graceMs: 0, label: undefined, minReplicas: 0, until: NOW + 5_000, notAfter: 61_000 };
  const adopt = () => tickets.adopt({ ticketId: 'p.=t', holds: [{ key: 'j', id: 'q.1' }, { key: 'k', id: 'q.2' }], ...terms });
  return { limits, trust, handOff, adopt };
}

const hold = (fence: number) => [fence, 1, NOW + 4_000, 0, 0, '-', 0, MEMORY];

describe('A hand-off', () => {
  it('is done until the end that the server tells, or lost for the lock that it names', async () => {
    expect(await stage([1, NOW, NOW + 5_000]).handOff()).toEqual({ kind: 'handedOff', until: NOW + 5_000, memory: MEMORY });
    expect(await stage([2, NOW, 2]).handOff()).toEqual({ kind: 'lost', key: 'k' });
  });

  it('that came too late is sent once more, now that the time of the server is known', async () => {
    const { handOff, limits } = stage([3, NOW], [3, NOW]);
    const error = (await handOff().catch((failure: unknown) => failure)) as LockStoreError;
    expect(error.code).toBe('LOCK_STORE');
    expect(limits).toEqual([1, expect.any(Number)]);
    expect(limits[1]).toBeGreaterThan(NOW);
  });

  it.each<[string, ScriptReply]>([
    ['a renewal', [NOW]],
    ['a recall', [NOW, 0, MEMORY]],
    ['an inspection', ['w', 0]],
    ['a release', 1],
  ])('does not believe the answer to %s', async (_, answer) => {
    const { handOff, trust } = stage(answer);
    await expect(handOff()).rejects.toThrow(UnexpectedReplyError);
    expect(trust.clock.before(0, 1_000, 1_000)).toBe(0);
  });
});

describe('An adoption', () => {
  it('brings a grant for each lock, or says which one is gone', async () => {
    const adopted = await stage(['adopted', NOW, 0, MEMORY, ...hold(70), ...hold(71)]).adopt();
    expect(adopted).toMatchObject({ kind: 'adopted', holds: [{ grant: { fence: 70 } }, { grant: { fence: 71 } }] });
    expect(await stage(['gone', NOW, 2, MEMORY]).adopt()).toEqual({ kind: 'gone', key: 'k', now: NOW, memory: MEMORY });
    expect(await stage(['recovering', NOW, 30, MEMORY]).adopt()).toMatchObject({ kind: 'recovering', retryInMs: 30 });
    await expect(stage(['late', NOW, 0, ''], ['late', NOW, 0, '']).adopt()).rejects.toMatchObject({ code: 'LOCK_STORE' });
  });

  it.each<[string, ScriptReply]>([
    ['a renewal', [NOW]],
    ['an acquire', [1, NOW, 70, 1, 1, NOW + 4_000, 0]],
    ['an inspection', ['w', 0]],
    ['an adoption of fewer locks', ['adopted', NOW, 0, MEMORY, ...hold(70)]],
  ])('does not believe the answer to %s', async (_, answer) => {
    const { adopt, trust, limits } = stage(answer);
    await expect(adopt()).rejects.toThrow(UnexpectedReplyError);
    expect(limits).toHaveLength(1);
    expect(trust.clock.before(0, 1_000, 1_000)).toBe(0);
  });
});
