/** Processes that all want one lock of a Redlock, on five masters: nobody is left out, with all nodes there or a minority gone. */
import { beforeEach, describe, expect, it } from '@jest/globals';
import { LockService } from '../../../lib/lock.service.js';
import { eventually } from '../../support/eventually.js';
import type { RedisServer } from '../../support/redis-server.js';
import { openRedlock, startVoters } from '../../support/redlock-store.js';
import { forEachTest } from '../../support/started.js';

const PROCESSES = ['p1', 'p2', 'p3', 'p4'];
let services: LockService[];
const masters = forEachTest(() => startVoters(5), () => Promise.all(services.map((service) => service.close())));
beforeEach(async () => {
  services = await Promise.all(PROCESSES.map(async (process) => new LockService({ store: await openRedlock(masters, process), process, waitMs: 60_000 })));
});

/** Which process had each turn, in their order, while four callers in each want the lock again and again. */
async function turnsOfAll(turns: number): Promise<number[]> {
  const order: number[] = [];
  const calling = services.flatMap((service, process) =>
    Array.from({ length: 4 }, async () => {
      while (order.length < turns) {
        await service.withLock('hot', async () => {
          order.push(process);
          await new Promise<void>((resolve) => void setImmediate(resolve));
        });
      }
    }),
  );
  await Promise.all(calling);
  return order;
}

/** How many turns others had at most between two runs of turns of one process. */
function longestAbsence(order: readonly number[]): number {
  return Math.max(
    ...PROCESSES.map((_, process) => {
      const own = [-1, ...order.flatMap((each, at) => (each === process ? [at] : [])), order.length];
      return Math.max(...own.slice(1).map((at, before) => at - own[before]! - 1));
    }),
  );
}

describe('Four processes of four callers that want one lock of a Redlock', () => {
  const faults: readonly [string, (node: RedisServer) => Promise<void>][] = [
    ['all nodes there', async () => {}],
    ['one node dead', (node) => node.kill()],
    ['one node frozen', (node) => node.pause()],
  ];

  it.each(faults)('%s: nobody is left out, and each has about as many turns', async (_, fault) => {
    await fault(masters[0]!);
    const order = await turnsOfAll(1_600);
    const shares = PROCESSES.map((__, process) => order.filter((each) => each === process).length);
    expect(Math.max(...shares)).toBeLessThanOrEqual(1.5 * Math.min(...shares));
    // 16 turns of each of three others are a round; a vote that was split may cost a few.
    expect(longestAbsence(order)).toBeLessThanOrEqual(4 * 3 * 16);
  });
});

describe('A holder on a Redlock', () => {
  it('hears of those who wait: it hands the lock on among its own callers no longer than on one Redis', async () => {
    const [first, second] = services as [LockService, LockService];
    let turns = 0;
    let wanted = Infinity;
    const calling = Array.from({ length: 4 }, async () => {
      while (wanted === Infinity) await first.withLock('hot', () => void ++turns);
    });
    await eventually(() => expect(turns).toBeGreaterThan(100));
    const before = turns;
    await second.withLock('hot', () => void (wanted = turns));
    await Promise.all(calling);
    expect(wanted).toBeGreaterThanOrEqual(before);
    expect((await second.inspect('hot')).holders).toHaveLength(0);
  });

  it('that gives the lock back leaves no mark of anybody behind', async () => {
    await turnsOfAll(200);
    await eventually(async () => {
      const left = (await Promise.all(masters.map((master) => master.command('KEYS', '{lock:*}:[lm]:*') as Promise<string[]>))).flat();
      expect(left).toEqual([]);
    });
  });
});

describe('A waiter on a Redlock that gives up', () => {
  it('takes its mark away: the next one need not wait for it', async () => {
    const [holder, waiter] = services as [LockService, LockService];
    const lease = await holder.acquire('hot');
    await expect(waiter.acquire('hot', { waitMs: 300 })).rejects.toMatchObject({ code: 'LOCK_TIMEOUT' });
    await eventually(async () => {
      const marks = (await Promise.all(masters.map((master) => master.command('KEYS', '{lock:*}:m:*') as Promise<string[]>))).flat();
      expect(marks).toEqual([]);
    }, 1_000);
    await lease.release();
  });
});
