// Loads every entry point of the built package by its name with plain node, by import and by require, as users do, and
// fails when the two see different classes.
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const { name, exports: entries } = JSON.parse(readFileSync(`${root}/package.json`, 'utf8'));

const LOAD = `
const { createRequire } = process.getBuiltinModule('node:module');
const required = createRequire(process.cwd() + '/x.js')(process.argv[1]);
import(process.argv[1]).then((imported) => {
  const names = Object.keys(imported);
  if (names.length === 0) throw new Error('exports nothing');
  const differing = names.filter((name) => name !== 'module.exports' && imported[name] !== required[name]);
  if (differing.length > 0) throw new Error('two copies of ' + differing.join(', '));
  console.log(process.argv[1] + ': ' + names.length + ' names, the same by import and require');
});`;
const run = (what, ...args) => {
  const { status } = spawnSync(process.execPath, args, { cwd: root, stdio: 'inherit' });
  if (status === 0) return;
  console.error(`dist: ${what} does not load`);
  process.exit(1);
};

for (const entry of Object.keys(entries)) {
  if (entry.endsWith('.json')) continue;
  const path = entry === '.' ? '' : entry.slice(1);
  if (!existsSync(`${root}/lib${path}/index.ts`)) continue;
  run(entry, '--input-type=module', '-e', `import 'reflect-metadata';${LOAD}`, `${name}${path}`);
  // The copy for those who load CommonJS only.
  run(`${entry} as CommonJS`, '-e', "require('reflect-metadata'); require(process.argv[1])", `${root}/dist/cjs${path}/index.js`);
}
