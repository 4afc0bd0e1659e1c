/** Leaders in processes of their own that are restarted, killed, stopped and cut off. */
import { afterEach, describe, expect, it } from '@jest/globals';
import type { LockModuleOptions } from '../../lib/nest/lock-module-options.js';
import { startCandidate, type Candidate, type ToldTerm } from '../support/candidate.js';
import { eventually } from '../support/eventually.js';
import { startFlakyProxy } from '../support/flaky-proxy.js';
import { startRedis } from '../support/redis-server.js';
import { forAll } from '../support/started.js';

const LEASE_MS = 2_000;
/** Less than half of the time until a waiter asks again: a hand-over whose message does not come has to wait for that. */
const HAND_OVER_MS = 300;
/** A lease, and what it takes to notice that it has ended. */
const FAILOVER_MS = LEASE_MS + 1_000;
const PROCESSES = 5;
const ROUNDS = 3;

const candidates: Candidate[] = [];

const redis = forAll(startRedis);
const proxy = forAll(() => startFlakyProxy(redis.port));

afterEach(async () => {
  await Promise.all(candidates.splice(0).map((candidate) => candidate.kill()));
  await redis.command('FLUSHALL');
});

async function start(options: LockModuleOptions = {}, loaded = false): Promise<Candidate> {
  const candidate = await startCandidate({ redis: redis.url, leaseMs: LEASE_MS, ...options }, loaded);
  candidates.push(candidate);
  return candidate;
}

/** The clock that the processes measure with, in ms. */
const now = (): number => Number(process.hrtime.bigint()) / 1e6;

const allTerms = (): ToldTerm[] => candidates.flatMap(({ terms }) => terms).sort((a, b) => a.from - b.from);

/** Who leads, and the term, once that is a term with a higher fence than this. */
async function nextAfter(fence: number): Promise<{ leader: Candidate; term: ToldTerm }> {
  let found: { leader: Candidate; term: ToldTerm } | undefined;
  await eventually(() => {
    const [leader] = candidates.filter(({ terms }) => (terms.at(-1)?.fence ?? 0) > fence);
    found = leader && { leader, term: leader.terms.at(-1)! };
    expect(found).toBeDefined();
  }, 10_000);
  return found!;
}

/** No two terms were trusted at one time, and their fences rise. What a killed process did not tell ended before the kill. */
function expectOneAfterTheOther(killedAt = Infinity): void {
  const terms = allTerms();
  for (const [n, next] of terms.slice(1).entries()) {
    const before = terms[n]!;
    expect(next.fence).toBeGreaterThan(before.fence);
    expect(next.from).toBeGreaterThan(before.until ?? killedAt);
  }
}

describe('A role', () => {
  it('passes from process to process in a rolling restart by SIGTERM within one hand-over each', async () => {
    while (candidates.length < PROCESSES) await Promise.all([start({}, true), start({}, true)]);
    const gaps: number[] = [];
    let { leader, term } = await nextAfter(0);
    for (let round = 0; round < ROUNDS; round++) {
      leader.terminate();
      const next = await nextAfter(term.fence);
      expect(await leader.exited).toEqual({ code: 0, signal: null });
      expect(leader.errors).toBe('');
      const { endedAt, until } = leader.terms.at(-1)!;
      expect(endedAt! - until!).toBeLessThan(HAND_OVER_MS);
      gaps.push(next.term.from - endedAt!);
      ({ leader, term } = next);
      await start({}, true);
    }
    console.log(`rolling restart of a leader among ${PROCESSES} processes: no leader for ${gaps.map((gap) => gap.toFixed(1)).join(', ')} ms`);
    for (const gap of gaps) expect(gap).toBeLessThan(HAND_OVER_MS);
    expect(allTerms()).toHaveLength(ROUNDS + 1);
    expectOneAfterTheOther();
  });

  it('has its next leader within a lease and a second after the present one was killed', async () => {
    await Promise.all([start(), start(), start()]);
    const { leader, term } = await nextAfter(0);
    const killedAt = now();
    await leader.kill();
    const next = await nextAfter(term.fence);
    expect(next.term.from - killedAt).toBeLessThan(FAILOVER_MS);
    expectOneAfterTheOther(killedAt);
  });

  it('has its next leader within a lease and a second after the present one was stopped, which finds out before it goes on', async () => {
    await Promise.all([start(), start(), start()]);
    const { leader, term } = await nextAfter(0);
    const pausedAt = now();
    leader.pause();
    const next = await nextAfter(term.fence);
    leader.resume();
    expect(next.term.from - pausedAt).toBeLessThan(FAILOVER_MS);
    expect(await leader.isLeader()).toBe(false);
    await eventually(() => expect(leader.terms[0]!.endedAt).toBeDefined());
    expect(await next.leader.isLeader()).toBe(true);
    expectOneAfterTheOther();
  });

  it('has its next leader within a lease and a second after the connection of the present one was cut, which is told before', async () => {
    await start({ redis: proxy.url });
    const { leader, term } = await nextAfter(0);
    await Promise.all([start(), start()]);
    const cutAt = now();
    await proxy.cut();
    const next = await nextAfter(term.fence);
    expect(next.term.from - cutAt).toBeLessThan(FAILOVER_MS);
    await eventually(() => expect(leader.terms[0]!.endedAt).toBeDefined());
    expect(leader.terms[0]!.toldAt).toBeLessThan(next.term.from);
    await proxy.heal();
    // It stands again, and leads when the others have gone.
    await Promise.all(candidates.filter((candidate) => candidate !== leader).map((candidate) => candidate.close()));
    expect((await nextAfter(next.term.fence)).leader).toBe(leader);
    expectOneAfterTheOther();
  });
});
