/** A program that a test runs to its end: what it printed, and how it ended. */
import { spawn } from 'node:child_process';

export interface EndedProgram {
  /** null when it was killed. */
  readonly exitCode: number | null;
  readonly stdout: string;
  readonly stderr: string;
  /** Both streams, in the order in which they came. */
  readonly output: string;
}

export interface ProgramOptions {
  readonly env: NodeJS.ProcessEnv;
  readonly cwd?: string;
  /** After this time it is killed, with its children. */
  readonly longestMs?: number;
  /** Is given all of its stdout so far, whenever more comes; `interrupt` sends it a Ctrl-C. */
  readonly read?: (stdout: string, interrupt: () => void) => void;
}

export async function runToItsEnd(file: string, args: readonly string[], { env, cwd, longestMs, read = () => {} }: ProgramOptions): Promise<EndedProgram> {
  // A process group of its own, so that its children can be killed with it.
  const child = spawn(file, args, { cwd, env, detached: longestMs !== undefined, stdio: ['ignore', 'pipe', 'pipe'] });
  const watch = longestMs === undefined ? undefined : setTimeout(() => child.pid !== undefined && process.kill(-child.pid, 'SIGKILL'), longestMs);
  const printed = { stdout: '', stderr: '', output: '' };
  const keep = (stream: 'stdout' | 'stderr', text: string): void => {
    printed[stream] += text;
    printed.output += text;
  };
  child.stderr.setEncoding('utf8').on('data', (text: string) => keep('stderr', text));
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    keep('stdout', text);
    read(printed.stdout, () => child.kill('SIGINT'));
  });
  try {
    const exitCode = await new Promise<number | null>((resolve, reject) => {
      child.on('close', resolve).on('error', reject);
    });
    return { ...printed, exitCode };
  } finally {
    clearTimeout(watch);
  }
}
