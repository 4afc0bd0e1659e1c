/**
 * Fault runs of `npm run test:faults`: each scenario once, a few of them side by side, since most of a run is waiting. What must
 * never happen fails the test at once, and so does a bound of time that was not kept while the machine let the test run. While it did
 * not, nobody can tell what was late: then the run is repeated until it can be judged. The long runs (`npm run test:soak`) excuse nothing.
 */
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Crew } from './crew.js';
import { runFault, type FaultRun, type Scenario } from './fault-run.js';
import { FencedResource } from './fenced-resource.js';
import { explain, faultTable, isKept } from './table.js';

const SIDE_BY_SIDE = 3;
/** With a greater share of standstill in a run nothing is said about what was late in it. */
const MOST_STARVED = 0.03;
const MOST_RUNS = 6;

/** One test for each scenario, and one that the processes end by themselves afterwards. */
export function shortRuns(title: string, scenarios: readonly Scenario[], seed = 1): void {
  describe(title, () => {
    const crew = new Crew();
    const results = new Map<Scenario, Promise<FaultRun>>();
    let resource: FencedResource;

    beforeAll(async () => {
      resource = await FencedResource.start();
      const waiting = [...scenarios];
      const finished = new Map(scenarios.map((scenario) => [scenario, withResolvers<FaultRun>()]));
      for (const [scenario, { promise }] of finished) {
        promise.catch(() => {});
        results.set(scenario, promise);
      }
      const lane = async () => {
        for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
          const { resolve, reject } = finished.get(next)!;
          await judged(next, seed, crew, resource).then(resolve, reject);
        }
      };
      for (let n = 0; n < SIDE_BY_SIDE; n++) void lane();
    });

    afterAll(async () => {
      if (process.env['HOLDFAST_FAULT_TABLE']) console.info(faultTable(await Promise.all(results.values())));
      await resource.stop();
    });

    for (const scenario of scenarios) {
      it(`keeps every promise when it is: ${scenario.name}`, async () => {
        const run = await results.get(scenario)!;
        expect(isKept(run.verdict) ? '' : explain(run)).toBe('');
        expect(run.verdict.figures.grants).toBeGreaterThan(20);
      });
    }

    it('leaves processes that end by themselves once their applications are closed', async () => {
      await Promise.allSettled(results.values());
      const codes = await crew.dismiss();
      expect(codes).toEqual(codes.map(() => 0));
    });
  });
}

/** The first run that could be judged. */
async function judged(scenario: Scenario, seed: number, crew: Crew, resource: FencedResource): Promise<FaultRun> {
  for (let runs = 1; ; runs++) {
    const run = await runFault(scenario, seed, crew, resource);
    const { late, broken, starved } = run.verdict;
    if (late.length === 0 || broken.length > 0 || starved <= MOST_STARVED) return run;
    const standstill = `the machine let this test stand still for ${(100 * starved).toFixed(0)} % of the run`;
    if (runs === MOST_RUNS) throw new Error(`This machine is too busy to judge what is late: ${standstill}, in the last of ${runs} runs. ${explain(run)}`);
    console.info(`Not judged, because ${standstill}: ${explain(run)}`);
  }
}

interface Resolvers<T> {
  readonly promise: Promise<T>;
  resolve(value: T): void;
  reject(error: unknown): void;
}

function withResolvers<T>(): Resolvers<T> {
  const resolvers = {} as { -readonly [K in keyof Resolvers<T>]: Resolvers<T>[K] };
  resolvers.promise = new Promise<T>((resolve, reject) => Object.assign(resolvers, { resolve, reject }));
  return resolvers;
}
