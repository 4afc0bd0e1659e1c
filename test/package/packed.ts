/** The package as it would be published: a tarball of dist/ as it is now, made once for each test file, and what is in it. */
import { execFile } from 'node:child_process';
import { cp, mkdtemp, readFile, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { environmentOfUsers } from './application.js';

const run = promisify(execFile);
const ROOT = process.cwd();

export interface Packed {
  readonly tarball: string;
  /** The unpacked package. */
  readonly folder: string;
  /** Paths of all files in it, in order. */
  readonly files: readonly string[];
  /** Removes it. */
  stop(): Promise<void>;
}

/** Packs a copy, because packing is told by npm in the repository's own folder otherwise, and others may work in it. */
export async function pack(): Promise<Packed> {
  const home = await mkdtemp(join(tmpdir(), 'holdfast-packed-'));
  const copy = join(home, 'copy');
  for (const name of await readdir(ROOT)) {
    if (['dist', 'docs', 'package.json', 'README.md', 'LICENSE', 'CHANGELOG.md'].includes(name)) await cp(join(ROOT, name), join(copy, name), { recursive: true });
  }
  // A file that must not be shipped, to see that it is not.
  await cp(join(ROOT, 'test', 'public-api.test.ts'), join(copy, 'test', 'public-api.test.ts'));
  const { name, version } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8')) as { name: string; version: string };
  await run('npm', ['pack', '--ignore-scripts', '--pack-destination', home], { cwd: copy, env: environmentOfUsers() });
  const tarball = join(home, `${name}-${version}.tgz`);
  await run('tar', ['-xzf', tarball, '-C', home]);
  const folder = join(home, 'package');
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1));
  return { tarball, folder, files: files.sort(), stop: () => rm(home, { recursive: true, force: true }) };
}
