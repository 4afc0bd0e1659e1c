// `npm run bench [-- name …]`: installs the peers when they are missing, compiles bench/ with the parts of the library that it uses, and
// the whole library for counting, and runs it by plain node.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const run = (command, ...args) => {
  const { status } = spawnSync(command, args, { cwd: root, stdio: 'inherit' });
  if (status !== 0) process.exit(status ?? 1);
};

if (!existsSync(new URL('node_modules', import.meta.url))) run('npm', 'ci', '--prefix', 'bench', '--no-audit', '--no-fund');
run(process.execPath, 'node_modules/typescript/bin/tsc', '-p', 'bench/tsconfig.json');
run(process.execPath, 'node_modules/typescript/bin/tsc', '-p', 'tsconfig.build.json', '--outDir', 'build/bench/package');
run(process.execPath, ...process.execArgv, 'build/bench/bench/run.js', ...process.argv.slice(2));
