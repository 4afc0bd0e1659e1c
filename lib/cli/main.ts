#!/usr/bin/env node
/** The program `holdfast`: runs the command of the command line and sets the exit code. */
import { readFileSync, realpathSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { keptAlive, systemClock } from '../core/port/clock.js';
import { isLockError } from '../core/port/errors.js';
import { readArguments, USAGE, UsageError, type Order } from './arguments.js';
import { EXIT, run, type ExitCode } from './commands.js';
import { lookAt } from './look.js';
import { StreamOutput } from './output.js';
import { askPassword } from './password.js';
import { initRedlock } from './redlock-init.js';

async function main(): Promise<ExitCode> {
  const out = new StreamOutput(process.stdout);
  const err = new StreamOutput(process.stderr);
  try {
    const order = readArguments(process.argv.slice(2), process.env);
    if (typeof order !== 'string') return await keptAlive(systemClock, () => obey(order, out, err));
    await out.line(order === 'help' ? USAGE : version());
    return EXIT.done;
  } catch (error) {
    if (error instanceof UsageError) {
      await err.message(`holdfast: ${error.message}.`);
      await err.message('See holdfast --help.');
      return EXIT.usage;
    }
    if (!isLockError(error)) throw error;
    await err.message(`holdfast: ${error.message}`);
    return error.code === 'LOCK_STORE' ? EXIT.store : EXIT.usage;
  }
}

async function obey({ command, target: named, json, asksPassword }: Order, out: StreamOutput, err: StreamOutput): Promise<ExitCode> {
  const target = asksPassword ? { ...named, password: await askPassword(process.stdin, process.stderr) } : named;
  if (command.name === 'redlock init') return initRedlock(target, { out, err, json });
  const look = await lookAt(target, (message) => void err.message(`holdfast: ${message}`));
  // Until here a Ctrl-C ends the program, so that nothing is changed. From here on the command ends itself, and says what it did.
  const stopped = new AbortController();
  process.once('SIGINT', () => stopped.abort()).once('SIGTERM', () => stopped.abort());
  try {
    return await run(command, look, { out, err, json, stop: stopped.signal });
  } finally {
    await look.close();
  }
}

/** The version of the package. Its package.json is three folders above this file, which npm starts through a symbolic link. */
function version(): string {
  const path = join(dirname(realpathSync(process.argv[1] ?? '')), '../../../package.json');
  return String((JSON.parse(readFileSync(path, 'utf8')) as { version: unknown }).version);
}

void main().then((code) => {
  process.exitCode = code;
});
