import { readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import { IOREDIS_VERSIONS } from '../package/peers.js';

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
