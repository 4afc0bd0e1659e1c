// Explores small worlds of the protocol to their ends, with the committed Lua text (docs/maintainers/proof.md). USAGE says how it is called.
import { spawnSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { optionsOf } from './options-of.mjs';
import { buildPlain } from './plain-build.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const built = join(root, 'build', `explorer-${process.pid}`);

/** A state takes about a kilobyte, and a level of a large world has a million. */
const HEAP_MB = 12_000;

const USAGE = `npm run explore -- [options]     every world, with a table, and a shortest history of what fails
  --only <part>      only the worlds whose names contain this
  --most 1000000     how many states a world has at most
  --quick            only the worlds that the tests explore too
  --defects          plants defects, and shows the promise that each one breaks`;

const values = optionsOf(USAGE, {
  only: { type: 'string', default: '' },
  most: { type: 'string', default: '1000000' },
  quick: { type: 'boolean', default: false },
  defects: { type: 'boolean', default: false },
});

buildPlain(root, built, ['lib/core', 'lib/stores', 'test/simulation', 'test/explorer', 'test/model', 'test/support/store-around.ts']);
try {
  const job = { only: values.only, most: Number(values.most), what: values.defects ? 'defects' : values.quick ? 'quick' : 'worlds' };
  const { status } = spawnSync(process.execPath, ['--enable-source-maps', `--max-old-space-size=${HEAP_MB}`, join(built, 'test/explorer/main.js'), JSON.stringify(job)], { stdio: 'inherit' });
  process.exitCode = status ?? 1;
} finally {
  rmSync(built, { recursive: true, force: true });
}
