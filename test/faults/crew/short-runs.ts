/**
 * Fault runs of `npm run test:faults`: each scenario once, a few of them side by side, since most of a run is waiting. What must
 * never happen fails the test at once. A bound of time that was not kept is tried again, because this machine may have
 * had other work to do; the long runs (`npm run test:soak`) excuse nothing.
 */
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Crew } from './crew.js';
import { runFault, type FaultRun, type Scenario } from './fault-run.js';
import { FencedResource } from './fenced-resource.js';
import { explain, faultTable, isKept } from './table.js';

const SIDE_BY_SIDE = 3;
const TRIES = 3;
const LONGEST_MS = 180_000;

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
          await runInTime(next, seed, crew, resource).then(resolve, reject);
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
      }, LONGEST_MS);
    }

    it('leaves processes that end by themselves once their applications are closed', async () => {
      await Promise.allSettled(results.values());
      const codes = await crew.dismiss();
      expect(codes).toEqual(codes.map(() => 0));
    }, LONGEST_MS);
  });
}

/** The first run that was in time, or the last. */
async function runInTime(scenario: Scenario, seed: number, crew: Crew, resource: FencedResource): Promise<FaultRun> {
  for (let tries = 1; ; tries++) {
    const run = await runFault(scenario, seed, crew, resource);
    if (run.verdict.late.length === 0 || run.verdict.broken.length > 0 || tries === TRIES) return run;
    console.info(`not in time, tried again: ${explain(run)}`);
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
