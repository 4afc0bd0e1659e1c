/**
 * Opens the shop: as one instance in this process, or as several processes that share one Redis. Either way the rest of
 * the sample only sees addresses.
 */
import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { NestFactory } from '@nestjs/core';
import { ShopModule } from './shop.module.js';

export interface Shop {
  /** One address for each instance. */
  readonly urls: readonly string[];
  close(): Promise<void>;
}

/** One instance in this process, on `port` of this machine only; 0 takes a free one. */
export async function openInstance(port = 0): Promise<Shop> {
  const app = await NestFactory.create(ShopModule, { logger: ['fatal', 'error', 'warn'] });
  await app.listen(port, '127.0.0.1');
  return { urls: [await app.getUrl()], close: () => app.close() };
}

/** `count` processes that share the Redis of REDIS_URL, on `port` and the following ones, or on free ones. */
export async function openProcesses(count: number, port = 0): Promise<Shop> {
  const script = fileURLToPath(new URL('./instance.js', import.meta.url));
  const processes = Array.from({ length: count }, (_, n) => fork(script, [String(port && port + n)]));
  const close = async (): Promise<void> => {
    await Promise.all(processes.map(closeProcess));
  };
  try {
    return { urls: await Promise.all(processes.map(urlOf)), close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** An instance says its address when it is ready, or ends before that. */
async function urlOf(child: ChildProcess): Promise<string> {
  const ready = new AbortController();
  const ended = once(child, 'exit', { signal: ready.signal }).then(([code]) => {
    throw new Error(`an instance of the shop ended at boot with exit code ${code}`);
  });
  const told = once(child, 'message', { signal: ready.signal }).then(([url]) => String(url));
  try {
    return await Promise.race([told, ended]);
  } finally {
    ready.abort();
    await Promise.allSettled([told, ended]);
  }
}

/** An instance whose parent is gone closes by itself, so hanging up is all that it takes. */
async function closeProcess(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, 'exit');
  if (child.connected) child.disconnect();
  await ended;
}
