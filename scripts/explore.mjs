// Explores small worlds of the protocol to their ends, with the committed Lua text (docs/maintainers/proof.md):
//
//   npm run explore -- [--only <part of a name>] [--most 1000000]      every world, with a table, and a shortest history of what fails
//   npm run explore -- --quick                                        those that the tests explore too
//   npm run explore -- --defects                                      plants defects, and shows the promise that each one breaks
import { spawnSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { buildPlain } from './plain-build.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const built = join(root, 'build', `explorer-${process.pid}`);

/** A state takes about a kilobyte, and a level of a large world has a million. */
const HEAP_MB = 12_000;

const { values } = parseArgs({
  options: { only: { type: 'string', default: '' }, most: { type: 'string', default: '1000000' }, quick: { type: 'boolean', default: false }, defects: { type: 'boolean', default: false } },
});

buildPlain(root, built, ['lib/core', 'lib/stores', 'test/simulation', 'test/explorer', 'test/model', 'test/support/store-around.ts']);
try {
  const job = { only: values.only, most: Number(values.most), what: values.defects ? 'defects' : values.quick ? 'quick' : 'worlds' };
  const { status } = spawnSync(process.execPath, ['--enable-source-maps', `--max-old-space-size=${HEAP_MB}`, join(built, 'test/explorer/main.js'), JSON.stringify(job)], { stdio: 'inherit' });
  process.exitCode = status ?? 1;
} finally {
  rmSync(built, { recursive: true, force: true });
}
