/** Lists that name lines of the library must follow it: a defect or a reason whose line has gone says nothing. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';

interface Named {
  readonly file: string;
  readonly text: string;
}

const root = join(import.meta.dirname, '..', '..');
const { mutants } = (await import(join(root, 'test/mutants/mutants.mjs'))) as { readonly mutants: readonly Named[] };
const { equivalent } = (await import(join(root, 'test/mutants/equivalent.mjs'))) as { readonly equivalent: readonly { readonly file: string; readonly lines: readonly string[] }[] };

/** How often the text stands in its file. */
const timesThere = ({ file, text }: Named): number => readFileSync(join(root, file), 'utf8').split(text).length - 1;

describe('What the lists of mutants name', () => {
  it('is there exactly once, for a planted defect', () => {
    expect(mutants.length).toBeGreaterThan(250);
    expect(mutants.filter((mutant) => timesThere(mutant) !== 1)).toEqual([]);
  });

  it('is there, for a reason why nothing can notice a change', () => {
    expect(equivalent.length).toBeGreaterThan(100);
    expect(equivalent.filter(({ file, lines }) => lines.some((text) => timesThere({ file, text }) === 0))).toEqual([]);
  });
});
