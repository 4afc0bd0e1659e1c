/** An application that has one package of Redis clients: the other one is neither installed nor in its bundle, and locks are had. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { startRedis } from '../support/redis-server.js';
import { forAll } from '../support/started.js';
import { Application } from './application.js';
import { pack } from './packed.js';
import { IOREDIS_VERSIONS, NODE_REDIS_VERSIONS } from './peers.js';

const INSIDE: Readonly<Record<string, RegExp>> = { ioredis: /MaxRetriesPerRequestError/, redis: /ClientOfflineError/ };
const CLIENTS = [...IOREDIS_VERSIONS.map((version) => ['ioredis', version, 'redis'] as const), ...NODE_REDIS_VERSIONS.map((version) => ['redis', version, 'ioredis'] as const)];

const packed = forAll(pack);
const server = forAll(startRedis);

describe.each(CLIENTS)('With %s@%s only', (client, version, other) => {
  const app = forAll(() => Application.install('smoke', [packed.tarball, '@nestjs/common@12', '@nestjs/core@12', 'esbuild@0.25.9', `${client}@${version}`]));

  it('no second client is installed, and an application locks by a URL', async () => {
    const { output } = await app.run('npm', ['ls', '--all', 'ioredis', 'redis']);
    expect(output).toContain(`${client}@`);
    expect(output).not.toMatch(new RegExp(`\\b${other}@`));
    const seen = await app.seen('node', ['smoke.cjs'], { REDIS_URL: server.url });
    expect(seen).toMatchObject({ [client]: expect.stringMatching(new RegExp(`^${version}(\\.|$)`)), atOnce: 1, fencesRise: true, released: 'released', oneCopy: true });
    expect(seen).not.toHaveProperty(other);
  });

  it.each(['cjs', 'esm'])('its bundle has none either: %s', async (format) => {
    const { exitCode, output } = await app.run('node', ['bundle-locks.cjs', format]);
    expect({ exitCode, output }).toMatchObject({ exitCode: 0 });
    const bundle = await readFile(join(app.folder, 'bundle', `locks.${format}`), 'utf8');
    expect([INSIDE[client]!.test(bundle), INSIDE[other]!.test(bundle)]).toEqual([true, false]);
  });
});
