// Runs tests with one mutant alive, as often as it is told to. A process of its own: a mutant may loop for ever.
import { basename } from 'node:path';
import { pathToFileURL } from 'node:url';

const { setTimeout, clearTimeout } = globalThis;
/** How long a test may take on top of five times what it takes without a mutant, in ms. */
const PATIENCE_MS = 1_000;
/** How long a test file may take to load, in ms: on a busy machine longer than most tests. */
const LOADING_MS = 60_000;
let alive = Number(process.env.MUTANT ?? 0);
let hits = new Set();
globalThis.__mutant = (id) => (hits.add(id), id === alive);
/** What nobody caught since the test began. A rejection that somebody handles later, as jest sees it, is none. */
let stray = new Map();
process.on('uncaughtException', (error) => stray.set(error, error));
process.on('unhandledRejection', (error, promise) => stray.set(promise, error));
process.on('rejectionHandled', (promise) => stray.delete(promise));

const { newFile, takeTests } = await import('./test-globals.mjs');
const loaded = new Map();
/** The tests of a file by name. */
async function testsOf(file) {
  if (!loaded.has(file)) {
    process.send({ beginsFor: LOADING_MS });
    newFile();
    await import(pathToFileURL(file));
    loaded.set(file, byName(takeTests()));
  }
  return loaded.get(file);
}

/** Tests of one name, of which a file may have several, are numbered. */
function byName(tests) {
  const named = new Map();
  for (const test of tests) {
    let name = test.name;
    for (let n = 2; named.has(name); n += 1) name = `${test.name} (${n})`;
    named.set(name, test);
  }
  return named;
}

/** Resolves with why the test failed, or undefined. */
async function run({ run: body, scopes }, { ms = 6_000 }) {
  let timer;
  const mostMs = PATIENCE_MS + 5 * ms;
  process.send({ beginsFor: mostMs });
  const end = new Promise((_, reject) => (timer = setTimeout(() => reject(new Error('no end')), mostMs)));
  end.catch(() => undefined);
  stray = new Map();
  let failed;
  const attempt = async (step) => {
    try {
      await Promise.race([(async () => step())(), end]);
    } catch (error) {
      failed ??= String(error?.message ?? error).split('\n')[0];
    }
  };
  const inner = [...scopes].reverse();
  for (const step of [...scopes.flatMap((each) => each.beforeAll), ...scopes.flatMap((each) => each.beforeEach), body]) if (failed === undefined) await attempt(step);
  for (const step of [...inner.flatMap((each) => each.afterEach), ...inner.flatMap((each) => each.afterAll)]) await attempt(step);
  await new Promise((resolve) => void setImmediate(resolve));
  clearTimeout(timer);
  for (const error of stray.values()) failed ??= `nobody caught: ${error?.message ?? error}`;
  return failed;
}

/** Every test of these files without a mutant: what it takes, and which mutants it comes by. */
async function look(files) {
  const [seen, atLoad] = [[], new Set()];
  for (const file of files) {
    hits = atLoad;
    const tests = await testsOf(file).catch((error) => void seen.push({ file, name: basename(file), failed: `does not load: ${error.message}`, ms: 0, hits: [] }));
    for (const [name, test] of tests ?? []) {
      hits = new Set();
      const [startedAt, before] = [performance.now(), process.cpuUsage()];
      const failed = await run(test, {});
      const { user, system } = process.cpuUsage(before);
      seen.push({ file, name, failed, ms: performance.now() - startedAt, cpuMs: (user + system) / 1_000, hits: [...hits] });
    }
  }
  return { seen, atLoad: [...atLoad] };
}

/** The first of the tests that notices the mutant, and whether it fails without the mutant as well by now. */
async function judge(mutant, tests, isFresh) {
  for (const told of tests) {
    const inFile = await testsOf(told.file).catch((error) => `does not load: ${error?.message}`);
    if (typeof inFile === 'string') return { by: told, failed: inFile };
    // A name may hold what was printed when the file was loaded, such as a promise, and be another one in this process.
    const test = inFile.get(told.name);
    if (test === undefined) continue;
    const attempt = (id) => ((alive = id), run(test, told));
    const failed = await attempt(mutant);
    if (failed === undefined) continue;
    // A mutant that is there from the start cannot be taken away again.
    return { by: told, failed, spoilt: !isFresh && (await attempt(0)) !== undefined };
  }
  return {};
}

process.on('message', async ({ files, mutant, tests, isFresh }) => {
  const answer = files === undefined ? await judge(mutant, tests, isFresh) : await look(files);
  alive = 0;
  process.send(answer);
});
process.send({ ready: true });
