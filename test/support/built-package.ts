/**
 * The package as child processes of tests load it: compiled from lib/ into a folder named by its content, so that runs
 * neither need a fresh dist/ nor are disturbed by one that is just being built. HOLDFAST_DIST names another build,
 * e.g. dist/esm.
 */
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { transformSync } from '@swc/core';

const root = process.cwd();
let built: string | undefined;

/** Path of the built package's index.js. */
export function builtPackage(): string {
  const given = process.env['HOLDFAST_DIST'];
  built ??= given === undefined ? compile() : join(resolve(root, given), 'index.js');
  return built;
}

function compile(): string {
  const lib = join(root, 'lib');
  const files = readdirSync(lib, { recursive: true, encoding: 'utf8' }).filter((path) => path.endsWith('.ts')).sort();
  const texts = files.map((path) => readFileSync(join(lib, path), 'utf8'));
  const hash = createHash('sha1').update(JSON.stringify([files, texts, COMPILER])).digest('hex').slice(0, 12);
  const folder = join(root, 'build', 'test-package', hash);
  if (existsSync(folder)) return join(folder, 'index.js');
  const making = `${folder}.${process.pid}`;
  files.forEach((path, n) => {
    const target = join(making, path.replace(/\.ts$/, '.js'));
    mkdirSync(dirname(target), { recursive: true });
    writeFileSync(target, transformSync(texts[n] as string, { filename: path, ...COMPILER }).code);
  });
  try {
    renameSync(making, folder);
  } catch {
    rmSync(making, { recursive: true, force: true }); // another test file was faster
  }
  return join(folder, 'index.js');
}

const COMPILER = {
  jsc: {
    target: 'es2022',
    parser: { syntax: 'typescript', decorators: true },
    transform: { legacyDecorator: true, decoratorMetadata: true, useDefineForClassFields: false },
    keepClassNames: true,
  },
  module: { type: 'es6' },
  sourceMaps: 'inline',
  swcrc: false,
} as const;
