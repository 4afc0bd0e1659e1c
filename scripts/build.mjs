// Builds dist/: the library as ES modules, and once more as CommonJS for what cannot load those yet. Does nothing when dist/ is what
// it made of the same files before, and compiles beside dist/ else, so that processes which are loading it from there are not disturbed.
import { createHash } from 'node:crypto';
import { spawn } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const dist = join(root, 'dist');
const fresh = join(root, `.dist-${process.pid}`);
/** What dist/ was made of, and what was in it then. */
const stamp = join(root, 'build', 'dist.stamp');
const CONFIGS = ['package.json', 'package-lock.json', 'tsconfig.json', 'tsconfig.build.json', 'tsconfig.build.cjs.json', 'scripts/build.mjs'];
const { bin, sideEffects } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));

const FORMATS = [
  ['esm', 'module', 'tsconfig.build.json'],
  ['cjs', 'commonjs', 'tsconfig.build.cjs.json', '--noCheck'], // the same files, of which the other compiler finds the errors
];

/** Resolves with the exit code of the compiler. */
function compileTo(folder, type, config, ...flags) {
  const out = join(fresh, folder);
  mkdirSync(out, { recursive: true });
  // Bundlers ask the nearest package.json, which is this one, whether a file that is not used may be left out.
  writeFileSync(join(out, 'package.json'), `${JSON.stringify({ type, sideEffects })}\n`);
  const tsc = spawn(process.execPath, ['node_modules/typescript/bin/tsc', '-p', config, '--outDir', out, ...flags], { cwd: root, stdio: 'inherit' });
  return new Promise((resolve) => tsc.on('exit', (code) => resolve(code ?? 1)));
}

async function compile() {
  const codes = await Promise.all(FORMATS.map((format) => compileTo(...format)));
  if (codes.some((code) => code !== 0)) return Math.max(...codes);
  requireOptional(join(fresh, 'cjs', 'stores', 'wire', 'client-packages.js'));
  for (const file of Object.values(bin)) {
    const path = join(fresh, file.replace(/^dist\//, ''));
    if (existsSync(path)) chmodSync(path, 0o755);
  }
  return 0;
}

/**
 * Makes a plain `require` of each dynamic import of a CommonJS file. What the compiler makes of it stands in a function of its own, where
 * bundlers do not see the `try` around it, by which they know that the package may be missing.
 */
function requireOptional(path) {
  const imported = /Promise\.resolve\(\)\.then\(\(\) => (?:__importStar\()?require\('([^']+)'\)\)?\)/g;
  const text = readFileSync(path, 'utf8');
  if ([...text.matchAll(imported)].length !== 2) throw new Error(`${path}: expected two packages that may be missing`);
  writeFileSync(path, text.replace(imported, "require('$1')"));
}

function filesOf(folder) {
  const paths = existsSync(folder) ? readdirSync(folder, { recursive: true }).sort() : [];
  return paths.map((path) => join(folder, path)).filter((path) => statSync(path).isFile());
}

function hashOf(paths) {
  const hash = createHash('sha256');
  for (const path of paths) hash.update(`${path}\0`).update(readFileSync(path)).update('\0');
  return hash.digest('hex');
}

function present() {
  return `${hashOf([...filesOf(join(root, 'lib')), ...CONFIGS.map((path) => join(root, path))])} ${hashOf(filesOf(dist))}\n`;
}

if (!existsSync(stamp) || readFileSync(stamp, 'utf8') !== present()) {
  try {
    process.exitCode = await compile();
    if (process.exitCode === 0) {
      rmSync(dist, { recursive: true, force: true });
      renameSync(fresh, dist);
      mkdirSync(join(root, 'build'), { recursive: true });
      writeFileSync(stamp, present());
    }
  } finally {
    rmSync(fresh, { recursive: true, force: true });
  }
}
