/** What this process knows of the memory of its server, on virtual time, where a test says what the server answers. */
import { describe, expect, it } from '@jest/globals';
import { Memories, type MemoriesParts } from '../../../lib/stores/redis/memories.js';
import { NO_SERVER, RedisKeys, SLOT_GROUPS, UNKNOWN_MEMORY } from '../../../lib/stores/wire/redis-keys.js';
import { marginOf } from '../../../lib/stores/wire/server-clock.js';
import { FakeClock } from '../../support/fake-clock.js';
import { gate } from '../../support/locks.js';

/** The memory of a server that began to remember at this time. */
const memoryOf = (server: string, since = 0) => `${server.repeat(16)}:${String(since).padStart(13, '0')}`;
const ONE = memoryOf('1', 5_000);
const TWO = memoryOf('2', 6_000);

interface Call {
  readonly keys: readonly string[];
  readonly args: readonly (string | number)[];
  readonly timeoutMs?: number;
}

/** A server with a memory, and a process that asks it. */
function stage({ isCluster = false } = {}) {
  const clock = new FakeClock();
  const [calls, observed]: [Call[], unknown[]] = [[], []];
  const on = { memory: ONE, recoversForMs: 0, changes: 0, blind: '', hold: undefined as Promise<void> | undefined };
  const run = async (call: Call, decode: (reply: unknown, sentAt: number, receivedAt: number) => unknown) => {
    calls.push(call);
    const sentAt = clock.now();
    const reply = [77, on.recoversForMs, ...call.keys.map((key) => (key === on.blind ? `${NO_SERVER}0000000005000` : on.memory))];
    await on.hold;
    return decode(reply, sentAt, clock.now());
  };
  const trust = { floors: { of: (group: number) => 1_000 + group }, observe: (...given: unknown[]) => void observed.push(given) };
  const parts = { runner: { run }, keys: new RedisKeys('lock'), trust, clock, node: 'a:6379', isCluster, recoveryMs: 400, changed: () => void (on.changes += 1) };
  const memories = new Memories(parts as unknown as MemoriesParts);
  const booted = async () => {
    await memories.learnAtBoot();
    await clock.settle();
    calls.length = observed.length = 0;
    return Object.assign(on, { clock, memories, calls, observed });
  };
  return Object.assign(on, { clock, memories, calls, observed, booted });
}

describe('The memories of a server', () => {
  it('are not known before the boot, and are asked for by one command then, which tells the fences that were seen', async () => {
    const on = stage();
    expect([on.memories.of(3), on.memories.knownOf(3), on.memories.madeBy(3, Infinity)]).toEqual([UNKNOWN_MEMORY, undefined, undefined]);
    await on.memories.learnAtBoot();
    await on.clock.settle();
    expect(on.calls).toHaveLength(1);
    const [{ keys, args }] = on.calls as [Call];
    expect([keys.length, keys[3], args[0], args[4]]).toEqual([SLOT_GROUPS, new RedisKeys('lock').fence(3), 400, 1_003]);
    expect(on.observed).toEqual([[0, { sentAt: 1_000, receivedAt: 1_000, serverNow: 77 }]]);
    expect([on.memories.of(0), on.memories.knownOf(SLOT_GROUPS - 1), on.changes]).toEqual([ONE, ONE, 0]);
  });

  it('are asked for group by group in a Cluster, where each may have another master', async () => {
    const on = stage({ isCluster: true });
    await on.memories.learnAtBoot();
    await on.clock.settle();
    expect(on.calls.map(({ keys }) => keys)).toEqual(Array.from({ length: SLOT_GROUPS }, (_, group) => [new RedisKeys('lock').fence(group)]));
    expect(on.observed[9]).toMatchObject([9, {}]);
    expect(on.memories.of(9)).toBe(ONE);
  });

  it('are asked for once more when the connection was replaced while the first question was out', async () => {
    const on = stage();
    const answer = gate<void>();
    on.hold = answer.promise;
    const learnt = on.memories.learnAtBoot();
    await on.clock.settle();
    on.memories.reset();
    answer.open();
    await learnt;
    await on.clock.settle();
    expect([on.calls.length, on.memories.knownOf(0)]).toEqual([2, ONE]);
  });

  it('made a grant only when they had begun by then', async () => {
    const { memories } = await stage().booted();
    expect([4_999, 5_000, 5_001].map((at) => memories.madeBy(3, at))).toEqual([undefined, ONE, ONE]);
  });

  it('are forgotten with the connection, and another one that is found then is told, once for all groups, in the next turn of the event loop', async () => {
    const on = await stage().booted();
    on.memories.reset();
    expect(on.memories.knownOf(3)).toBeUndefined();
    on.memory = TWO;
    on.memories.recalls.atOnce();
    await Promise.resolve();
    expect(on.changes).toBe(0);
    await on.clock.settle();
    expect([on.memories.knownOf(3), on.changes]).toEqual([TWO, 1]);
    on.memory = ONE;
    on.memories.recalls.atOnce();
    await on.clock.settle();
    expect(on.changes).toBe(2);
  });

  it('that are the same on the next connection are told to nobody', async () => {
    const on = await stage().booted();
    on.memories.reset();
    on.memories.recalls.atOnce();
    await on.clock.settle();
    expect([on.memories.knownOf(3), on.changes]).toEqual([ONE, 0]);
  });

  it('are not learnt from the answer of an earlier connection', async () => {
    const on = await stage().booted();
    const answer = gate<void>();
    on.hold = answer.promise;
    on.memory = TWO;
    on.memories.recalls.atOnce();
    await on.clock.settle();
    on.memories.reset();
    answer.open();
    await on.clock.settle();
    expect([on.memories.knownOf(3), on.changes, on.observed.length]).toEqual([undefined, 0, 1]);
  });

  it('tell nobody of a change when the store is closed', async () => {
    const on = await stage().booted();
    on.memories.compare(3, TWO);
    on.memories.recalls.close();
    await on.clock.settle();
    expect(on.changes).toBe(0);
  });
});

describe('The memory that granted or brought back a lease', () => {
  it('is outdated when the server is known to have another one', async () => {
    const { memories } = await stage().booted();
    expect([ONE, TWO, undefined].map((memory) => memories.isOutdated(3, memory))).toEqual([false, true, true]);
    memories.reset();
    expect([ONE, TWO, undefined].map((memory) => memories.isOutdated(3, memory))).toEqual([false, false, false]);
  });

  it('and is outdated makes the process ask again and renew what it holds', async () => {
    const on = await stage().booted();
    on.memories.compare(3, ONE);
    await on.clock.settle();
    expect([on.calls.length, on.changes]).toEqual([0, 0]);
    on.memories.compare(3, TWO);
    on.memories.compare(4, TWO);
    await on.clock.settle();
    expect(on.changes).toBe(1);
    expect(on.calls.length).toBeGreaterThan(0);
    on.memories.compare(3, TWO);
    await on.clock.settle();
    expect(on.changes).toBe(2);
  });
});

describe('The message of a new memory', () => {
  it('makes the process ask when it is news', async () => {
    const on = await stage().booted();
    on.memories.hear(ONE);
    await on.clock.settle();
    expect(on.calls).toEqual([]);
    on.memories.hear(TWO);
    await on.clock.settle();
    expect(on.calls).toMatchObject([{ timeoutMs: 300 }]);
  });
});

describe('A server that recovers', () => {
  it('is waited for at boot, for as long as it says and a margin, and not longer than the boot may take', async () => {
    const on = stage();
    on.recoversForMs = 500;
    await on.memories.learnAtBoot();
    expect(on.memories.recoversForMs).toBe(500 + marginOf(500));
    const since = on.clock.now();
    for (const atMostMs of [1, 199]) await on.clock.runUntil(on.memories.recovered(atMostMs));
    expect(on.clock.now() - since).toBe(200);
    await on.clock.runUntil(on.memories.recovered(10_000));
    expect(on.clock.now() - since).toBe(500 + marginOf(500));
    expect(on.memories.recoversForMs).toBe(0);
    await on.memories.recovered(10_000);
    expect(on.clock.pendingTimers).toBe(0);
    expect(on.memories.recoveries).toBe(0);
  });

  it('that does not is not waited for', async () => {
    const { clock, memories } = await stage().booted();
    await memories.recovered(10_000);
    expect([clock.pendingTimers, memories.recoversForMs, memories.recoveries]).toEqual([0, 0, 0]);
  });

  it('is counted once for each time, however often it says so', async () => {
    const on = await stage().booted();
    const ask = async (recoversForMs: number) => {
      on.recoversForMs = recoversForMs;
      on.memories.recalls.atOnce();
      await on.clock.settle();
    };
    await ask(1);
    expect([on.memories.recoveries, on.memories.recoversForMs]).toEqual([1, expect.closeTo(1 + marginOf(1))]);
    await on.clock.advance(10);
    await ask(1_000);
    await ask(500);
    expect([on.memories.recoveries, on.memories.recoversForMs]).toEqual([2, 1_000 + marginOf(1_000)]);
    await on.clock.advance(1_000 + marginOf(1_000));
    await ask(500);
    expect(on.memories.recoveries).toBe(2);
    await on.clock.advance(2_000);
    await ask(0);
    expect([on.memories.recoveries, on.memories.recoversForMs]).toEqual([2, 0]);
    await ask(500);
    expect([on.memories.recoveries, on.memories.recoversForMs]).toEqual([3, 500 + marginOf(500)]);
  });
});

describe('A server that does not say who it is', () => {
  it('is told to the operator, with what to allow, when one of its groups is so', async () => {
    const on = await stage({ isCluster: true }).booted();
    expect(on.memories.blindness).toBeUndefined();
    on.blind = new RedisKeys('lock').fence(7);
    on.memories.recalls.atOnce();
    await on.clock.settle();
    expect(on.memories.blindness).toBe(
      'Locks: a:6379 does not tell its user who it is, so a restart or a failover that loses data is not noticed: two may hold a lock then. ' +
        'Allow +info (and +cluster|myid on a Cluster).',
    );
  });
});
