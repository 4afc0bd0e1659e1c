// Makes plain JavaScript of what a simulation or an exploration needs: it starts in no time, and nothing of a test runner is in between.
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { transformFileSync } from '@swc/core';

const options = {
  swcrc: false,
  configFile: false,
  sourceMaps: 'inline',
  jsc: { target: 'es2022', parser: { syntax: 'typescript', decorators: true }, transform: { legacyDecorator: true, decoratorMetadata: true, useDefineForClassFields: false }, keepClassNames: true },
  module: { type: 'es6' },
};

/** Compiles the TypeScript files of these folders, and these files, from `root` to `built`. */
export function buildPlain(root, built, folders) {
  for (const folder of folders) {
    for (const file of filesOf(join(root, folder))) {
      const target = join(built, relative(root, file)).replace(/\.ts$/, '.js');
      mkdirSync(dirname(target), { recursive: true });
      writeFileSync(target, transformFileSync(file, options).code);
    }
  }
}

function filesOf(path) {
  if (path.endsWith('.ts')) return [path];
  const files = readdirSync(path, { recursive: true }).map((name) => join(path, name));
  return files.filter((file) => file.endsWith('.ts') && !file.endsWith('.test.ts'));
}
