/**
 * An application of a user: a copy of test/package/apps/<name> in a folder of its own, with the packed package installed
 * into it by `npm install`, without --force and without --legacy-peer-deps.
 */
import { cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { runToItsEnd, type EndedProgram } from '../support/ended-program.js';

/** Longest time of one command; installing into an empty cache takes most. */
export const COMMAND_TAKES_AT_MOST_MS = 240_000;

export class Application {
  private constructor(
    readonly folder: string,
    /** What npm said when it installed everything. */
    readonly installed: EndedProgram,
    private readonly home = folder,
  ) {}

  /** `packages` are installed beside those of its package.json. */
  static async install(name: string, packages: readonly string[]): Promise<Application> {
    const folder = await mkdtemp(join(tmpdir(), `holdfast-${name}-`));
    await copySources(name, folder);
    const installed = await npmInstall(folder, packages);
    if (installed.exitCode !== 0) throw new Error(`npm install in ${name} failed:\n${installed.output}`);
    return new Application(folder, installed);
  }

  /**
   * An application that `nest new` made, with its own configuration; the sources of test/package/apps/<name> are put over it. Tools
   * that neither build nor test it are not installed.
   */
  static async make(name: string, packages: readonly string[]): Promise<Application> {
    const home = await mkdtemp(join(tmpdir(), `holdfast-${name}-`));
    const nest = join(process.cwd(), 'node_modules', '@nestjs', 'cli', 'bin', 'nest.js');
    const made = await run(process.execPath, [nest, 'new', name, '--skip-install', '--skip-git', '--package-manager', 'npm'], home, {});
    if (made.exitCode !== 0) throw new Error(`nest new ${name} failed:\n${made.output}`);
    const folder = join(home, name);
    for (const unused of ['app.controller.ts', 'app.controller.spec.ts', 'app.service.ts']) await rm(join(folder, 'src', unused));
    await copySources(name, folder);
    await leaveOut(join(folder, 'package.json'), ['@nestjs/mau', '@vitest/coverage-v8', 'oxlint', 'oxlint-tsgolint', 'prettier', 'source-map-support']);
    const installed = await npmInstall(folder, packages);
    if (installed.exitCode !== 0) throw new Error(`npm install in ${name} failed:\n${installed.output}`);
    return new Application(folder, installed, home);
  }

  /** Runs a program in its folder; `env` comes on top of a user's. `told` hears each line that it prints, while it runs. */
  run(program: string, args: readonly string[], env: Readonly<Record<string, string>> = {}, told: (line: string) => void = () => {}): Promise<EndedProgram> {
    return run(program, args, this.folder, env, told);
  }

  /** Puts other versions in. */
  async add(...packages: string[]): Promise<void> {
    const { exitCode, output } = await npmInstall(this.folder, packages);
    if (exitCode !== 0) throw new Error(`npm install ${packages.join(' ')} failed:\n${output}`);
  }

  /** What a program prints as its last line, as JSON. */
  async seen(program: string, args: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<unknown> {
    const { exitCode, stdout, output } = await this.run(program, args, env);
    if (exitCode !== 0) throw new Error(`${program} ${args.join(' ')} ended with ${exitCode}:\n${output}`);
    return JSON.parse(stdout.trim().split('\n').at(-1) ?? '');
  }

  /** Removes it. */
  stop(): Promise<void> {
    return rm(this.home, { recursive: true, force: true });
  }
}

/** The applications of Nest have one service of orders, with its tests. */
async function copySources(name: string, folder: string): Promise<void> {
  for (const each of name.startsWith('nest-') ? ['orders', name] : [name]) await cp(join(process.cwd(), 'test', 'package', 'apps', each), folder, { recursive: true });
}

async function leaveOut(path: string, packages: readonly string[]): Promise<void> {
  const file = JSON.parse(await readFile(path, 'utf8')) as { devDependencies: Record<string, string> };
  for (const name of packages) delete file.devDependencies[name];
  await writeFile(path, JSON.stringify(file, null, 2));
}

function npmInstall(folder: string, packages: readonly string[]): Promise<EndedProgram> {
  return run('npm', ['install', '--prefer-offline', '--no-audit', '--no-fund', ...packages], folder, {});
}

/** The environment of this process less what the test run has put into it. */
export function environmentOfUsers(): NodeJS.ProcessEnv {
  const { NODE_OPTIONS, NODE_ENV, JEST_WORKER_ID, REDIS_URL, ...env } = process.env;
  return env;
}

/** Ends for certain: a program that does not end by itself is killed, with its children, and has no exit code. */
function run(
  program: string, args: readonly string[], cwd: string, more: Readonly<Record<string, string>>, told: (line: string) => void = () => {},
): Promise<EndedProgram> {
  let heard = 0;
  const read = (stdout: string): void => {
    const whole = stdout.slice(heard, stdout.lastIndexOf('\n') + 1);
    heard += whole.length;
    for (const line of whole.split('\n').slice(0, -1)) told(line);
  };
  return runToItsEnd(program, args, { cwd, env: { ...environmentOfUsers(), ...more }, longestMs: COMMAND_TAKES_AT_MOST_MS, read });
}
