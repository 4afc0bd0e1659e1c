/** The versions of ioredis that the package allows: the lowest and the highest of each major. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const { peerDependencies } = JSON.parse(readFileSync(join(process.cwd(), 'package.json'), 'utf8')) as { peerDependencies: { ioredis: string } };

/** As npm understands them: `5.4.0` is that version, `5` the newest of its major. */
export const IOREDIS_VERSIONS: readonly string[] = peerDependencies.ioredis.split('||').flatMap((range) => {
  const lowest = range.trim().replace('^', '');
  return [lowest, lowest.split('.')[0] ?? lowest];
});
