// Mutation testing: changes one thing after another in lib/ and shows which changes no test notices (docs/maintainers/proof.md):
//
//   npm run mutation -- --folder lib/core/lease [--folder …] [--workers 1] [--tests test/core] [--only 'part of a line'] [--again <output>]
//
// --again takes what an earlier run printed, and looks only at what survived it.
//
// All mutants stand in one build of the library and are switched on one at a time, so that nothing is loaded again between
// two of them; a test is only asked about the mutants that it comes by. The tests are those that need no server: first a few
// seconds' worth of them, the nearest first, and when these notice nothing all others. Mutants that nothing can notice are explained in test/mutants/equivalent.mjs. Fails when one survives without being explained,
// or when what the list explains is not there any more.
import { fork } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join, relative } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { transformSync } from '@swc/core';
import jestConfig from '../jest.config.mjs';
import { equivalent } from '../test/mutants/equivalent.mjs';
import { mutantsOf } from './mutation/mutants-of.mjs';
import suites from './suites.cjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const built = join(root, 'build', `mutation-${process.pid}`);
const { values } = parseArgs({
  options: {
    folder: { type: 'string', multiple: true, default: ['lib/core/lease'] },
    tests: { type: 'string', multiple: true, default: ['core', 'contract', 'nest', 'stores', 'testing', 'telemetry', 'terminus'].map((name) => `test/${name}/`) },
    only: { type: 'string' },
    again: { type: 'string' },
    workers: { type: 'string', default: '1' },
  },
});
/** So long the tests of one distance compute together that are asked first about a mutant, in ms, and so long each of them at most. */
const ASKED_MS = 2_000;
const CROWD_MS = 300;
const FILES_OF_A_PROCESS = 6;
/** A worker is replaced after so many mutants. */
const MUTANTS_OF_A_PROCESS = 200;
/** A process that has not said anything for so long, or for GRACE_MS longer than its test may take, hangs: it is stopped. */
const LONGEST_MS = 60_000;
const GRACE_MS = 2_000;

const under = (folder) => readdirSync(join(root, folder), { recursive: true }).map((name) => join(folder, name)).filter((name) => name.endsWith('.ts') && !name.includes('node_modules'));
const isMutated = (file) => values.folder.some((folder) => file.startsWith(folder)) && !file.endsWith('.generated.ts');

/** Compiles lib/ and test/ as jest does, the library with its mutants. */
function build() {
  const mutants = [];
  const [, options] = jestConfig.transform['\\.ts$'];
  const url = (path) => JSON.stringify(pathToFileURL(path).href);
  for (const file of [...under('lib'), ...under('test')]) {
    let text = readFileSync(join(root, file), 'utf8');
    if (isMutated(file)) {
      const made = mutantsOf(file, text, mutants.length + 1);
      text = made.text;
      mutants.push(...made.mutants);
    }
    const { code } = transformSync(text, { ...options, swcrc: false, configFile: false, filename: file, sourceMaps: false });
    const target = join(built, file).replace(/\.ts$/, '.js');
    mkdirSync(dirname(target), { recursive: true });
    writeFileSync(target, code.replaceAll(/(from|import\() ?['"](@jest\/globals|nestjs-holdfast(?:\/\w+)?)['"]/g, (_, word, name) => {
      const entry = name === '@jest/globals' ? join(root, 'scripts/mutation/test-globals.mjs') : join(built, name.replace('nestjs-holdfast', 'lib'), 'index.js');
      return `${word} ${url(entry)}`;
    }));
  }
  return mutants;
}

/** A process that runs tests; `ask` resolves with its answer, or with `hung` when it had to be stopped. */
function startWorker(env = {}) {
  const child = fork(join(root, 'scripts/mutation/worker.mjs'), [], { cwd: root, stdio: ['ignore', 'ignore', process.env.MUTATION_ERRORS ? 'inherit' : 'ignore', 'ipc'], serialization: 'advanced', execArgv: ['--stack-trace-limit=3', '--max-old-space-size=1500'], env: { ...process.env, CI: '1', ...env } });
  let hear = () => undefined;
  child.on('message', (told) => hear(told));
  child.on('exit', () => hear({ hung: true }));
  // Resolves with the next answer. A worker says when it begins with a test, and for how long that may take at most.
  const next = (atMostMs) => new Promise((resolve) => {
    let timer;
    const wait = (ms) => (timer = setTimeout(() => hear({ hung: true }), ms));
    hear = (told) => {
      clearTimeout(timer);
      if (told.beginsFor === undefined) resolve(told);
      else wait(told.beginsFor + GRACE_MS);
    };
    wait(atMostMs);
  });
  const ready = next(LONGEST_MS);
  const ask = async (question, ms = LONGEST_MS) => {
    const first = await ready;
    if (first.hung) return first;
    child.send(question);
    return next(ms);
  };
  return { ask, stop: () => child.kill('SIGKILL'), judged: 0 };
}

/** Judges the mutants one after another; a worker that hangs, or in which a test fails without a mutant, is replaced. */
async function work(queue, judged) {
  let worker = startWorker();
  const restart = (env) => (worker.stop(), (worker = startWorker(env)));
  for (let mutant = queue.shift(); mutant; mutant = queue.shift()) {
    if (mutant.isAtLoad) restart({ MUTANT: String(mutant.id) });
    const asked0 = performance.now();
    const question = { mutant: mutant.id, tests: mutant.tests, isFresh: mutant.isAtLoad };
    let answer = await worker.ask(question);
    if (answer.spoilt && worker.judged > 0) answer = await restart().ask(question);
    worker.judged += 1;
    if (process.env.MUTATION_TRACE) console.log(`  ${Math.round(performance.now() - asked0)} ms, ${mutant.isAtLoad ? 'at load, ' : ''}${mutant.tests.length} tests: ${shown(mutant)}: ${answer.hung ? 'hung' : `${answer.by?.name ?? ''}: ${answer.failed}`}${answer.spoilt ? ' SPOILT' : ''}`);
    judged(mutant, answer);
    if (answer.hung || answer.spoilt || mutant.isAtLoad || worker.judged >= MUTANTS_OF_A_PROCESS) restart();
  }
  worker.stop();
}

/** What every test comes by. A process runs a few files only: what they leave behind stays in its memory. */
async function look(files) {
  const all = { seen: [], atLoad: new Set() };
  for (let from = 0; from < files.length; from += FILES_OF_A_PROCESS) {
    const worker = startWorker();
    const { seen, atLoad, hung } = await worker.ask({ files: files.slice(from, from + FILES_OF_A_PROCESS) }, 600_000);
    worker.stop();
    if (hung) throw new Error(`Without a mutant there was no end in one of ${files.slice(from, from + FILES_OF_A_PROCESS).join(', ')}`);
    all.seen.push(...seen);
    for (const id of atLoad) all.atLoad.add(id);
  }
  return all;
}

const isExplained = (mutant, { file, lines, from, to }) =>
  mutant.file === file && lines.some((line) => mutant.lineText.includes(line)) && (from === undefined || mutant.from === from) && (to === undefined || to.includes(mutant.to));
const shown = ({ file, line, from, to }) => `${file}:${line}  ${from}  →  ${to === '' ? '(left out)' : to}`;

/** 0 for the tests that are named after the file, 1 for those of its folder, 2 for those beside that, as of another room of the core, 3 for all others. */
function distance(test, file) {
  const place = relative(built, test.file);
  if (basename(place).startsWith(`${basename(file, '.ts')}.`)) return 0;
  const folder = dirname(file).replace(/^lib/, 'test');
  if (dirname(place) === folder) return 1;
  return place.startsWith(`${folder.split('/').slice(0, 2).join('/')}/`) ? 2 : 3;
}

/** The tests that are asked about a mutant, in this order, until one of them notices it. */
function asked(tests, file) {
  const sorted = tests.map((test) => ({ ...test, away: distance(test, file) })).sort((a, b) => a.away - b.away || a.cpuMs - b.cpuMs);
  const sums = [0, 0, 0, 0];
  const quick = new Set(sorted.filter(({ away, cpuMs }) => cpuMs < CROWD_MS && (sums[away] += cpuMs) < ASKED_MS));
  return [...quick, ...sorted.filter((test) => !quick.has(test))];
}

async function main() {
  const mutants = build();
  const chosen = under('test').filter((file) => file.endsWith('.test.ts') && values.tests.some((part) => file.startsWith(part))).map((file) => join(root, file));
  const files = chosen.filter((file) => !suites.startsServers(file));
  const { seen, atLoad } = await look(files.map((file) => join(built, relative(root, file)).replace(/\.ts$/, '.js')));
  for (const test of seen) if (test.failed !== undefined) console.log(`does not pass without a mutant, and is left out: ${test.name}: ${test.failed}`);
  const passing = seen.filter(({ failed }) => failed === undefined);
  const hitBy = new Map(mutants.map(({ id }) => [id, []]));
  const comeBy = new Map(mutants.map(({ file }) => [file, new Set()]));
  for (const { hits, ...test } of passing) for (const id of hits) (hitBy.get(id).push(test), comeBy.get(mutants[id - 1].file).add(test));
  const before = values.again === undefined ? '' : readFileSync(values.again, 'utf8').replaceAll(/:\d+  /g, '  ');
  const lived = (mutant) => ['survived', 'not reached'].some((how) => before.includes(`${how}: ${shown(mutant).replace(/:\d+  /, '  ')}\n`));
  const wanted = mutants.filter((mutant) => (values.only === undefined || mutant.lineText.includes(values.only)) && (values.again === undefined || lived(mutant)));
  for (const mutant of wanted) {
    mutant.isAtLoad = atLoad.has(mutant.id);
    mutant.tests = asked(mutant.isAtLoad ? [...comeBy.get(mutant.file)] : hitBy.get(mutant.id), mutant.file);
  }
  console.log(`${wanted.length} mutants, ${passing.length} tests in ${files.length} files`);

  const startedAt = Date.now();
  const survivors = [];
  let killed = 0;
  const judged = (mutant, { by, hung: isHung }) => {
    if (by !== undefined || isHung) killed += 1;
    else survivors.push(mutant), console.log(`survived: ${shown(mutant)}`);
  };
  const open = wanted.filter((mutant) => !equivalent.some((reason) => isExplained(mutant, reason)));
  const queue = open.filter(({ tests }) => tests.length > 0);
  await Promise.all(Array.from({ length: Number(values.workers) }, () => work(queue, judged)));
  const uncovered = open.filter(({ tests }) => tests.length === 0);
  for (const mutant of uncovered) console.log(`not reached: ${shown(mutant)}`);
  const reasons = equivalent.filter(({ file }) => isMutated(file)).flatMap((reason) => reason.lines.map((line) => ({ ...reason, lines: [line] })));
  const stale = reasons.filter((reason) => !mutants.some((mutant) => isExplained(mutant, reason)));
  for (const { file, lines } of stale) console.log(`explained, but not there any more: ${file}: ${lines}`);
  console.log(`${values.folder.join(' ')}: ${wanted.length} mutants, ${killed} noticed, ${wanted.length - open.length} explained, ${survivors.length} survived, ${uncovered.length} not reached, ${Math.round((Date.now() - startedAt) / 1000)} s`);
  if (survivors.length + stale.length > 0) process.exitCode = 1;
}

try {
  await main();
} finally {
  rmSync(built, { recursive: true, force: true });
}
