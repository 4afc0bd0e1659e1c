// Applies each mutant of test/mutants/mutants.mjs in turn in a copy of the tree, and shows what notices it. USAGE says how it is called.
//
// First where the list says, which is where it costs least; then the simulations, then the tests of core, the model and the
// stores. Fails when one survives, when its text is not there any more, or when a place fails without any mutant.
import { spawn } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { mutants } from '../test/mutants/mutants.mjs';
import { optionsOf } from './options-of.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const copy = join(root, 'build', `mutants-${process.pid}`);

const USAGE = `npm run mutants -- [options]
  --only <part>     only the mutants whose names contain this
  --from <part>     from the first mutant on whose name contains this
  --seeds 60        how many seeds a simulation looks at for each mutant`;

const values = optionsOf(USAGE, { only: { type: 'string' }, from: { type: 'string' }, seeds: { type: 'string', default: '60' } });

/** No look takes longer. */
const LONGEST_MS = 240_000;
// A busy machine is no defect: only what hangs runs into the timeout. Scripts that were rebuilt differ from the committed ones.
const JEST = [
  '--disable-warning=ExperimentalWarning', '--experimental-vm-modules', 'node_modules/jest/bin/jest.js', '--ci', '--bail', '--maxWorkers=2', '--testTimeout=200000',
];
const NOT_HERE = '--testPathIgnorePatterns=/node_modules/|build-lua|test/soak|test/simulation';
/** Where a mutant is looked for when it was not found where the list says. */
const EVERYWHERE = ['single:', 'redlock:', 'sentinel:', 'test/core|test/stores/memory', 'test/lua', 'test/contract/redis-store-simulated|test/model|test/stores/(redis|wire)/', 'test/contract/redlock|test/stores/redlock'];

function copyTree() {
  mkdirSync(copy, { recursive: true });
  for (const name of ['lib', 'test', 'scripts', 'docs', 'package.json', 'jest.config.mjs', 'tsconfig.json', 'tsconfig.build.json']) {
    cpSync(join(root, name), join(copy, name), { recursive: true });
  }
  symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'));
}

/** The child that runs, with all processes that it started. */
let running;

function stop({ pid }) {
  process.kill(-pid, 'SIGKILL');
}

for (const signal of ['SIGINT', 'SIGTERM']) {
  process.once(signal, () => {
    if (running) stop(running);
    rmSync(copy, { recursive: true, force: true });
    process.exit(1);
  });
}

/** Resolves with how it ended and what it printed. */
function run(args) {
  return new Promise((resolve) => {
    // A group of its own: a mutant that never ends keeps the processes busy that the tests were shared out to.
    const child = spawn(process.execPath, args, { cwd: copy, detached: true, stdio: ['ignore', 'pipe', 'pipe'], env: { ...process.env, CI: '1' } });
    running = child;
    let printed = '';
    child.stdout.on('data', (data) => (printed += data));
    child.stderr.on('data', (data) => (printed += data));
    const timer = setTimeout(() => {
      printed += `\nno end within ${LONGEST_MS / 1000} s`;
      stop(child);
    }, LONGEST_MS);
    child.on('exit', (code) => {
      clearTimeout(timer);
      running = undefined;
      resolve({ failed: code !== 0, printed });
    });
  });
}

/** What noticed that something is wrong, or undefined. */
async function look(where) {
  const simulated = /^(single|redlock|sentinel|cluster):(.*)$/.exec(where);
  if (simulated === null) {
    const { failed, printed } = await run([...JEST, where, NOT_HERE]);
    const file = /^FAIL (\S+)/m.exec(printed)?.[1] ?? where;
    return failed ? `${file}: ${/●\s+(.*?)\s*$/m.exec(printed)?.[1] ?? printed.trim().split('\n').at(-1)}` : undefined;
  }
  const [, topology, profile] = simulated;
  const { failed, printed } = await run(['scripts/simulate.mjs', '--workers', '2', '--seeds', values.seeds, '--failures', '1', '--topology', topology, ...(profile === '' ? [] : ['--profile', profile])]);
  if (!failed) return undefined;
  const [, seed, how, what] = /seed (\d+) \(([^)]*)\) broke a promise:\s+(.*)/.exec(printed) ?? [];
  return seed === undefined ? `simulations: ${printed.trim().split('\n').at(-1)}` : `seed ${seed} (${how}): ${what}`;
}

/** Plants it for one look, and takes it away again. */
async function lookWith({ file, text, instead }, place) {
  const path = join(copy, file);
  const generated = join(copy, 'lib/stores/wire/lua.generated.ts');
  const [original, scripts] = [readFileSync(path, 'utf8'), readFileSync(generated, 'utf8')];
  writeFileSync(path, original.replace(text, () => instead));
  try {
    const { failed, printed } = file.endsWith('.lua') ? await run(['scripts/build-lua.mjs']) : { failed: false };
    return failed ? `the build of the scripts: ${printed.trim().split('\n').at(-1)}` : await look(place);
  } finally {
    writeFileSync(path, original);
    writeFileSync(generated, scripts);
  }
}

const clean = new Set();
const left = { survived: [], stale: [], failing: [] };

/** Whether a place passes without any mutant: else its failure proves nothing. It is looked at twice, because the machine may be busy. */
async function isClean(place) {
  if (clean.has(place)) return true;
  const by = (await look(place)) && (await look(place));
  if (by === undefined) clean.add(place);
  else left.failing.push(`${place}: ${by}`);
  return by === undefined;
}

async function kill(mutant) {
  const { file, text, where } = mutant;
  if (readFileSync(join(copy, file), 'utf8').split(text).length !== 2) return { stale: true };
  for (const place of [where, ...EVERYWHERE.filter((other) => other !== where)]) {
    const by = (await isClean(place)) ? await lookWith(mutant, place) : undefined;
    if (by !== undefined) return { by };
  }
  return { by: undefined };
}

const first = values.from === undefined ? 0 : mutants.findIndex(({ name }) => name.includes(values.from));
const chosen = mutants.slice(first).filter(({ name }) => values.only === undefined || name.includes(values.only));
copyTree();
try {
  for (const mutant of chosen) {
    const { name } = mutant;
    const { by, stale } = await kill(mutant);
    if (stale) left.stale.push(name);
    else if (by === undefined) left.survived.push(name);
    console.log(`${name.padEnd(32)} | ${stale ? `STALE: its text is not in ${mutant.file} exactly once` : (by ?? `SURVIVED: ${mutant.breaks}`).slice(0, 160)}`);
  }
} finally {
  rmSync(copy, { recursive: true, force: true });
}
for (const place of left.failing) console.log(`fails without any mutant, so that it was left out: ${place}`);
console.log(`${chosen.length} mutants, ${left.survived.length} survived, ${left.stale.length} stale`);
process.exit(Object.values(left).every(({ length }) => length === 0) && chosen.length > 0 ? 0 : 1);
