/** The program `holdfast` as a child process, the way a shell starts it. */
import { spawn } from 'node:child_process';
import { dirname, join } from 'node:path';
import { builtPackage } from '../support/built-package.js';

export interface Finished {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
  readonly tookMs: number;
}

export function programPath(): string {
  return join(dirname(builtPackage()), 'cli', 'main.js');
}

/** Runs it to its end; `stopWhen` sends it a Ctrl-C once the output so far pleases. */
export function holdfast(args: readonly string[], stopWhen?: (out: string) => boolean, env: NodeJS.ProcessEnv = {}): Promise<Finished> {
  return finished(process.execPath, [programPath(), ...args], stopWhen, env);
}

export function finished(file: string, args: readonly string[], stopWhen?: (out: string) => boolean, env: NodeJS.ProcessEnv = {}): Promise<Finished> {
  const startedAt = performance.now();
  const { REDIS_URL: _, NODE_OPTIONS: __, ...clean } = process.env;
  const child = spawn(file, args, { stdio: ['ignore', 'pipe', 'pipe'], env: { ...clean, ...env } });
  let out = '';
  let err = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    out += text;
    if (stopWhen?.(out)) child.kill('SIGINT');
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => (err += text));
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (code) => resolve({ code, out, err, tookMs: performance.now() - startedAt }));
  });
}
