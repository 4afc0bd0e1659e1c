/** The program `holdfast` as a child process, the way a shell starts it. */
import { dirname, join } from 'node:path';
import { builtPackage } from '../support/built-package.js';
import { runToItsEnd } from '../support/ended-program.js';

export interface Finished {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

export function programPath(): string {
  return join(dirname(builtPackage()), 'cli', 'main.js');
}

/** Runs it to its end; `stopWhen` sends it a Ctrl-C once the output so far pleases. */
export function holdfast(args: readonly string[], stopWhen?: (out: string) => boolean, env: NodeJS.ProcessEnv = {}): Promise<Finished> {
  return finished(process.execPath, [programPath(), ...args], stopWhen, env);
}

export async function finished(file: string, args: readonly string[], stopWhen?: (out: string) => boolean, env: NodeJS.ProcessEnv = {}): Promise<Finished> {
  const { REDIS_URL: _, NODE_OPTIONS: __, ...clean } = process.env;
  const read = (out: string, interrupt: () => void): void => {
    if (stopWhen?.(out)) interrupt();
  };
  const { exitCode, stdout, stderr } = await runToItsEnd(file, args, { env: { ...clean, ...env }, read });
  return { code: exitCode, out: stdout, err: stderr };
}
