/** The versions of the clients that the package allows: the lowest and the highest of each major. */
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
