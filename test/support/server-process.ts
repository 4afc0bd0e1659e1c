/**
 * One server process of a test: started from a binary or, where only Docker is there, in a container on the host's
 * network. A reaper kills what is left when this process ends, however it ends.
 */
import { spawn, type ChildProcess } from 'node:child_process';
import { findRedisBinary } from './redis-binary.js';

export interface ServerProcess {
  readonly pid: number;
  /** undefined while it runs; ended by a signal, 128 or more. */
  readonly exitCode: number | undefined;
  readonly exited: Promise<void>;
  readonly logs: string;
  signal(name: 'SIGTERM' | 'SIGKILL' | 'SIGSTOP' | 'SIGCONT'): Promise<void>;
}

export const TEST_IMAGE = process.env['HOLDFAST_TEST_IMAGE'] ?? 'redis:7';
const LOGS_KEPT = 200_000;

/** `more` is set in the environment of a process; a container has one of its own. */
export async function startProcess(args: readonly string[], folder: string, more: NodeJS.ProcessEnv = {}): Promise<ServerProcess> {
  // Set by `npm run test:containers`, which is about the last resort on a machine that may have better ones.
  const binary = process.env['HOLDFAST_TEST_SERVERS'] === 'containers' ? undefined : await findRedisBinary();
  if (binary === undefined) return startContainer(args, folder);
  const child = spawn(binary.path, args, { cwd: folder, env: { ...binary.env, ...more }, stdio: ['ignore', 'pipe', 'pipe'] });
  let logs = '';
  let exitCode: number | undefined;
  const keep = (chunk: Buffer) => (logs = (logs + chunk.toString()).slice(-LOGS_KEPT));
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', keep);
    (stream as unknown as { unref(): void }).unref();
  }
  const exited = new Promise<void>((resolve) => {
    child.on('error', (error) => {
      logs += `${error.message}\n`;
      exitCode = 127;
      resolve();
    });
    child.on('exit', (code) => {
      exitCode = code ?? 128;
      reaper().write(`- ${child.pid} ${folder}\n`);
      resolve();
    });
  });
  child.unref();
  reaper().write(`+ ${child.pid} ${folder}\n`);
  return {
    pid: child.pid ?? 0,
    get exitCode() {
      return exitCode;
    },
    exited,
    get logs() {
      return logs;
    },
    signal: async (name) => {
      child.ref(); // whoever signals waits for what follows
      child.kill(name);
    },
  };
}

async function startContainer(args: readonly string[], folder: string): Promise<ServerProcess> {
  const { GenericContainer, getContainerRuntimeClient } = await import('testcontainers');
  const runtime = await getContainerRuntimeClient().catch((error: unknown) => {
    const tried = 'no redis-server or valkey-server on PATH or in the cache, none in Debian packages, and no Docker';
    throw new Error(`These tests need a Redis server: ${tried}. Install one of them, e.g. apt-get install redis-server.`, { cause: error });
  });
  const container = await new GenericContainer(TEST_IMAGE)
    .withNetworkMode('host')
    .withBindMounts([{ source: folder, target: folder }])
    .withWorkingDir(folder)
    .withCommand(['redis-server', ...args])
    .start();
  const handle = runtime.container.getById(container.getId());
  const { State } = await handle.inspect();
  let logs = '';
  let exitCode: number | undefined;
  (await container.logs()).on('data', (chunk) => (logs = (logs + String(chunk)).slice(-LOGS_KEPT)));
  const exited = handle.wait().then(async ({ StatusCode }: { StatusCode: number }) => {
    exitCode = StatusCode;
    await handle.remove({ force: true }).catch(() => undefined);
  });
  return {
    pid: State.Pid,
    get exitCode() {
      return exitCode;
    },
    exited,
    get logs() {
      return logs;
    },
    signal: async (name) => {
      await handle.kill({ signal: name });
    },
  };
}

// A shell, because a process killed by SIGKILL can clean up nothing, and jest hands tests a `process` without 'exit'.
const REAP = `
while read -r sign pid folder; do
  case "$sign" in
    +) left="$left $pid"; folders="$folders $folder" ;;
    -) now=""; for each in $left; do [ "$each" = "$pid" ] || now="$now $each"; done; left="$now" ;;
  esac
done
[ -z "$left" ] || kill -9 $left
sleep 0.1
rm -rf $folders`;

let reaping: ChildProcess | undefined;

function reaper(): { write(line: string): void } {
  if (reaping === undefined) {
    reaping = spawn('sh', ['-c', REAP], { stdio: ['pipe', 'ignore', 'ignore'], detached: true });
    reaping.unref();
    (reaping.stdin as unknown as { unref(): void }).unref();
    reaping.stdin?.on('error', () => undefined);
  }
  return { write: (line) => reaping?.stdin?.write(line) };
}
