/** The words and the width of the docs: they are written for readers who have not seen the project before. */
import { readdirSync, readFileSync } from 'node:fs';
import { spawnSync } from 'node:child_process';
import { expect, it } from '@jest/globals';

/** Words that readers did not understand, or that the field has another word for. */
const UNCLEAR: readonly RegExp[] = [
  /\bmend(?:s|ed|ing)?\b/i,
  /\bwhole fleet\b/i,
  /\bcould (?:not )?be asked\b/i,
  /\bclock is not set\b/i,
  /\bwhose end you decide\b/i,
  /\bname the owner of the present hold\b/i,
  /\bexplained where it is typed\b/i,
  /\bcounts is what the caller gave\b/i,
  /\bis not locked, although that is\b/i,
];

/** Text that readers of the project see: its pages, and the sources with their comments and messages; not what is installed for the benchmarks. */
function texts(): string[] {
  const below = (folder: string) => readdirSync(folder, { recursive: true, encoding: 'utf8' }).map((name) => `${folder}/${name}`);
  const pages = readdirSync('.').filter((name) => name.endsWith('.md'));
  const all = [...pages, ...['docs', 'lib', 'sample-app', 'bench'].flatMap(below)];
  return all.filter((name) => /\.(?:md|ts|lua|js|html)$/.test(name) && !name.endsWith('.generated.ts') && !name.includes('node_modules/'));
}

it('The docs, the comments and the messages have no words that readers did not understand', () => {
  const found = texts().flatMap((name) => {
    const text = readFileSync(name, 'utf8').replace(/\s*\n\s*(?:\*|\/\/|--)?\s*/g, ' ');
    return UNCLEAR.flatMap((word) => word.exec(text)?.[0] ?? []).map((word) => `${name}: ${word}`);
  });
  expect(found).toEqual([]);
});

it('The prose of the docs is wrapped at 120 characters, as npm run wrap:docs does it', () => {
  const { status, stderr } = spawnSync(process.execPath, ['scripts/wrap-docs.mjs', '--check'], { encoding: 'utf8' });
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
});
