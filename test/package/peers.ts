/** The versions of the clients that the package allows, the lowest and the highest of each major, and the programs that run it. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const { peerDependencies } = JSON.parse(readFileSync(join(process.cwd(), 'package.json'), 'utf8')) as { peerDependencies: { ioredis: string; redis: string } };

/** As npm understands them: `5.4.0` is that version, `5` the newest of its major. */
export const IOREDIS_VERSIONS: readonly string[] = versionsIn(peerDependencies.ioredis);
export const NODE_REDIS_VERSIONS: readonly string[] = versionsIn(peerDependencies.redis);

function versionsIn(ranges: string): string[] {
  return ranges.split('||').flatMap((range) => {
    const lowest = range.trim().replace('^', '');
    return [lowest, lowest.split('.')[0] ?? lowest];
  });
}

const system = process.platform === 'win32' ? 'win' : process.platform;

/** The package that holds the program of a version of Node for this machine. */
export function nodePackage(version: string): string {
  return `node-${version}@npm:node-${system}-${process.arch}@${version}`;
}

/** The package that holds Bun for this machine. */
export const BUN_PACKAGE = `@oven/bun-${process.platform === 'win32' ? 'windows' : process.platform}-${process.arch === 'arm64' ? 'aarch64' : process.arch}`;
/** Where that package has the program. */
export const BUN_PROGRAM = `node_modules/${BUN_PACKAGE}/bin/bun`;
