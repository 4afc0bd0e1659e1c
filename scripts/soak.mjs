// Runs the long tests: without a scenario also that of a hundred thousand leases. USAGE says how it is called.
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { optionsOf } from './options-of.mjs';

const USAGE = `npm run test:soak -- [options]
  --scenario <part>          only the scenarios whose names contain this, or a topology; 'recovery: cluster' holds many leases while a server forgets
  --seed <number>            the first seed; that which a run printed makes the same faults happen again
  --runs <number>            how many runs of each scenario; --hours <number>: for how long all together
  --side-by-side <number>    how many at once`;

const values = optionsOf(USAGE, {
  scenario: { type: 'string' },
  seed: { type: 'string' },
  runs: { type: 'string' },
  hours: { type: 'string' },
  'side-by-side': { type: 'string' },
});
const env = { ...process.env };
if (values.scenario !== undefined) env.HOLDFAST_SCENARIO = values.scenario;
if (values.seed !== undefined) env.HOLDFAST_SEED = values.seed;
env.HOLDFAST_RUNS = values.runs ?? (values.seed === undefined ? '5' : '1');
if (values.hours !== undefined) env.HOLDFAST_HOURS = values.hours;
if (values['side-by-side'] !== undefined) env.HOLDFAST_SIDE_BY_SIDE = values['side-by-side'];
const one = values.scenario?.startsWith('recovery:') === true ? 'test/soak/recovery' : 'test/soak/faults';
const chosen = values.scenario === undefined ? 'test/soak/' : one;
const { status } = spawnSync(
  process.execPath,
  ['--disable-warning=ExperimentalWarning', '--experimental-vm-modules', 'node_modules/jest/bin/jest.js', '--runInBand', chosen, '--testPathIgnorePatterns=/node_modules/'],
  { cwd: fileURLToPath(new URL('..', import.meta.url)), env, stdio: 'inherit' },
);
process.exit(status ?? 1);
