/** What is in the tarball, what the checkers of packages say about it, and that its command starts. */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, it } from '@jest/globals';
import { HOME, linksOf, REPOSITORY } from '../docs/links.js';
import { forAll } from '../support/started.js';
import { environmentOfUsers } from './application.js';
import { pack } from './packed.js';

const execute = promisify(execFile);
const ENTRIES = ['.', './board', './telemetry', './terminus', './testing'];
const bin = (name: string) => join(process.cwd(), 'node_modules', '.bin', name);

interface Manifest {
  readonly exports: Readonly<Record<string, Readonly<Record<string, { types: string; default: string }>> | string>>;
  readonly typesVersions: Readonly<Record<string, Readonly<Record<string, readonly string[]>>>>;
  readonly bin: Readonly<Record<string, string>>;
  readonly dependencies?: unknown;
  readonly repository: unknown;
  readonly homepage: unknown;
  readonly bugs: unknown;
}

describe('the tarball', () => {
  const packed = forAll(pack);
  let manifest: Manifest;
  const text = (path: string) => readFile(join(packed.folder, path), 'utf8');

  beforeAll(async () => {
    manifest = JSON.parse(await text('package.json')) as Manifest;
  });

  it('holds the built package, its licence, its changelog and its docs, and nothing else', async () => {
    const others = packed.files.filter((path) => !/^dist\/(esm|cjs)\/.*\.(js|d\.ts)$/.test(path));
    const docs = (await readdir('docs')).filter((name) => name.endsWith('.md')).map((name) => `docs/${name}`);
    expect(others.sort()).toEqual(['CHANGELOG.md', 'LICENSE', 'README.md', 'dist/cjs/package.json', 'dist/esm/package.json', 'package.json', ...docs].sort());
    expect(packed.files.filter((path) => /test\.|spec\.|contract/.test(path))).toEqual([]);
  });

  it('has one file of code and one of types for each entry point, in each format, and a few that they share', () => {
    const entries = ENTRIES.map((entry) => (entry === '.' ? 'index' : `${entry.slice(2)}/index`));
    for (const format of ['esm', 'cjs']) {
      const files = packed.files.filter((path) => path.startsWith(`dist/${format}/`)).map((path) => path.slice(`dist/${format}/`.length));
      const own = files.filter((path) => !path.startsWith('shared-'));
      const program = format === 'esm' ? ['cli/main.js'] : [];
      expect(own.sort()).toEqual([...entries.flatMap((name) => [`${name}.js`, `${name}.d.ts`]), ...program, 'package.json'].sort());
      expect(files.filter((path) => path.endsWith('.d.ts') && !own.includes(path))).toHaveLength(1);
      expect(files.length - own.length).toBeLessThanOrEqual(8);
    }
  });

  it('has at most 1.5 MB', async () => {
    const sizes = await Promise.all(packed.files.map(async (path) => (await stat(join(packed.folder, path))).size));
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThanOrEqual(1_500_000);
  });

  it('has each class under the name by which its errors and logs call it, once', async () => {
    for (const path of packed.files.filter((file) => file.endsWith('.js'))) {
      const names = [...(await text(path)).matchAll(/\bclass ([\w$]+)/g)].map(([, name]) => name!);
      expect(names.filter((name) => name.includes('$') || name.length < 4)).toEqual([]);
    }
    for (const format of ['esm', 'cjs']) {
      const code = await Promise.all(packed.files.filter((path) => path.startsWith(`dist/${format}/`) && path.endsWith('.js')).map(text));
      expect(code.flatMap((one) => [...one.matchAll(/\bclass LockService\b/g)])).toHaveLength(1);
    }
  });

  it('has every page that its README and its docs link to, or names the repository', async () => {
    const pages = packed.files.filter((path) => path.endsWith('.md'));
    expect(pages).toContain('docs/guarantees.md');
    for (const page of pages) {
      for (const { file, link } of linksOf(page, await text(page))) {
        const here = file.startsWith(REPOSITORY) ? existsSync(file.slice(REPOSITORY.length)) : packed.files.includes(file);
        expect({ page, link, here }).toEqual({ page, link, here: true });
      }
    }
  });

  it('says where its sources are, so that the registry can resolve the links of the README', () => {
    expect(manifest.repository).toEqual({ type: 'git', url: `git+${HOME}.git` });
    expect(manifest.homepage).toBe(`${HOME}#readme`);
    expect(manifest.bugs).toEqual({ url: `${HOME}/issues` });
  });

  it('tells nothing of the machine it was built on', async () => {
    const home = process.cwd();
    for (const path of packed.files) {
      const content = await text(path);
      expect({ path, home: content.includes(home), absolute: /"(file:\/\/)?\/(home|root|work|tmp|Users)\//.test(content) }).toEqual({ path, home: false, absolute: false });
    }
  });

  it('has every file that package.json names, for each entry point by import and by require', () => {
    expect(Object.keys(manifest.exports).sort()).toEqual([...ENTRIES, './package.json'].sort());
    for (const entry of ENTRIES) {
      const conditions = manifest.exports[entry] as Readonly<Record<string, { types: string; default: string }>>;
      expect(Object.keys(conditions)).toEqual(['bun', 'module-sync', 'import', 'require']);
      for (const { types, default: code } of Object.values(conditions)) {
        expect(packed.files).toContain(types.slice(2));
        expect(packed.files).toContain(code.slice(2));
      }
    }
  });

  it('shows the types of each entry point also to compilers that do not read exports', () => {
    const folders = ENTRIES.filter((entry) => entry !== '.').map((entry) => entry.slice(2));
    expect(manifest.typesVersions).toEqual({ '*': Object.fromEntries(folders.map((name) => [name, [`dist/cjs/${name}/index.d.ts`]])) });
  });

  it('has peers only, so that nobody gets a second Nest or a second ioredis by it', () => expect(manifest.dependencies).toBeUndefined());

  it('has types that name neither package of Redis clients, so that an application needs none that it does not use', async () => {
    const seen = new Set<string>();
    const packages = new Set<string>();
    const read = async (path: string): Promise<void> => {
      if (seen.has(path)) return;
      seen.add(path);
      for (const [, name = ''] of (await text(path)).matchAll(/(?:from |import\()['"]([^'"]+)['"]/g)) {
        if (name.startsWith('.')) await read(join(path, '..', name).replace(/\.js$/, '.d.ts'));
        else packages.add(name);
      }
    };
    for (const entry of ENTRIES) await read((manifest.exports[entry] as Readonly<Record<string, { types: string }>>)['import']!.types.slice(2));
    expect(seen.size).toBe(ENTRIES.length + 1);
    expect([...packages]).toContain('@nestjs/common');
    expect([...packages]).not.toContain('ioredis');
    expect([...packages]).not.toContain('redis');
  });

  it('passes publint', async () => {
    // publint looks at a packed file as npm would serve it.
    const { publint } = await import('publint');
    const { messages } = await publint({ pkgDir: packed.folder, pack: false, strict: true });
    expect(messages).toEqual([]);
  });

  it('passes attw: types and code agree for node10, node16 and bundlers, for import and require', async () => {
    const { stdout } = await execute(bin('attw'), [packed.tarball, '--format', 'json'], { env: environmentOfUsers(), maxBuffer: 64_000_000 });
    const { analysis } = JSON.parse(stdout) as { analysis: { problems: unknown[]; entrypoints: Record<string, unknown> } };
    expect(analysis.problems).toEqual([]);
    expect(Object.keys(analysis.entrypoints)).toEqual(expect.arrayContaining(ENTRIES));
  });

  it('brings a command that can be executed', async () => {
    const path = join(packed.folder, manifest.bin['holdfast'] ?? '');
    expect((await text(manifest.bin['holdfast'] ?? '')).startsWith('#!/usr/bin/env node\n')).toBe(true);
    expect((await stat(path)).mode & 0o111).toBe(0o111);
  });
});
