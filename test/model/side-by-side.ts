/** Runs random acts against a store and the lock machine, and finds the shortest run in which they differ. */
import fc from 'fast-check';
import { runs, type Act } from './acts.js';
import { StoreAndMachine, type ModelTarget } from './store-and-machine.js';

/** Nothing ends before half of a first lease, and no run that took longer is judged. */
const LONGEST_UNDRIVEN_RUN_MS = 750;

export interface ModelRuns {
  /** Opens a store for one run, or gives the same one for all. */
  readonly open: () => ModelTarget | Promise<ModelTarget>;
  readonly numRuns: number;
  readonly mostActs: number;
  readonly seed?: number | undefined;
  /** A run that fails is enough; it is not made shorter. */
  readonly anyFailure?: boolean;
}

/** Performs random runs. Rejects with the seed, the shortest run found that fails, and what happened in it. */
export async function answersLikeTheMachine({ open, numRuns, mostActs, seed, anyFailure = false }: ModelRuns): Promise<void> {
  let run = 0;
  const { pass } = await open();
  const property = fc.asyncProperty(runs(mostActs, pass !== undefined), async (acts) => {
    const judged = await runSideBySide(await open(), acts, ++run);
    fc.pre(judged === 'same');
  });
  await fc.assert(property, { numRuns, ...(seed === undefined ? {} : { seed }), includeErrorInReport: true, endOnFailure: anyFailure, maxSkipsPerRun: 3 });
}

/** Performs the acts on both and leaves both without locks. Rejects, with all that happened, where the two differ. */
async function runSideBySide(target: ModelTarget, acts: readonly Act[], run: number): Promise<'same' | 'too slow to judge'> {
  const startedAt = target.clock.now();
  const tooSlow = (): boolean => target.pass === undefined && target.clock.now() - startedAt > LONGEST_UNDRIVEN_RUN_MS;
  const pair = new StoreAndMachine(target, run);
  const history: string[] = [];
  try {
    for (const act of acts) {
      history.push(JSON.stringify(act));
      history.push(`    ${JSON.stringify(await pair.perform(act))}`);
    }
    history.push('the end of the run');
    await pair.end();
    return tooSlow() ? 'too slow to judge' : 'same';
  } catch (error) {
    if (tooSlow()) return 'too slow to judge';
    throw new Error(`${error instanceof Error ? error.message : String(error)}\n\nafter\n${history.join('\n')}`, { cause: error });
  }
}
