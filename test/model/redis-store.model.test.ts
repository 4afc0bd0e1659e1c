/** The scripts answer like the lock machine, act by act, on random runs against a real server. */
import { afterAll, it } from '@jest/globals';
import fc from 'fast-check';
import { systemClock } from '../../lib/core/port/clock.js';
import type { Wake } from '../../lib/core/port/lock-store.js';
import type { RedisStore } from '../../lib/stores/redis/redis-store.js';
import { startRedis } from '../support/redis-server.js';
import { closeStores, openRedisStore } from '../support/redis-store.js';
import { forAll } from '../support/started.js';
import { runs, type Act } from './acts.js';
import { StoreAndMachine, type ModelTarget } from './store-and-machine.js';

/** Nothing ends before half of a first lease, and no run that took longer is judged. */
const LONGEST_RUN_MS = 750;

afterAll(() => closeStores());
const server = forAll(startRedis);

it('the scripts answer like the lock machine', async () => {
  const wakes: Wake[] = [];
  const stores: [RedisStore, RedisStore] = [await openRedisStore(server.url, 'a'), await openRedisStore(server.url, 'b')];
  for (const store of stores) store.onWake((wake) => wakes.push(wake));
  let run = 0;
  const property = fc.asyncProperty(runs(25), async (acts) => {
    fc.pre(await answerAlike({ stores, wakes, clock: systemClock }, acts, ++run));
  });
  // Rejects with the seed, the shortest run found that fails, and what happened in it.
  await fc.assert(property, { numRuns: 200, includeErrorInReport: true, maxSkipsPerRun: 3 });
});

/** Performs the acts on both and leaves both without locks. Rejects, with all that happened, where they differ; false if it took too long to be judged. */
async function answerAlike(target: ModelTarget, acts: readonly Act[], run: number): Promise<boolean> {
  const startedAt = target.clock.now();
  const wasInTime = (): boolean => target.clock.now() - startedAt <= LONGEST_RUN_MS;
  const pair = new StoreAndMachine(target, run);
  const history: string[] = [];
  try {
    for (const act of acts) {
      history.push(JSON.stringify(act));
      history.push(`    ${JSON.stringify(await pair.perform(act))}`);
    }
    history.push('the end of the run');
    await pair.end();
    return wasInTime();
  } catch (error) {
    if (!wasInTime()) return false;
    throw new Error(`${error instanceof Error ? error.message : String(error)}\n\nafter\n${history.join('\n')}`, { cause: error });
  }
}
