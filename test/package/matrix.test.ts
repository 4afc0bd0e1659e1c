/** Every supported Nest with every supported ioredis, and with the lowest and the highest on each Node: a decorated service locks, embedded and on Redis. */
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from '@jest/globals';
import { startRedis } from '../support/redis-server.js';
import { forAll } from '../support/started.js';
import { Application } from './application.js';
import { pack } from './packed.js';
import { IOREDIS_VERSIONS, nodePackage } from './peers.js';

const NODE_VERSIONS = ['20.19', '22.12', '22', '24', '26'];
const NESTS = ['11.0', '11', '12.0', '12'];

describe('the peers', () => {
  const packed = forAll(pack);
  const redis = forAll(startRedis);
  const nodes = forAll(() => Application.install('smoke', NODE_VERSIONS.map(nodePackage)));
  /** Node's version to its program; the present one is always there. */
  const programs = new Map<string, string>([[process.versions.node.split('.')[0] ?? '', process.execPath]]);
  beforeAll(() => {
    for (const version of NODE_VERSIONS) programs.set(version, join(nodes.folder, 'node_modules', `node-${version}`, 'bin', 'node'));
  });

  it.each(NESTS)('Nest %s with each ioredis, and on each Node', async (nest) => {
    const app = await Application.install('smoke', [packed.tarball, `@nestjs/common@${nest}`, `@nestjs/core@${nest}`, `ioredis@${IOREDIS_VERSIONS[0]}`]);
    try {
      for (const client of IOREDIS_VERSIONS) {
        if (client !== IOREDIS_VERSIONS[0]) await app.add(`ioredis@${client}`);
        const isEdge = client === IOREDIS_VERSIONS[0] || client === IOREDIS_VERSIONS.at(-1);
        for (const [node, program] of isEdge ? programs : [...programs].slice(0, 1)) {
          const seen = {
            node: expect.stringMatching(new RegExp(`^${node}\\.`)),
            nest: expect.stringMatching(new RegExp(`^${nest}\\.`)),
            ioredis: expect.stringMatching(new RegExp(`^${client}(\\.|$)`)),
            atOnce: 1,
            fencesRise: true,
            released: 'released',
            oneCopy: true,
          };
          expect(await app.seen(program, ['smoke.cjs'])).toEqual(seen);
          expect(await app.seen(program, ['smoke.cjs'], { REDIS_URL: redis.url })).toEqual(seen);
        }
      }
    } finally {
      await app.stop();
    }
  });
});
