/**
 * Two builds beside each other on one Redis: this one, and one whose wire format has a higher number, as a later version will have. The
 * later one writes the form on which they agreed, if it still can; else it is refused at boot.
 */
import { cp, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterEach, beforeAll, afterAll, describe, expect, it } from '@jest/globals';
import { Test, type TestingModule } from '@nestjs/testing';
import type { LockModule, LockService } from '../../lib/index.js';
import { FORMAT_VERSION, OLDEST_VERSION, RedisKeys } from '../../lib/stores/wire/redis-keys.js';
import { eventually } from '../support/eventually.js';
import { startRedis } from '../support/redis-server.js';
import { forAll } from '../support/started.js';

const LATER = FORMAT_VERSION + 1;
const { format } = new RedisKeys('lock');

interface Build {
  readonly LockModule: typeof LockModule;
  readonly LockService: typeof LockService;
}

/** Below node_modules/, so that the copies find the packages that the repository has. */
const HOME = join(process.cwd(), 'node_modules', '.cache');
const server = forAll(startRedis);
let home: string;
const apps: TestingModule[] = [];
beforeAll(async () => {
  await mkdir(HOME, { recursive: true });
  home = await mkdtemp(join(HOME, 'two-builds-'));
});
afterEach(async () => {
  for (const app of apps.splice(0)) await app.close();
  await server.command('FLUSHALL');
});
afterAll(() => rm(home, { recursive: true, force: true }));

/** A copy of dist/ that has these numbers in place of its own. */
async function build(name: string, version: number, oldest: number): Promise<Build> {
  const folder = join(home, name);
  await cp(join(process.cwd(), 'dist', 'esm'), folder, { recursive: true });
  let changed = 0;
  for (const file of (await readdir(folder)).filter((each) => each.endsWith('.js'))) {
    const text = await readFile(join(folder, file), 'utf8');
    const other = text.replace(`FORMAT_VERSION=${FORMAT_VERSION}`, `FORMAT_VERSION=${version}`).replace(`OLDEST_VERSION=${OLDEST_VERSION}`, `OLDEST_VERSION=${oldest}`);
    if (other !== text) changed += 1;
    await writeFile(join(folder, file), other);
  }
  expect(changed).toBe(version === FORMAT_VERSION ? 0 : 1);
  return (await import(pathToFileURL(join(folder, 'index.js')).href)) as Build;
}

async function started({ LockModule, LockService }: Build): Promise<LockService> {
  const app = await Test.createTestingModule({ imports: [LockModule.forRoot({ redis: server.url, recoveryMs: 100 })] }).compile();
  apps.push(app);
  await app.init();
  return app.get(LockService);
}

describe('Two builds on one Redis', () => {
  it('exclude each other and queue for each other when the later one can write the form of the earlier one', async () => {
    const earlier = await started(await build('this', FORMAT_VERSION, OLDEST_VERSION));
    const later = await started(await build('later', LATER, OLDEST_VERSION));
    expect(await server.command('GET', format)).toContain(`version=${FORMAT_VERSION} `);
    for (const [one, other] of [[earlier, later], [later, earlier]] as const) {
      const held = await one.acquire('order:1');
      expect(await other.tryAcquire('order:1')).toBeNull();
      const waits = other.acquire('order:1');
      expect(await held.release()).toBe('released');
      const next = await waits;
      expect(next.fence).toBeGreaterThan(held.fence);
      expect(await next.release()).toBe('released');
    }
  });

  it('write again what they agreed on when the server forgot it', async () => {
    await started(await build('this-2', FORMAT_VERSION, OLDEST_VERSION));
    await started(await build('later-2', LATER, OLDEST_VERSION));
    await apps.shift()!.close();
    await server.command('FLUSHALL');
    await eventually(async () => expect(await server.command('GET', format)).toContain(`version=${FORMAT_VERSION} `));
  });

  it('are of the later form when the key was deleted behind the last process of the earlier one, which does not start any more', async () => {
    await started(await build('this-3', FORMAT_VERSION, OLDEST_VERSION));
    await apps.shift()!.close();
    await server.command('DEL', format);
    await started(await build('later-3', LATER, OLDEST_VERSION));
    expect(await server.command('GET', format)).toContain(`version=${LATER} `);
    const refused = { code: 'LOCK_STORE', message: expect.stringContaining(`found 'version=${LATER} `) };
    await expect(started(await build('this-4', FORMAT_VERSION, OLDEST_VERSION))).rejects.toMatchObject(refused);
  });

  it('are told at boot when the later one cannot: whichever comes second does not start', async () => {
    await started(await build('this-5', FORMAT_VERSION, OLDEST_VERSION));
    await expect(started(await build('later-5', LATER, LATER))).rejects.toMatchObject({ code: 'LOCK_STORE', message: expect.stringContaining(`found 'version=${FORMAT_VERSION} `) });
  });
});
