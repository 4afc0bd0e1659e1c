/** What is in the tarball, what the checkers of packages say about it, and that its command starts. */
import { execFile } from 'node:child_process';
import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { environmentOfUsers } from './application.js';
import { pack, type Packed } from './packed.js';

const execute = promisify(execFile);
const TAKES_AT_MOST_MS = 120_000;
const ENTRIES = ['.', './board', './telemetry', './terminus', './testing'];
const bin = (name: string) => join(process.cwd(), 'node_modules', '.bin', name);

interface Manifest {
  readonly exports: Readonly<Record<string, Readonly<Record<string, { types: string; default: string }>> | string>>;
  readonly typesVersions: Readonly<Record<string, Readonly<Record<string, readonly string[]>>>>;
  readonly bin: Readonly<Record<string, string>>;
  readonly dependencies?: unknown;
}

describe('the tarball', () => {
  let packed: Packed;
  let manifest: Manifest;
  const text = (path: string) => readFile(join(packed.folder, path), 'utf8');

  beforeAll(async () => {
    packed = await pack();
    manifest = JSON.parse(await text('package.json')) as Manifest;
  }, TAKES_AT_MOST_MS);

  afterAll(() => packed.remove());

  it('holds the built package, its licence and its README, and nothing else', () => {
    const others = packed.files.filter((path) => !/^dist\/(esm|cjs)\/.*\.(js|d\.ts|js\.map)$/.test(path));
    expect(others).toEqual(['LICENSE', 'README.md', 'dist/cjs/package.json', 'dist/esm/package.json', 'package.json']);
    expect(packed.files.filter((path) => /test\.|spec\.|contract/.test(path))).toEqual([]);
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
      expect(Object.keys(conditions)).toEqual(['module-sync', 'import', 'require']);
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

  it('has peers only, so that nobody gets a second Nest or a second ioredis by it', () => {
    expect(manifest.dependencies).toBeUndefined();
  });

  it('passes publint', async () => {
    // publint looks at a packed file as npm would serve it.
    const { publint } = await import('publint');
    const { messages } = await publint({ pkgDir: packed.folder, pack: false, strict: true });
    expect(messages).toEqual([]);
  }, TAKES_AT_MOST_MS);

  it('passes attw: types and code agree for node10, node16 and bundlers, for import and require', async () => {
    const { stdout } = await execute(bin('attw'), [packed.tarball, '--format', 'json'], { env: environmentOfUsers(), maxBuffer: 64_000_000 });
    const { analysis } = JSON.parse(stdout) as { analysis: { problems: unknown[]; entrypoints: Record<string, unknown> } };
    expect(analysis.problems).toEqual([]);
    expect(Object.keys(analysis.entrypoints)).toEqual(expect.arrayContaining(ENTRIES));
  }, TAKES_AT_MOST_MS);

  it('brings a command that can be executed', async () => {
    const path = join(packed.folder, manifest.bin['holdfast'] ?? '');
    expect((await text(manifest.bin['holdfast'] ?? '')).startsWith('#!/usr/bin/env node\n')).toBe(true);
    expect((await stat(path)).mode & 0o111).toBe(0o111);
  });
});
