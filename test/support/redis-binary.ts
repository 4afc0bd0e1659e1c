/**
 * Finds a Redis server to run: on PATH, in the cache, or in Debian's packages, which are unpacked into the cache without
 * touching the system. Workers that look at the same time wait for the one that unpacks. To run the tests on another
 * version, put the folder with its redis-server or valkey-server first on PATH.
 */
import { execFile } from 'node:child_process';
import { access, constants, mkdir, mkdtemp, readFile, readdir, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { delimiter, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';

export interface RedisBinary {
  readonly path: string;
  /** What the process must find in its environment. */
  readonly env: NodeJS.ProcessEnv;
}

const run = promisify(execFile);
const NEEDED = ['redis-tools', 'libjemalloc2', 'liblzf1', 'libatomic1'];
/** Missing on very slim images only. */
const ON_SLIM_IMAGES = ['libssl3', 'libsystemd0', 'libstdc++6', 'libgcc-s1', 'libcap2', 'liblz4-1', 'liblzma5', 'libzstd1', 'libgcrypt20', 'libgpg-error0'];
const UNPACKING_TAKES_AT_MOST_MS = 120_000;

let found: Promise<RedisBinary | undefined> | undefined;
let foundMajor: Promise<number> | undefined;

/** Looks once per process; undefined where nothing but a container is left. */
export function findRedisBinary(): Promise<RedisBinary | undefined> {
  found ??= onPath().then(async (binary) => binary ?? (await inCache(cacheFolder())) ?? (await unpackDebianPackages(cacheFolder())));
  return found;
}

/** 6 lacks some commands and arguments. A container has the version of its image, which is not as old. */
export function majorVersion(): Promise<number> {
  foundMajor ??= findRedisBinary().then(async (binary) => {
    if (binary === undefined) return Infinity;
    const { stdout } = await run(binary.path, ['--version'], { env: binary.env });
    return Number(/v=(\d+)/.exec(stdout)?.[1] ?? Infinity);
  });
  return foundMajor;
}

export function cacheFolder(): string {
  return process.env['HOLDFAST_CACHE'] ?? join(homedir(), '.cache', 'nestjs-holdfast');
}

async function onPath(): Promise<RedisBinary | undefined> {
  for (const folder of (process.env['PATH'] ?? '').split(delimiter)) {
    for (const name of ['redis-server', 'valkey-server']) {
      const path = join(folder, name);
      if (folder !== '' && (await isExecutable(path))) return { path, env: process.env };
    }
  }
  return undefined;
}

async function inCache(cache: string): Promise<RedisBinary | undefined> {
  const root = join(cache, `redis-${process.arch}`);
  return (await isExecutable(join(root, 'usr/bin/redis-server'))) ? unpackedBinary(root) : undefined;
}

async function unpackedBinary(root: string): Promise<RedisBinary> {
  const folders: string[] = [];
  for (const lib of ['usr/lib', 'lib']) {
    const names = await readdir(join(root, lib)).catch(() => []);
    folders.push(...names.filter((name) => name.includes('linux')).map((name) => join(root, lib, name)));
  }
  return { path: join(root, 'usr/bin/redis-server'), env: { ...process.env, LD_LIBRARY_PATH: folders.join(delimiter) } };
}

/** undefined where there is no apt, or its packages cannot be had. */
async function unpackDebianPackages(cache: string): Promise<RedisBinary | undefined> {
  if (process.platform !== 'linux') return undefined;
  await mkdir(cache, { recursive: true });
  return whileAlone(join(cache, 'unpacking'), async () => {
    const unpackedMeanwhile = await inCache(cache);
    if (unpackedMeanwhile !== undefined) return unpackedMeanwhile;
    const root = await mkdtemp(join(cache, 'unpack-'));
    try {
      if (!(await unpack(NEEDED, root))) return undefined;
      // The package holds the server under the name of one of its tools.
      const server = join(root, 'usr/bin/redis-server');
      if (!(await isExecutable(server))) await symlink('redis-check-rdb', server);
      if (!(await starts(root))) await unpack(ON_SLIM_IMAGES, root);
      if (!(await starts(root))) return undefined;
      await rename(root, join(cache, `redis-${process.arch}`));
      return await inCache(cache);
    } finally {
      await rm(root, { recursive: true, force: true });
    }
  });
}

async function unpack(packages: readonly string[], root: string): Promise<boolean> {
  const downloads = await mkdtemp(join(root, 'download-'));
  const download = (name: string) => run('apt-get', ['download', '-q', name], { cwd: downloads }).then(() => true, () => false);
  const [first = '', ...others] = packages;
  if (!(await download(first))) {
    await run('apt-get', ['update', '-q']).catch(() => undefined);
    if (!(await download(first))) return false;
  }
  // Which of the libraries exist under these names depends on the release; whether the server starts is what counts.
  for (const name of others) await download(name);
  for (const file of await readdir(downloads)) await run('dpkg', ['-x', join(downloads, file), root]);
  await rm(downloads, { recursive: true });
  return true;
}

async function starts(root: string): Promise<boolean> {
  const { path, env } = await unpackedBinary(root);
  return run(path, ['--version'], { env }).then(() => true, () => false);
}

const isExecutable = async (path: string): Promise<boolean> => access(path, constants.X_OK).then(() => true, () => false);

/** Runs `work` in one process at a time; a lock whose process died is taken over. */
async function whileAlone<T>(lock: string, work: () => Promise<T>): Promise<T> {
  const deadline = Date.now() + UNPACKING_TAKES_AT_MOST_MS;
  while (!(await writeFile(lock, String(process.pid), { flag: 'wx' }).then(() => true, () => false))) {
    const pid = Number(await readFile(lock, 'utf8').catch(() => ''));
    if ((pid > 0 && !isAlive(pid)) || Date.now() > deadline) await rm(lock, { force: true });
    else await sleep(50);
  }
  try {
    return await work();
  } finally {
    await rm(lock, { force: true });
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
