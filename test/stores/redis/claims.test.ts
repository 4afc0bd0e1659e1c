/** What a process does when its server may have forgotten, on virtual time, where a test says what the server answers. */
import { describe, expect, it } from '@jest/globals';
import { LockStoreError } from '../../../lib/core/port/errors.js';
import type { Finding, StoreEvent } from '../../../lib/core/port/lock-events.js';
import { Recovery } from '../../../lib/stores/redis/recovery.js';
import { Memories, type RemoteRedis } from '../../../lib/stores/redis/remote-redis.js';
import { RedisKeys, SLOT_GROUPS, UNKNOWN_MEMORY, UNTIL_TOLD_MS } from '../../../lib/stores/wire/redis-keys.js';
import { marginOf } from '../../../lib/stores/wire/server-clock.js';
import { FakeClock } from '../../support/fake-clock.js';
import { gate } from '../../support/locks.js';

const keys = new RedisKeys('lock');
const ONE = `${'1'.repeat(16)}:0000000005000`;
const TWO = `${'2'.repeat(16)}:0000000006000`;
const [A, B] = ['a', 'b'] as const;
const [GROUP_A, GROUP_B] = [keys.groupOf(A), keys.groupOf(B)];

interface Call {
  readonly keys: readonly string[];
  readonly args: readonly (string | number)[];
  readonly timeoutMs?: number;
}

/** A server with a memory, and a process that holds the locks `a` and `b`, and whose reviews bring all of them back. */
async function booted({ isCluster = false, memory = ONE, recoveryMs = 400 } = {}) {
  const clock = new FakeClock();
  const done: string[] = [];
  const calls: Call[] = [];
  const on = {
    memory, recoversForMs: 0, hold: undefined as Promise<void> | undefined, isDown: false, isDamaged: false, reviewing: undefined as Promise<void> | undefined, bringsBack: true,
    held: [{ key: A, id: 'p.1', memory }, { key: B, id: 'p.2', memory }], forgot: [] as number[], serverNow: 9_000,
    told: [] as Finding[], events: [] as StoreEvent[],
  };
  const groupsOf = ({ keys: fenceKeys, args }: Call) => fenceKeys.map((key, n) => ({ group: Number(/:(\d+)}/.exec(key)![1]), claims: args[2 * n + 3] === 1 }));
  const run = async (call: Call, decode: (reply: unknown, sentAt: number, receivedAt: number) => unknown) => {
    calls.push(call);
    const groups = groupsOf(call);
    const claimed = groups.filter(({ claims }) => claims).length;
    done.push(isCluster ? `${claimed > 0 ? 'claims' : 'is through with'} ${groups.map(({ group }) => group).join()}` : `claims ${claimed} of ${groups.length}`);
    const sentAt = clock.now();
    const reply = [77, on.recoversForMs, call.keys.map(() => [on.memory, 0])];
    await on.hold;
    if (on.isDown) throw new LockStoreError('not connected', {});
    if (on.isDamaged) throw new LockStoreError('WRONGTYPE', { retryable: false });
    return decode(reply, sentAt, clock.now());
  };
  const trust = { floors: { highest: Array.from({ length: SLOT_GROUPS }, (_, group) => 1_000 + group) }, clock: { lowerBound: () => on.serverNow, observe: () => {} } };
  const memories = new Memories();
  const review = async (doubt: string) => {
    done.push(`reviews ${doubt}`);
    await on.reviewing;
    if (on.bringsBack) for (const lease of on.held) if (memories.isOutdated(keys.groupOf(lease.key), lease.memory)) lease.memory = memories.known[keys.groupOf(lease.key)]!;
  };
  const server = { runner: { run }, keys, trust, memories, clock, isCluster, node: 'a:6379', process: 'p', recoveryMs, report: (finding: Finding) => void on.told.push(finding) } as unknown as RemoteRedis;
  const recovery = new Recovery(server, (group) => void on.forgot.push(group));
  recovery.onDoubt(review, () => on.held);
  recovery.listener = (event) => void on.events.push(event);
  await recovery.learnAtBoot();
  await clock.settle();
  const atBoot = done.splice(0);
  const bootCall = calls[0]!;
  return Object.assign(on, { clock, memories, recovery, done, calls, atBoot, bootCall });
}

describe('A process that boots', () => {
  it('learns the memories of all groups by one command, which tells the fences that were seen, and claims nothing', async () => {
    const { atBoot, bootCall, memories } = await booted();
    expect(atBoot).toEqual([`claims 0 of ${SLOT_GROUPS}`]);
    expect([bootCall.keys[3], bootCall.args.slice(0, 4)]).toEqual([keys.fence(3), ['p', 400, 1_000, 0]]);
    expect(memories.known[255]).not.toBe(UNKNOWN_MEMORY);
  });
});

describe('A server that may have forgotten', () => {
  it('is told first of all in which groups something is held, then gets it back, and is told when all is back', async () => {
    const on = await booted();
    [on.memory, on.recoversForMs] = [TWO, 400];
    on.recovery.suspect();
    expect(on.done).toEqual([`claims 2 of ${SLOT_GROUPS}`]);
    await on.clock.settle();
    expect(on.done).toEqual([`claims 2 of ${SLOT_GROUPS}`, 'reviews some', `claims 0 of ${SLOT_GROUPS}`]);
    expect(on.forgot).toHaveLength(SLOT_GROUPS);
    await on.clock.advance(500);
    expect([on.done.length, on.clock.pendingTimers]).toEqual([3, 0]);
  });

  it('is asked by every lease after a new connection, also when it has forgotten nothing', async () => {
    const on = await booted();
    on.recovery.suspect(() => true, 'all');
    await on.clock.settle();
    expect(on.done).toEqual([`claims 2 of ${SLOT_GROUPS}`, 'reviews some', 'reviews all']);
  });

  it('is claimed until it answers, and at once when something happens that may have brought it back', async () => {
    const on = await booted();
    on.isDown = true;
    on.recovery.suspect(() => true, 'all');
    await on.clock.advance(5_000);
    const tries = on.done.length;
    expect(tries).toBeGreaterThan(5);
    expect(tries).toBeLessThan(25);
    await on.clock.advance(60_000);
    expect(on.done.length).toBeGreaterThan(2 * tries);
    const later = on.done.length;
    on.isDown = false;
    on.recovery.suspect();
    await on.clock.settle();
    expect(on.done.slice(later)).toEqual([`claims 2 of ${SLOT_GROUPS}`, 'reviews some', 'reviews all']);
  });

  it('S7: is claimed at once when a message tells that it serves again, and not only after the pause', async () => {
    const on = await booted({ isCluster: true });
    on.isDown = true;
    on.recovery.suspect((group) => group === GROUP_A);
    await on.clock.advance(10_000);
    const before = on.done.length;
    [on.isDown, on.memory, on.recoversForMs] = [false, TWO, 400];
    on.recovery.heard(GROUP_A, TWO);
    await on.clock.settle();
    expect(on.done[before]).toBe(`claims ${GROUP_A}`);
  });

  it('C3: has everything renewed once for all groups of a Cluster that are claimed meanwhile, and not once for each', async () => {
    const on = await booted({ isCluster: true });
    const reviewed = gate<void>();
    on.reviewing = reviewed.promise;
    for (const group of [GROUP_A, GROUP_B]) {
      on.recovery.suspect((each) => each === group, 'all');
      await on.clock.settle();
    }
    reviewed.open();
    await on.clock.settle();
    expect(on.done.filter((what) => what === 'reviews all')).toHaveLength(1);
  });

  it.each([[true, 'of a Cluster no more'], [false, 'until it answers, because a node of a Redlock votes again only then']])('is asked, once this process holds nothing (in a Cluster: %s), %s', async (isCluster) => {
    const on = await booted({ isCluster, recoveryMs: isCluster ? 400 : UNTIL_TOLD_MS });
    on.isDown = true;
    on.recovery.suspect(() => true, 'all');
    on.held.length = 0;
    await on.clock.advance(5_000);
    const tries = on.done.length;
    await on.clock.advance(60_000);
    expect([on.done.length > 2 * tries, on.clock.pendingTimers]).toEqual(isCluster ? [false, 0] : [true, 1]);
    on.isDown = false;
    await on.clock.advance(5_000);
    expect(on.done.at(-1) === 'reviews all').toBe(!isCluster);
  });

  it('is claimed once when it refuses, because a record is damaged, and what is held is renewed all the same', async () => {
    const on = await booted();
    on.isDamaged = true;
    on.recovery.suspect(() => true, 'all');
    await on.clock.advance(60_000);
    expect(on.done).toEqual([`claims 2 of ${SLOT_GROUPS}`, 'reviews some', 'reviews all']);
    expect(on.clock.pendingTimers).toBe(0);
  });

  it('is asked nothing more, and no timer is left, once the store is closed', async () => {
    const on = await booted();
    [on.memory, on.recoversForMs, on.bringsBack] = [TWO, 400, false];
    on.recovery.suspect();
    await on.clock.advance(1_000);
    on.recovery.close();
    await on.clock.settle();
    expect(on.clock.pendingTimers).toBe(0);
  });

  it('gets no second claim while the first is on its way, because a server that is only busy would be kept busy by them', async () => {
    const on = await booted();
    const answer = gate<void>();
    on.hold = answer.promise;
    on.recovery.suspect();
    await on.clock.advance(1_900);
    expect(on.done).toEqual([`claims 2 of ${SLOT_GROUPS}`]);
    answer.open();
    await on.clock.settle();
    expect(on.done).toEqual([`claims 2 of ${SLOT_GROUPS}`, 'reviews some']);
    expect(on.calls[1]!.timeoutMs).toBeUndefined();
  });

  it('is claimed until the memory is known of which all is back, also when another connection ends meanwhile', async () => {
    const on = await booted({ isCluster: true });
    const answer = gate<void>();
    [on.hold, on.memory, on.recoversForMs] = [answer.promise, TWO, 400];
    on.recovery.suspect((group) => group === GROUP_A);
    on.memories.reset();
    answer.open();
    await on.clock.advance(5_000);
    expect([on.done, on.memories.known[GROUP_A]]).toEqual([[`claims ${GROUP_A}`, 'reviews some', `claims ${GROUP_A}`, 'reviews some', `is through with ${GROUP_A}`], TWO]);
  });

  it('is claimed no longer once what was not back yet has been released, so that its locks are not closed for seconds after', async () => {
    const on = await booted({ isCluster: true });
    [on.memory, on.recoversForMs, on.bringsBack] = [TWO, 400, false];
    on.recovery.suspect((group) => group === GROUP_A);
    await on.clock.settle();
    on.held.shift();
    await on.clock.advance(200);
    expect(on.done.slice(0, 4)).toEqual([`claims ${GROUP_A}`, 'reviews some', `is through with ${GROUP_A}`, 'reviews some']);
    await on.clock.advance(5_000);
    expect([on.done.length, on.clock.pendingTimers]).toEqual([5, 0]);
  });

  it('is claimed until all is back or has ended', async () => {
    const on = await booted();
    [on.memory, on.recoversForMs, on.bringsBack] = [TWO, 400, false];
    on.recovery.suspect();
    await on.clock.advance(10_000);
    const tries = on.done.length;
    expect(tries).toBeGreaterThan(10);
    expect(on.done).not.toContain(`claims 0 of ${SLOT_GROUPS}`);
    on.held.length = 0;
    // Longer than the longest pause between two tries, which is random.
    await on.clock.advance(5_000);
    expect(on.done.length).toBeLessThan(tries + 5);
    expect(on.clock.pendingTimers).toBe(0);
  });
});

describe('The message that a slot group has another memory', () => {
  it('makes a process of a Cluster ask for that group, if it holds something there, and for no other', async () => {
    const on = await booted({ isCluster: true });
    [on.memory, on.recoversForMs] = [TWO, 400];
    on.recovery.heard(GROUP_A, TWO);
    on.recovery.heard(GROUP_B + 1, TWO);
    await on.clock.settle();
    expect(on.done).toEqual([`claims ${GROUP_A}`, 'reviews some', `is through with ${GROUP_A}`]);
  });

  it('is not believed when no server has such a memory', async () => {
    const on = await booted({ isCluster: true });
    on.held.splice(0);
    on.recovery.heard(GROUP_A, '');
    expect([on.forgot, on.memories.known[GROUP_A]]).toEqual([[], ONE]);
  });

  it('makes the process ask once more when it tells of what the claim on its way did not find', async () => {
    const on = await booted();
    const answer = gate<void>();
    on.hold = answer.promise;
    on.recovery.suspect();
    on.recovery.heard(GROUP_A, TWO);
    [on.memory, on.hold] = [TWO, undefined];
    answer.open();
    await on.clock.settle();
    expect(on.done.filter((what) => what.startsWith('claims 2'))).toHaveLength(2);
    expect(on.memories.known[GROUP_A]).toBe(TWO);
  });

  it('says to a process of a Cluster that holds nothing there how long the group stays closed: from the time in its name', async () => {
    const on = await booted({ isCluster: true });
    on.held.splice(0);
    on.serverNow = 6_100;
    on.recovery.heard(GROUP_A, TWO);
    expect([on.recovery.recoversForMs, on.done, on.forgot]).toEqual([300, [], [GROUP_A]]);
    on.serverNow = 0; // not known
    on.recovery.heard(GROUP_B, TWO);
    expect([on.recovery.recoversForMs, on.recovery.recoveries]).toEqual([400, 1]);
  });
});

describe('A node of a Cluster that came or went', () => {
  it('is asked for the groups that it serves and in which something is held', async () => {
    const on = await booted({ isCluster: true });
    on.recovery.suspect((group) => group !== GROUP_B);
    await on.clock.settle();
    expect(on.done).toEqual([`claims ${GROUP_A}`, 'reviews some']);
  });
});

describe('The memory that granted or brought back a lease', () => {
  it('makes the process ask when it is not the one that is known, in the turn in which the lease is known', async () => {
    const on = await booted({ isCluster: true });
    on.recovery.compare(GROUP_A, ONE, 0);
    await on.clock.settle();
    expect(on.done).toEqual([]);
    on.memory = TWO;
    on.recovery.compare(GROUP_A, TWO, 0);
    expect(on.done).toEqual([]);
    await on.clock.settle();
    expect(on.done[0]).toBe(`claims ${GROUP_A}`);
  });

  it('is learnt on a new connection without asking, and is news when there was another one before', async () => {
    const on = await booted({ isCluster: true });
    on.memories.reset();
    on.recovery.compare(GROUP_A, ONE, 1);
    await on.clock.settle();
    expect([on.done, on.memories.known[GROUP_A]]).toEqual([[], ONE]);
    on.memory = TWO;
    on.recovery.compare(GROUP_B, TWO, 1);
    await on.clock.settle();
    expect([on.done.slice(0, 2).sort(), on.forgot]).toEqual([[`claims ${GROUP_B}`, 'reviews some'], [GROUP_B]]);
  });
});

describe('A server that recovers', () => {
  it('is waited for at boot, for as long as it says and a margin, and not longer than the boot may take', async () => {
    const on = await booted();
    on.recoversForMs = 500;
    await on.recovery.learnAtBoot();
    expect(on.recovery.recoversForMs).toBe(500 + marginOf(500));
    const since = on.clock.now();
    await on.clock.runUntil(on.recovery.recovered(199));
    expect(on.clock.now() - since).toBe(199);
    await on.clock.runUntil(on.recovery.recovered(10_000));
    expect(on.clock.now() - since).toBe(500 + marginOf(500));
    await on.recovery.recovered(10_000);
    expect([on.clock.pendingTimers, on.recovery.recoversForMs]).toEqual([0, 0]);
  });
});

describe('The news that a server forgot', () => {
  const [SERVER, OTHER] = [`${'a'.repeat(16)}:`, `${'b'.repeat(16)}:`];
  const node = (run: string, id: string): string => `${run.repeat(8)}${id.repeat(8)}@`;
  const MS = '0000000006000';

  /** A process of a Cluster that holds nothing, and hears of the memory that a server has in some of its groups, which it says at its time 6,000. */
  async function hears(before: string, after: string, recoveryMs = 1_015) {
    const on = await booted({ isCluster: true, memory: before + MS, recoveryMs });
    on.held.splice(0);
    on.serverNow = 6_000;
    on.recovery.broughtBack = 3;
    for (let group = 0; group < 86; group += 1) on.recovery.heard(group, after + MS);
    return on;
  }

  it('is one line and event for all slot groups, with the reason and for how long it grants nothing new, and one when that is over', async () => {
    const on = await hears(SERVER, OTHER);
    expect(on.told).toEqual([{ kind: 'recovery of a:6379', level: 'warning', message: expect.stringMatching(/^Locks: a:6379 was restarted, or another server took its place, .* grants nothing new for 1015 ms;/) }]);
    await on.clock.advance(1_014);
    on.recovery.heard(86, OTHER + MS);
    on.recovery.broughtBack = 63;
    await on.clock.advance(1_014);
    expect(on.told).toHaveLength(1);
    await on.clock.advance(1);
    expect(on.told.slice(1)).toEqual([{ kind: 'end of the recovery of a:6379', level: 'info', message: 'Locks: a:6379 grants again. Leases brought back by this process: 60.' }]);
    const common = { store: 'a:6379', reason: 'restarted-or-replaced' };
    expect(on.events).toEqual([{ ...common, type: 'storeForgot', forMs: 1_015 }, { ...common, type: 'storeRecovered', afterMs: 2_029, broughtBack: 60 }]);
    on.recovery.heard(87, OTHER + MS);
    on.recovery.close();
    await on.clock.advance(5_000);
    expect([on.told.length, on.clock.pendingTimers]).toEqual([3, 0]);
  });

  it.each([
    [SERVER, SERVER, 'was flushed, or loaded other data'],
    [node('a', 'c'), node('b', 'c'), 'has a node that was restarted'],
    [node('a', 'c'), node('b', 'd'), 'has another master for some slots'],
  ])('has the reason that the names of its memories show (%s, %s)', async (before, after, reason) => {
    const on = await booted({ isCluster: true, memory: `${before}0000000005000` });
    on.held.splice(0);
    on.recovery.heard(GROUP_A, after + MS);
    expect(on.told).toMatchObject([{ message: expect.stringMatching(new RegExp(`a:6379 ${reason}, and may .* grants again by now`)) }]);
  });

  it.each([[0, 'nothing is recovered'], [UNTIL_TOLD_MS, 'a Redlock tells it']])('is not told by this store with a recoveryMs of %d: %s', async (recoveryMs) => {
    const on = await hears(SERVER, OTHER, recoveryMs);
    expect([on.forgot.length, on.told, on.events]).toEqual([86, [], []]);
  });
});

describe('What a process knows of the memories of its server', () => {
  it('counts for one connection: on the next, which may lead to another server, requests name none', () => {
    const memories = new Memories();
    memories.learn(7, 'm1', memories.generation);
    expect(memories.known[7]).toBe('m1');
    memories.reset();
    expect(memories.known[7]).toBe(UNKNOWN_MEMORY);
  });
});
