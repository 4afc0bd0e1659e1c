/**
 * Holds that go from process to process by tickets, on a Redis, while processes are killed, answers are lost and tickets come twice or
 * late: nobody is in between, nobody adopts what another has adopted, and every lock is free again in time.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { DrivenProcess } from '../support/driven-process.js';
import { startFlakyProxy, type FlakyProxy } from '../support/flaky-proxy.js';
import { startRedis } from '../support/redis-server.js';
import { forAll } from '../support/started.js';

const HAND_OFFS = 1_000;
const KEYS = 10;
const MEMBERS = 3;
const CRASHES = 8;
const WITHIN_MS = 1_000;
const LEASE_MS = 1_000;
/** After the last fault a lock is free within a ticket or a lease, a first lease of a dead waiter, and what a busy machine takes. */
const FREE_WITHIN_MS = 6_000;

interface ToldHold {
  readonly key: string;
  readonly fence: number;
  readonly from: number;
  readonly until: number;
}

/** An adoption that succeeded, with the fence under which the ticket was given. */
interface Handed {
  readonly given: ToldHold;
  readonly adopted: ToldHold;
}

const proxies: FlakyProxy[] = [];
const members: DrivenProcess[] = [];

async function start(n: number): Promise<void> {
  const options = { redis: proxies[n]!.url, leaseMs: LEASE_MS, commandTimeoutMs: 400, recoveryMs: 0 };
  const member = new DrivenProcess('test/support/ticket-process.mjs', { options });
  await member.ready;
  members[n] = member;
}

afterAll(async () => {
  await Promise.all(members.map((member) => (member.isUp ? member.kill() : undefined)));
  await Promise.all(proxies.map((proxy) => proxy.stop()));
});
const redis = forAll(startRedis);
beforeAll(async () => {
  for (let n = 0; n < MEMBERS; n++) proxies.push(await startFlakyProxy(redis.port));
  await Promise.all(proxies.map((_, n) => start(n)));
});

it(`${HAND_OFFS} hand-offs with crashes on both sides, lost answers and late tickets: nobody in between, no double adoption, fences rise, all free in the end`, async () => {
  const holds: ToldHold[] = [];
  const handed: Handed[] = [];
  const problems: string[] = [];
  const outcomes = { adopted: 0, late: 0, used: 0, crashed: 0, failed: 0 };
  let [left, crashes] = [HAND_OFFS, CRASHES];
  const restarts: Promise<void>[] = [];

  const someone = (not?: DrivenProcess): DrivenProcess => {
    const up = members.filter((member) => member.isUp && member !== not);
    return up[Math.floor(Math.random() * up.length)] ?? members[0]!;
  };
  /** At most one of the processes is down at a time. */
  const mayCrash = (): boolean => crashes > 0 && members.every(({ isUp }) => isUp) && Math.random() < 0.05 && crashes-- > 0;
  const replaceDead = (): void => members.forEach((member, n) => !member.isUp && restarts.length < 1 && restarts.push(start(n).finally(() => restarts.splice(0))));
  const failed = (error: { readonly code?: string; readonly message: string }): void => {
    if (error.message.includes('came too late')) outcomes.late += 1;
    else if (error.message.includes('was adopted already')) outcomes.used += 1;
    else if (error.message.includes('ended')) outcomes.crashed += 1;
    else if (['LOCK_STORE', 'LOCK_LOST', 'LOCK_TIMEOUT'].includes(error.code ?? '')) outcomes.failed += 1;
    else problems.push(`${error.code}: ${error.message}`);
  };
  const adopt = async (given: ToldHold, ticket: string, dies?: 'asking' | 'working'): Promise<boolean> => {
    try {
      const adopted = await someone().ask<ToldHold>('adopt', { ticket, dies });
      holds.push(adopted);
      handed.push({ given, adopted });
      outcomes.adopted += 1;
      return true;
    } catch (error) {
      failed(error as Error);
      return false;
    }
  };
  const oneKey = async (key: string): Promise<void> => {
    while (left-- > 0) {
      replaceDead();
      try {
        const giverDies = mayCrash();
        const late = Math.random() < 0.03;
        const { hold, ticket } = await someone().ask<{ hold: ToldHold; ticket: string }>('give', { key, withinMs: late ? 20 : WITHIN_MS, dies: giverDies });
        holds.push(hold);
        if (late) await pause(60);
        const dies = mayCrash() ? (Math.random() < 0.5 ? 'asking' : 'working') : undefined;
        const twice = Math.random() < 0.2;
        const tries = [adopt(hold, ticket, dies), ...(twice ? [adopt(hold, ticket)] : [])];
        if ((await Promise.all(tries)).filter(Boolean).length > 1) problems.push(`a ticket of '${key}' was adopted twice`);
      } catch (error) {
        failed(error as Error);
        // The end of a process that was killed is known a moment after it answers no more.
        await pause(10);
      }
    }
  };
  let working = true;
  /** Strangers that want the same locks all the time. */
  const intrude = async (key: string): Promise<void> => {
    for (; working; await pause(20)) {
      await someone().ask<ToldHold>('take', { key, waitMs: 2_000 }).then((hold) => holds.push(hold), failed);
    }
  };
  const loseAnswers = async (): Promise<void> => {
    for (; working; await pause(1_000)) {
      const proxy = proxies[Math.floor(Math.random() * MEMBERS)]!;
      proxy.dropReplies(true);
      await pause(250);
      // A stream from which bytes are missing cannot go on: the connections end with what was lost.
      proxy.resetConnections();
      proxy.dropReplies(false);
    }
  };

  const keys = Array.from({ length: KEYS }, (_, n) => `order:${n}`);
  const around = [...keys.map(intrude), loseAnswers()];
  await Promise.all(keys.map(oneKey));
  working = false;
  await Promise.all(around);
  await Promise.all(restarts);
  replaceDead();
  await Promise.all(restarts);
  const since = performance.now();
  await Promise.all(keys.map(async (key) => holds.push(await someone().ask<ToldHold>('take', { key, waitMs: FREE_WITHIN_MS }))));
  console.log(`${JSON.stringify(outcomes)}, ${holds.length} holds, free after ${Math.round(performance.now() - since)} ms`);

  expect(problems).toEqual([]);
  expect(inBetween(handed, holds)).toEqual([]);
  expect(keys.flatMap((key) => disorder(holds.filter((hold) => hold.key === key)))).toEqual([]);
  expect(outcomes.adopted).toBeGreaterThan(HAND_OFFS / 2);
  expect(outcomes.late).toBeGreaterThan(0);
  expect(outcomes.used).toBeGreaterThan(0);
  expect(outcomes.crashed).toBeGreaterThan(0);
});

/** Holds of the same lock with a fence between those of giver and adopter. */
function inBetween(handed: readonly Handed[], holds: readonly ToldHold[]): string[] {
  return handed.flatMap(({ given, adopted }) =>
    holds.filter(({ key, fence }) => key === given.key && fence > given.fence && fence < adopted.fence).map(({ fence }) => `'${given.key}': ${fence} was between ${given.fence} and ${adopted.fence}`),
  );
}

/** Holds of one lock that were trusted at one time, or whose fences did not rise. */
function disorder(holds: readonly ToldHold[]): string[] {
  const inOrder = [...holds].sort((one, other) => one.fence - other.fence);
  return inOrder.slice(1).flatMap((hold, n) => {
    const before = inOrder[n]!;
    if (hold.fence === before.fence) return [`'${hold.key}': fence ${hold.fence} was given twice`];
    return hold.from < before.until ? [`'${hold.key}': fence ${hold.fence} began at ${hold.from}, and ${before.fence} was trusted until ${before.until}`] : [];
  });
}
