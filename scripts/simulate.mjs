// Simulates the whole library on the committed Lua text, on virtual time (docs/maintainers/proof.md). USAGE says how it is called.
import { fork } from 'node:child_process';
import { rmSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { optionsOf } from './options-of.mjs';
import { buildPlain } from './plain-build.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const built = join(root, 'build', `simulation-${process.pid}`);

const USAGE = `npm run simulate -- [options]
  --seeds 1000          how many runs, each by its seed; --from 1 is the first seed
  --topology <name>     single, sentinel, cluster or redlock; without it all of them
  --profile <part>      only the profiles of faults whose names contain this
  --calls 200           how many calls of the store a run makes at least
  --workers <number>    how many processes run them
  --failures 5          after so many runs that break a promise it ends
  --seed 4711           one run again, mostly with --topology: of one that failed it prints all that happened
  --trace               tells the faults of that run while they happen
  --account             prints all that happened, also when nothing failed`;

const values = optionsOf(USAGE, {
  seeds: { type: 'string', default: '1000' },
  from: { type: 'string', default: '1' },
  seed: { type: 'string' },
  topology: { type: 'string' },
  profile: { type: 'string' },
  failures: { type: 'string', default: '5' },
  calls: { type: 'string', default: '200' },
  workers: { type: 'string', default: String(Math.min(availableParallelism(), 8)) },
  trace: { type: 'boolean', default: false },
  account: { type: 'boolean', default: false },
});

function replayOf({ seed, topology }) {
  return `npm run simulate -- --seed ${seed} --topology ${topology}${values.profile === undefined ? '' : ` --profile '${values.profile}'`}${values.calls === '200' ? '' : ` --calls ${values.calls}`}`;
}

// A run that is repeated tells where its errors come from; among thousands that costs too much.
const EXEC_ARGV = ['--enable-source-maps', `--stack-trace-limit=${values.seed === undefined ? 0 : 30}`];

const totals = { seeds: 0, storeCalls: 0, least: Infinity, commands: 0, holds: 0, virtualMs: 0, failures: 0 };
const workers = new Set();

function hear(told) {
  if (told.account !== undefined) console.log(told.account);
  totals.seeds += 1;
  totals.storeCalls += told.storeCalls;
  totals.commands += told.commands;
  totals.holds += told.holds;
  totals.virtualMs += told.virtualMs;
  if (told.violations.length === 0) totals.least = Math.min(totals.least, told.storeCalls);
  else fail(told);
}

function fail(told) {
  totals.failures += 1;
  console.log(`seed ${told.seed} (${told.topology}, ${told.profile}) broke a promise:`);
  for (const violation of told.violations) console.log(`  ${violation}`);
  console.log(`  again: ${replayOf(told)}${values.seed === undefined ? '' : ' --trace'}`);
  if (totals.failures >= Number(values.failures)) for (const worker of workers) worker.kill();
}

function startWorker(job) {
  return new Promise((resolve) => {
    const worker = fork(join(built, 'test/simulation/main.js'), [JSON.stringify(job)], { execArgv: EXEC_ARGV });
    workers.add(worker);
    worker.on('message', hear);
    worker.on('exit', (code, signal) => {
      workers.delete(worker);
      if (code !== 0 && signal !== 'SIGTERM') {
        totals.failures += 1;
        console.log(`a worker ended with ${code ?? signal}`);
      }
      resolve();
    });
  });
}

const startedAt = performance.now();
buildPlain(root, built, ['lib/core', 'lib/stores', 'lib/lock.service.ts', 'test/simulation', 'test/model', 'test/support/store-around.ts']);
try {
  const one = values.seed !== undefined;
  const from = Number(values.seed ?? values.from);
  const count = one ? 1 : Number(values.seeds);
  const among = Math.min(count, one ? 1 : Number(values.workers));
  const common = { step: among, topology: values.topology, profile: values.profile, storeCalls: Number(values.calls), trace: values.trace, account: values.account ? 'always' : one && !values.trace ? 'failed' : 'never' };
  const jobs = Array.from({ length: among }, (_, n) => ({ ...common, from: from + n, count: Math.ceil((count - n) / among) }));
  await Promise.all(jobs.map(startWorker));
} finally {
  rmSync(built, { recursive: true, force: true });
}
const { seeds, failures, storeCalls, least, commands, holds, virtualMs } = totals;
const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
console.log(
  `${seeds} seeds, ${failures} failures: ${storeCalls} store calls${least < Infinity ? ` (at least ${least} in a seed)` : ''}, ${commands} commands, ` +
    `${holds} holds, ${(virtualMs / 3_600_000).toFixed(1)} virtual hours, in ${seconds} s`,
);
process.exit(failures === 0 && seeds > 0 ? 0 : 1);
