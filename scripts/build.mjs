// Builds dist/: one file for each entry point and one that they share, as ES modules, and once more as CommonJS for what cannot load
// those yet; beside them one file of types each. Does nothing when dist/ is what it made of the same files before, and builds beside
// dist/ else, so that processes which are loading it from there are not disturbed.
import { createHash } from 'node:crypto';
import { spawn } from 'node:child_process';
import { chmodSync, cpSync, existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { minify } from '@swc/core';
import { rollup } from 'rollup';
import { dts } from 'rollup-plugin-dts';

const root = fileURLToPath(new URL('..', import.meta.url));
const dist = join(root, 'dist');
const fresh = join(root, `.dist-${process.pid}`);
/** What dist/ was made of, and what was in it then. */
const stamp = join(root, 'build', 'dist.stamp');
const CONFIGS = ['package.json', 'package-lock.json', 'tsconfig.json', 'tsconfig.build.json', 'scripts/build.mjs'];
const { bin, sideEffects } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));

const LIBRARY = ['index', 'board/index', 'telemetry/index', 'terminus/index', 'testing/index'];
const PROGRAM = 'cli/main';
const TYPES = ['esm', 'cjs'].map((folder) => ({ folder, type: folder === 'esm' ? 'module' : 'commonjs' }));

/** Compiles lib/ to `out`, file by file. */
async function compile(out, ...flags) {
  const args = ['node_modules/typescript/bin/tsc', '-p', 'tsconfig.build.json', '--outDir', out, ...flags];
  const tsc = spawn(process.execPath, args, { cwd: root, stdio: 'inherit' });
  const code = await new Promise((resolve) => tsc.on('exit', resolve));
  if (code !== 0) throw new Error('lib/ does not compile');
}

/** Puts what was compiled together: a file for each entry point, and one for all that several of them need, so that each class exists once. */
async function bundle(entries, from, ext, plugins = []) {
  const input = Object.fromEntries(entries.map((name) => [name, join(from, `${name}${ext}`)]));
  const onLog = (_level, { code, message }) => {
    // The compiler's decorators look for a global of their name in `this`, which a module does not have. And some types are nobody's to name.
    if (code !== 'THIS_IS_UNDEFINED' && !message.includes('private shared type exports')) throw new Error(message);
  };
  return rollup({ input, plugins, onLog, external: (id) => !/^[./]/.test(id) });
}

/** Bundlers see that a package may be missing by the `try` around a plain `require`. */
const requireOptional = { name: 'require-optional', renderDynamicImport: ({ format }) => (format === 'cjs' ? { left: 'require(', right: ')' } : null) };

/** Leaves out white space, and of CommonJS, which test runners load, the names of local variables too. Whatever a stack names keeps its name. */
const compact = {
  name: 'compact',
  async renderChunk(code, _chunk, { format }) {
    const mangle = format === 'cjs' && { toplevel: true, keep_classnames: true, keep_fnames: true };
    const { code: small } = await minify(code, { module: format === 'es', compress: false, mangle, format: { comments: false } });
    return inLines(small, this.parse(small));
  },
};

/** A line for each statement and each member of a class: Node prints the line of an error that nobody caught. */
function inLines(code, program) {
  const starts = new Set();
  const look = (node) => {
    if (/^(?:Program|BlockStatement|ClassBody)$/.test(node.type)) for (const { start } of node.body) starts.add(start);
    for (const part of Object.values(node).flat()) if (typeof part?.type === 'string') look(part);
  };
  look(program);
  const cuts = [0, ...[...starts].filter((start) => start > 0).sort((a, b) => a - b), code.length];
  return cuts.slice(1).map((end, n) => code.slice(cuts[n], end)).join('\n');
}

async function build() {
  const [code, types] = [join(fresh, 'code'), join(fresh, 'types')];
  // Comments are for the types, which editors show, and for the sources.
  await Promise.all([compile(code, '--declaration', 'false', '--removeComments', '--noCheck'), compile(types, '--emitDeclarationOnly')]);
  const made = join(fresh, 'dist');
  // Whoever bundles the errors alone, as a client does that knows them by their class, gets them without all that is in the other files.
  // So the main entry point has no code of its own, which bundlers would take along: it only names what the other files have.
  const manualChunks = (id) => {
    if (/core\/port\/errors\.js$/.test(id)) return 'errors';
    return /(?:locked\.decorator|lock-exception\.filter|fenced-write|key-template)\.js$/.test(id) ? 'main' : undefined;
  };
  const shared = { minifyInternalExports: false, hoistTransitiveImports: false };
  const esm = await bundle([...LIBRARY, PROGRAM], code, '.js', [compact]);
  await esm.write({ ...shared, manualChunks, format: 'es', dir: join(made, 'esm'), chunkFileNames: 'shared-[hash].js' });
  const cjs = await bundle(LIBRARY, code, '.js', [requireOptional, compact]);
  await cjs.write({ ...shared, manualChunks, format: 'cjs', exports: 'named', dir: join(made, 'cjs'), chunkFileNames: 'shared-[hash].js' });
  const declared = await bundle(LIBRARY, types, '.d.ts', [dts()]);
  await declared.write({ ...shared, format: 'es', dir: join(made, 'esm'), entryFileNames: '[name].d.ts', chunkFileNames: 'shared-[hash].d.ts' });
  for (const path of filesOf(join(made, 'esm')).filter((file) => file.endsWith('.d.ts'))) cpSync(path, path.replace('/esm/', '/cjs/'));
  // Bundlers ask the nearest package.json, which is this one, whether a file that is not used may be left out.
  for (const { folder, type } of TYPES) writeFileSync(join(made, folder, 'package.json'), `${JSON.stringify({ type, sideEffects })}\n`);
  for (const file of Object.values(bin)) chmodSync(join(made, file.replace(/^dist\//, '')), 0o755);
  rmSync(dist, { recursive: true, force: true });
  renameSync(made, dist);
  mkdirSync(join(root, 'build'), { recursive: true });
  writeFileSync(stamp, present());
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
    await build();
  } finally {
    rmSync(fresh, { recursive: true, force: true });
  }
}
