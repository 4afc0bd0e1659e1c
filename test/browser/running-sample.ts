/** The sample as its users start it, but as a child of the test and with a Redis of the test's own. */
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { once } from 'node:events';

const MAIN = 'build/sample-app/main.js';
const OPEN_WITHIN_MS = 90_000;

export interface RunningSample {
  /** One address for each process. */
  readonly urls: readonly string[];
  stop(): Promise<void>;
}

export async function runSample(redisUrl: string): Promise<RunningSample> {
  if (!existsSync(MAIN)) throw new Error(`${MAIN} is missing. These tests run the built sample: npm run build:all`);
  const child = spawn(process.execPath, [MAIN], { env: { ...process.env, REDIS_URL: redisUrl, PORT: '0' }, stdio: ['ignore', 'pipe', 'pipe'] });
  let printed = '';
  const ended = once(child, 'exit');
  const stop = async (): Promise<void> => {
    child.kill('SIGTERM');
    await ended;
  };
  const opened = new Promise<string[]>((resolve) => {
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', (chunk: Buffer) => {
        printed += chunk.toString();
        const [, urls] = /The shop is open: (.+)\n/.exec(printed) ?? [];
        if (urls !== undefined) resolve(urls.trim().split(/\s+/));
      });
    }
  });
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`the sample did not open in ${OPEN_WITHIN_MS} ms:\n${printed}`)), OPEN_WITHIN_MS);
  });
  const died = ended.then(() => Promise.reject(new Error(`the sample ended before it was open:\n${printed}`)));
  died.catch(() => undefined);
  try {
    return { urls: await Promise.race([opened, late, died]), stop };
  } catch (error) {
    await stop();
    throw error;
  } finally {
    clearTimeout(timer);
  }
}
