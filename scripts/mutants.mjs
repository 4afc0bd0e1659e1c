// Applies each mutant of test/mutants/mutants.mjs in a copy of the tree, and shows what notices it. USAGE says how it is called.
//
// Each is looked for where the list says. Each lane has a copy of its own and takes the next mutant when it is done with one. The
// run fails when a mutant survives there, when its text is not there any more, or when a place fails without any mutant.
import { spawn } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { mutants } from '../test/mutants/mutants.mjs';
import { optionsOf } from './options-of.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const copies = join(root, 'build', `mutants-${process.pid}`);

const USAGE = `npm run mutants -- [options]
  --only <part>     only the mutants whose names contain this
  --from <part>     from the first mutant on whose name contains this
  --lanes <n>       how many mutants are looked at at a time, by default one for each core
  --seeds 60        how many seeds a simulation looks at for each mutant`;

const values = optionsOf(USAGE, { only: { type: 'string' }, from: { type: 'string' }, lanes: { type: 'string', default: String(availableParallelism()) }, seeds: { type: 'string', default: '60' } });

/** No look at a place without a mutant takes longer. */
const LONGEST_MS = 240_000;
// Scripts that were rebuilt differ from the committed ones.
const NOT_HERE = '--testPathIgnorePatterns=/node_modules/|build-lua|test/soak|test/simulation';
const JEST = ['--disable-warning=ExperimentalWarning', '--experimental-vm-modules', 'node_modules/jest/bin/jest.js', '--ci', '--bail', '--maxWorkers=1', NOT_HERE];
function copyTree(copy) {
  mkdirSync(copy, { recursive: true });
  for (const name of ['lib', 'test', 'scripts', 'docs', 'package.json', 'jest.config.mjs', 'tsconfig.json', 'tsconfig.build.json']) {
    cpSync(join(root, name), join(copy, name), { recursive: true });
  }
  symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'));
}

/** The children that run, each with all processes that it started. */
const running = new Set();

function stop({ pid }) {
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {
    // All have ended already.
  }
}

for (const signal of ['SIGINT', 'SIGTERM']) {
  process.once(signal, () => {
    running.forEach(stop);
    rmSync(copies, { recursive: true, force: true });
    process.exit(1);
  });
}

/** Resolves with how it ended and what it printed. */
function run(copy, args, limitMs = LONGEST_MS) {
  return new Promise((resolve) => {
    // A group of its own: a mutant that never ends keeps the processes busy that the tests were shared out to.
    const child = spawn(process.execPath, args, { cwd: copy, detached: true, stdio: ['ignore', 'pipe', 'pipe'], env: { ...process.env, CI: '1' } });
    running.add(child);
    let printed = '';
    child.stdout.on('data', (data) => (printed += data));
    child.stderr.on('data', (data) => (printed += data));
    const timer = setTimeout(() => {
      printed += `\nno end within ${Math.round(limitMs / 1000)} s`;
      stop(child);
    }, limitMs);
    child.on('exit', (code) => {
      clearTimeout(timer);
      stop(child);
      running.delete(child);
      resolve({ failed: code !== 0, printed });
    });
  });
}

/** What noticed that something is wrong, or undefined. */
async function look(copy, where, limitMs) {
  const simulated = /^(single|redlock|sentinel|cluster):(.*)$/.exec(where);
  if (simulated === null) {
    const { failed, printed } = await run(copy, [...JEST, `--testTimeout=${limitMs}`, where], limitMs);
    const file = /^FAIL (\S+)/m.exec(printed)?.[1] ?? where;
    return failed ? `${file}: ${/●\s+(.*?)\s*$/m.exec(printed)?.[1] ?? printed.trim().split('\n').at(-1)}` : undefined;
  }
  const [, topology, profile] = simulated;
  const args = ['--workers', '1', '--seeds', values.seeds, '--failures', '1', '--topology', topology, ...(profile === '' ? [] : ['--profile', profile])];
  const { failed, printed } = await run(copy, ['scripts/simulate.mjs', ...args], limitMs);
  if (!failed) return undefined;
  const [, seed, how, what] = /seed (\d+) \(([^)]*)\) broke a promise:\s+(.*)/.exec(printed) ?? [];
  return seed === undefined ? `simulations: ${printed.trim().split('\n').at(-1)}` : `seed ${seed} (${how}): ${what}`;
}

/** Plants it for one look, and takes it away again. */
async function lookWith(copy, { file, text, instead, where }, limitMs) {
  const path = join(copy, file);
  const generated = join(copy, 'lib/stores/wire/lua.generated.ts');
  const [original, scripts] = [readFileSync(path, 'utf8'), readFileSync(generated, 'utf8')];
  writeFileSync(path, original.replace(text, () => instead));
  try {
    const { failed, printed } = file.endsWith('.lua') ? await run(copy, ['scripts/build-lua.mjs']) : { failed: false };
    return failed ? `the build of the scripts: ${printed.trim().split('\n').at(-1)}` : await look(copy, where, limitMs);
  } finally {
    writeFileSync(path, original);
    writeFileSync(generated, scripts);
  }
}

const left = { survived: [], stale: [], failing: [] };
/** For each place that was looked at without a mutant: how long a look with one may take, or undefined where it failed, so that a failure there proves nothing. */
const limits = new Map();

async function limitOf(copy, place) {
  const startedAt = performance.now();
  const by = await look(copy, place, LONGEST_MS);
  if (by !== undefined) left.failing.push(`${place}: ${by}`);
  // A mutant that hangs is noticed by the limit, and one that only makes the place slower, or a machine that got busy, is not.
  return by === undefined ? Math.round(20_000 + 3 * (performance.now() - startedAt)) : undefined;
}

async function kill(copy, mutant) {
  const { file, text, where } = mutant;
  if (readFileSync(join(copy, file), 'utf8').split(text).length !== 2) return { stale: true };
  if (!limits.has(where)) limits.set(where, limitOf(copy, where));
  const limitMs = await limits.get(where);
  return limitMs === undefined ? { by: 'not looked for, because the place fails without any mutant' } : { by: await lookWith(copy, mutant, limitMs) };
}

const first = values.from === undefined ? 0 : mutants.findIndex(({ name }) => name.includes(values.from));
const chosen = mutants.slice(first).filter(({ name }) => values.only === undefined || name.includes(values.only));
const waiting = [...chosen];

async function lane(_, n) {
  const copy = join(copies, String(n));
  copyTree(copy);
  for (let mutant = waiting.shift(); mutant !== undefined; mutant = waiting.shift()) {
    const { name } = mutant;
    const { by, stale } = await kill(copy, mutant);
    if (stale) left.stale.push(name);
    else if (by === undefined) left.survived.push(name);
    console.log(`${name.padEnd(32)} | ${stale ? `STALE: its text is not in ${mutant.file} exactly once` : (by ?? `SURVIVED: ${mutant.breaks}`).slice(0, 160)}`);
  }
}

try {
  await Promise.all(Array.from({ length: Number(values.lanes) }, lane));
} finally {
  rmSync(copies, { recursive: true, force: true });
}
for (const place of left.failing) console.log(`fails without any mutant, so that it was left out: ${place}`);
console.log(`${chosen.length} mutants, ${left.survived.length} survived, ${left.stale.length} stale`);
process.exit(Object.values(left).every(({ length }) => length === 0) && chosen.length > 0 ? 0 : 1);
