// Runs the long tests: npm run test:soak -- [--scenario <part of its name, or a topology>] [--seed <first>] [--runs <of each>, or
// --hours <for all together>] [--side-by-side <at once>]. With the name of a scenario and a seed that a run printed, the same faults happen again. Without
// a scenario the test of a hundred thousand leases runs too. `--scenario 'recovery: cluster'` holds many leases while a server forgets.
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const { values } = parseArgs({
  options: {
    scenario: { type: 'string' },
    seed: { type: 'string' },
    runs: { type: 'string' },
    hours: { type: 'string' },
    'side-by-side': { type: 'string' },
    help: { type: 'boolean' },
  },
});
if (values.help) {
  console.log('npm run test:soak -- [--scenario <part of a name, or single, sentinel, cluster, redlock>] [--seed N] [--runs N | --hours N] [--side-by-side N]');
  process.exit(0);
}
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
