/**
 * The processes of the contenders, started and given orders from here.
 */
import { fork, type ChildProcess } from 'node:child_process';
import { contenderNamed } from '../contenders/all.js';
import type { Contender } from '../contenders/contender.js';
import type { Order } from './worker.js';

export interface Member {
  readonly contender: Contender;
  order<T>(order: Order): Promise<T>;
  /** SIGSTOP: it does nothing until it goes on. */
  stop(): void;
  goOn(): void;
  close(): Promise<void>;
}

const WORKER = new URL('worker.js', import.meta.url);
const CLOSING_MS = 5_000;

/** Starts a process for the contender and waits until it is connected. */
export async function join(entry: string, ports: readonly number[], watched: readonly 'timers'[] = []): Promise<Member> {
  const child = fork(WORKER, [entry, ports.join(), ...watched], { execArgv: ['--no-warnings'] });
  const member: Member = {
    contender: contenderNamed(entry),
    order: (order) => ask(child, entry, order),
    stop: () => void child.kill('SIGSTOP'),
    goOn: () => void child.kill('SIGCONT'),
    async close() {
      const killer = setTimeout(() => child.kill('SIGKILL'), CLOSING_MS);
      await ask(child, entry, { kind: 'close' }).catch(() => {});
      clearTimeout(killer);
      child.kill('SIGKILL');
    },
  };
  await member.order({ kind: 'open' });
  return member;
}

export async function withCrew<T>(entries: readonly string[], ports: readonly number[], work: (crew: readonly Member[]) => Promise<T>, watched: readonly 'timers'[] = []): Promise<T> {
  const crew = await Promise.all(entries.map((entry) => join(entry, ports, watched)));
  try {
    return await work(crew);
  } finally {
    await Promise.all(crew.map((member) => member.close()));
  }
}

function ask<T>(child: ChildProcess, entry: string, order: Order): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    const gone = (code: number | null): void => reject(new Error(`the process of ${entry} ended with ${code}`));
    child.once('exit', gone);
    child.once('message', ({ answer, error }: { answer: T; error?: string }) => {
      child.off('exit', gone);
      if (error === undefined) resolve(answer);
      else reject(new Error(`${entry}: ${error}`));
    });
    child.send(order);
  });
}
