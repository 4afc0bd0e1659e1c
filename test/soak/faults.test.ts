/**
 * Fault runs, many times over with seeds of their own; prints a table. `npm run test:soak -- --help` says how to choose.
 */
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { everyScenario } from '../faults/crew/every-scenario.js';
import { Crew } from '../faults/crew/crew.js';
import { runFault, type FaultRun, type Scenario } from '../faults/crew/fault-run.js';
import { FencedResource } from '../faults/crew/fenced-resource.js';
import { explain, faultTable, isKept } from '../faults/crew/table.js';

const wanted = process.env['HOLDFAST_SCENARIO'] ?? '';
const firstSeed = Number(process.env['HOLDFAST_SEED'] ?? Math.floor(Math.random() * 100_000));
const runs = Number(process.env['HOLDFAST_RUNS'] ?? 5);
const sideBySide = Number(process.env['HOLDFAST_SIDE_BY_SIDE'] ?? 2);
const hours = Number(process.env['HOLDFAST_HOURS'] ?? 0);
const ONE_RUN_MS = 120_000;

const chosen = everyScenario.filter(({ name, topology }) => name.includes(wanted) || topology === wanted);
const endsAt = performance.now() + hours * 3_600_000;
/** No scenario has more: what one run takes beyond the share of its scenario is missing to those that follow. */
const greatestShareMs = (hours * 3_600_000) / Math.max(1, chosen.length);
let scenariosLeft = chosen.length;
/** So long the next scenario is run with one seed after another, when hours were asked for and not a number of runs. */
const nextShareMs = (): number => (endsAt - performance.now()) / scenariosLeft--;
const finished: FaultRun[] = [];
/** How many seeds the scenario with the most runs has had. */
let seeds = 1;
const crew = new Crew();
let resource: FencedResource;

beforeAll(async () => {
  resource = await FencedResource.start();
});

afterAll(async () => {
  const codes = await crew.dismiss();
  await resource.stop();
  process.stdout.write(`\n${faultTable(finished)}\n\nseeds ${firstSeed} to ${firstSeed + seeds - 1}; the processes ended with ${codes.join(', ')}\n`);
});

it('there is such a scenario', () => expect(chosen.map(({ name }) => name)).not.toEqual([]));

it.each(chosen.map((scenario): [string, Scenario] => [scenario.name, scenario]))('every promise is kept when it is: %s', async (_, scenario) => {
  const until = performance.now() + nextShareMs();
  const ended: FaultRun[] = [];
  let begun = 0;
  const lane = async () => {
    while (hours > 0 ? performance.now() < until || begun === 0 : begun < runs) {
      const run = await runFault(scenario, firstSeed + begun++, crew, resource);
      ended.push(run);
      finished.push(run);
    }
  };
  await Promise.all(Array.from({ length: sideBySide }, lane));
  seeds = Math.max(seeds, begun);
  const broken = ended.filter(({ verdict }) => !isKept(verdict));
  expect(broken.map(explain).join('\n')).toBe('');
}, (hours > 0 ? greatestShareMs : runs * ONE_RUN_MS) + ONE_RUN_MS);
