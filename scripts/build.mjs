// Builds dist/: the library as ES modules, and once more as CommonJS for what cannot load those yet. Compiles beside
// dist/ and swaps only when something changed, so that processes which are loading it from there are not disturbed.
import { spawnSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const dist = join(root, 'dist');
const fresh = join(root, `.dist-${process.pid}`);
const { bin, sideEffects } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));

function compile() {
  for (const [folder, type, config, ...flags] of [
    ['esm', 'module', 'tsconfig.build.json'],
    ['cjs', 'commonjs', 'tsconfig.build.cjs.json', '--noCheck'], // the same files, checked a moment ago
  ]) {
    const out = join(fresh, folder);
    mkdirSync(out, { recursive: true });
    // Bundlers ask the nearest package.json, which is this one, whether a file that is not used may be left out.
    writeFileSync(join(out, 'package.json'), `${JSON.stringify({ type, sideEffects })}\n`);
    const { status } = spawnSync(process.execPath, ['node_modules/typescript/bin/tsc', '-p', config, '--outDir', out, ...flags], { cwd: root, stdio: 'inherit' });
    if (status !== 0) return status ?? 1;
  }
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

function contents(folder) {
  const paths = existsSync(folder) ? readdirSync(folder, { recursive: true }).sort() : [];
  return paths.filter((path) => statSync(join(folder, path)).isFile()).map((path) => `${path}\n${readFileSync(join(folder, path), 'utf8')}`);
}

try {
  process.exitCode = compile();
  if (process.exitCode === 0 && contents(fresh).join('\0') !== contents(dist).join('\0')) {
    rmSync(dist, { recursive: true, force: true });
    renameSync(fresh, dist);
  }
} finally {
  rmSync(fresh, { recursive: true, force: true });
}
