/** The pages of the docs, and the workflow that publishes what they say is tested. */
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import type { LockModuleExtras } from '../../lib/index.js';
import { OPTIONS } from '../../lib/nest/lock-module-options.js';
import { LOCKED_OPTIONS } from '../../lib/nest/locked.decorator.js';
import { FORMAT_VERSION } from '../../lib/stores/wire/redis-keys.js';
import { IOREDIS_VERSIONS } from '../package/peers.js';
import { anchorsOf, linksOf, prose, REPOSITORY } from './links.js';

const DOCS = readdirSync('docs', { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.md'));
const PAGES = [
  ...['README.md', 'CHANGELOG.md', 'CONTRIBUTING.md', 'SECURITY.md', 'bench/README.md', 'lib/core/README.md', 'sample-app/README.md'],
  ...DOCS.map((name) => `docs/${name}`),
];
const textOf = (page: string): string => readFileSync(page, 'utf8');
const local = (file: string): string => (file.startsWith(REPOSITORY) ? file.slice(REPOSITORY.length) : file);

describe('The docs', () => {
  it.each(PAGES)('link from %s to files and headings that are there', (page) => {
    const broken = linksOf(page, textOf(page)).filter(({ file, heading }) => {
      if (!existsSync(local(file))) return true;
      return heading !== undefined && !anchorsOf(textOf(local(file))).includes(heading);
    });
    expect(broken.map(({ link }) => link)).toEqual([]);
  });

  it.each(PAGES)('have in %s no table that an empty line cuts in two', (page) => {
    const cut = [...prose(textOf(page)).matchAll(/^\n(\|.*)\n(?!\|[ :-]+\|)/gm)].map(([, row]) => row);
    expect(cut).toEqual([]);
  });

  it.each(PAGES)('name in %s only files that are there', (page) => {
    const named = [...textOf(page).matchAll(/(?<![\w/.-])(?:test|lib|scripts|sample-app)\/[\w./-]+\.(?:ts|mjs|lua|md)\b/g)].map(([file]) => file);
    expect(named.filter((file) => !existsSync(file))).toEqual([]);
  });

  it('name in the changelog the wire format that processes really have', () => {
    expect(textOf('CHANGELOG.md')).toContain(`Its wire format is number ${FORMAT_VERSION};`);
  });

  it('say which file of the core answers which question, and what to look for in it', () => {
    const rows = textOf('lib/core/README.md').split('## Where to look')[1]!.matchAll(/^\| [^|]+\? \| `([^`]+)`(?:, `(\w+)`)?(?: and `(\w+)`)?/gm);
    const answers = [...rows].map(([, file = '', ...names]) => ({ file: `lib/${file}`, names: names.filter((name) => name !== undefined) }));
    expect(answers.length).toBeGreaterThan(10);
    const lost = answers.filter(({ file, names }) => !existsSync(file) || names.some((name) => !new RegExp(`^ *(?:export |private |async |local |function )*${name}\\b.*[({]`, 'm').test(textOf(file))));
    expect(lost).toEqual([]);
  });

  it('are wrapped at 120 characters, as npm run wrap:docs does it', () => {
    const { status, stderr } = spawnSync(process.execPath, ['scripts/wrap-docs.mjs', '--check'], { encoding: 'utf8' });
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
  });

  it('have a row for every option on the page of options, and for no other', () => {
    const options = { ...LOCKED_OPTIONS.names, ...OPTIONS.names, ...({ name: true, isGlobal: true } satisfies Record<keyof LockModuleExtras, true>) };
    const rows = [...textOf('docs/options.md').matchAll(/^\| `(\w+)` \|/gm)].map(([, name]) => name!);
    expect(rows.sort()).toEqual(Object.keys(options).sort());
  });

  it('are all found from their index', () => {
    const found = linksOf('docs/README.md', textOf('docs/README.md')).map(({ file }) => local(file));
    expect(DOCS.filter((name) => name !== 'README.md' && !found.includes(`docs/${name}`))).toEqual([]);
  });
});

interface Manifest {
  readonly engines: { readonly node: string };
  readonly devDependencies: { readonly ioredis: string };
}

const workflow = readFileSync('.github/workflows/ci.yml', 'utf8');
const manifest = JSON.parse(readFileSync('package.json', 'utf8')) as Manifest;

/** The values of a list or of a property in the workflow, written in quotes. */
function quoted(pattern: RegExp): string[] {
  return [...workflow.matchAll(pattern)].flatMap(([, values = '']) => [...values.matchAll(/'([^']+)'/g)].map(([, value]) => value!));
}

describe('The public CI', () => {
  it('runs .ci/run on the lowest version of each Node that the package allows', () => {
    const lowest = manifest.engines.node.split('||').map((range) => range.replace(/[\s^>=]/g, '').replace(/\.0$/, ''));
    expect(quoted(/^\s+node: (\[.*\])$/gm)).toEqual(expect.arrayContaining(lowest));
    expect(workflow).toMatch(/run: \.ci\/run\n\s+env:\n\s+HOLDFAST_IOREDIS: \$\{\{ matrix\.ioredis \}\}/);
  });

  it('runs it on the lowest and the highest ioredis of each major', () => {
    const run = [manifest.devDependencies.ioredis, ...quoted(/ioredis: ('[^']+')/g)];
    expect(run).toEqual(expect.arrayContaining([...IOREDIS_VERSIONS]));
  });
});
