/**
 * Processes of a test's own that run the built package (worker-process.mjs), to be paused, killed and closed.
 *
 *   const one = await startWorker({ redis: redis.url });
 *   const lease = await one.hold('order:1', { leaseMs: 1_000 });
 *   one.pause();
 */
import { fork, type ChildProcess } from 'node:child_process';
import { join } from 'node:path';
import type { LeadOptions } from '../../lib/core/hold/leadership.js';
import type { LockModuleOptions } from '../../lib/nest/lock-module-options.js';
import type { LockOptions } from '../../lib/core/port/lock-options.js';
import type { LockState } from '../../lib/core/port/lock-store.js';
import type { ReleaseOutcome } from '../../lib/core/port/lease.js';

const READY_WITHIN_MS = 20_000;
const SCRIPT = join(process.cwd(), 'test/support/worker-process.mjs');

export interface WorkerLease {
  readonly fence: number;
  readonly fences: Readonly<Record<string, number>>;
  readonly mode: string;
  look(): Promise<{ held: boolean; aborted: boolean; remainingMs: number }>;
  verify(): Promise<boolean>;
  release(): Promise<ReleaseOutcome>;
}

/** One term of a worker, by the clock that all processes of the machine share, in ms. What it did not live to tell is undefined. */
export interface TermOfWorker {
  readonly fence: number;
  readonly from: number;
  /** The last instant at which it was seen to lead. */
  readonly until?: number;
  /** When its signal aborted. */
  readonly toldAt?: number;
  readonly endedAt?: number;
}

export class Worker {
  /** The terms that it led, in their order. */
  readonly terms: TermOfWorker[] = [];
  private calls = 0;
  private leases = 0;
  private readonly pending = new Map<number, { resolve(value: never): void; reject(error: Error): void }>();
  readonly exited: Promise<{ code: number | null; signal: string | null }>;
  errors = '';

  constructor(
    private readonly child: ChildProcess,
    readonly ready: Promise<void> = new Promise((resolve, reject) => {
      child.on('message', (message: { ready?: boolean }) => message.ready && resolve());
      child.on('exit', (code) => reject(new Error(`the worker ended with ${code} before it was ready: ${this.errors}`)));
    }),
  ) {
    child.stderr?.on('data', (chunk) => (this.errors += String(chunk)));
    child.on('message', (message: { call?: number; result?: unknown; error?: object }) => this.answered(message));
    child.on('message', ({ term }: { term?: TermOfWorker }) => term && this.led(term));
    this.exited = new Promise((resolve) => child.on('exit', (code, signal) => resolve({ code, signal })));
    void this.exited.then(() => this.pending.forEach(({ reject }) => reject(new Error('the worker has gone'))));
  }

  async hold(key: string | readonly string[], options: LockOptions = {}): Promise<WorkerLease> {
    const name = `lease ${(this.leases += 1)}`;
    const { fences, mode } = await this.ask<{ fences: Record<string, number>; mode: string }>('hold', { name, key, options });
    return {
      fence: Object.values(fences)[0]!,
      fences,
      mode,
      look: () => this.ask('look', { name }),
      verify: () => this.ask('verify', { name }),
      release: () => this.ask('release', { name }),
    };
  }

  /** Stands for election from now on; `loaded`: and takes other locks meanwhile. */
  lead(role: string, options: LeadOptions = {}, loaded = false): Promise<void> {
    return this.ask('lead', { role, options, loaded });
  }

  isLeader(): Promise<boolean> {
    return this.ask('isLeader', {});
  }

  /** Blocks its event loop. Resolves to whether it led right after that. */
  block(ms: number): Promise<boolean> {
    return this.ask('block', { ms });
  }

  increments(counter: string, times: number, at: string): Promise<void> {
    return this.ask('increments', { counter, times, at });
  }

  transfers(from: string, to: string, times: number, at: string): Promise<void> {
    return this.ask('transfers', { from, to, times, at });
  }

  inspect(key: string): Promise<LockState> {
    return this.ask('inspect', { key });
  }

  pause(): void {
    this.child.kill('SIGSTOP');
  }

  resume(): void {
    this.child.kill('SIGCONT');
  }

  /** Asks it to end as an orchestrator does. */
  terminate(): void {
    this.child.kill('SIGTERM');
  }

  async kill(): Promise<void> {
    this.child.kill('SIGKILL');
    await this.exited;
  }

  /** Closes the application; the process must end by itself then. */
  async close(): Promise<number | null> {
    if (this.child.exitCode !== null || this.child.signalCode !== null) return this.child.exitCode;
    void this.ask('close', {}).catch(() => {});
    return (await this.exited).code;
  }

  ask<T>(verb: string, args: object): Promise<T> {
    const call = (this.calls += 1);
    return new Promise<T>((resolve, reject) => {
      this.pending.set(call, { resolve, reject });
      this.child.send({ call, verb, args });
    });
  }

  private led(term: TermOfWorker): void {
    const known = this.terms.findIndex(({ fence }) => fence === term.fence);
    this.terms.splice(known < 0 ? this.terms.length : known, 1, term);
  }

  private answered({ call, result, error }: { call?: number; result?: unknown; error?: object }): void {
    if (call === undefined) return;
    const waiting = this.pending.get(call);
    this.pending.delete(call);
    if (error) waiting?.reject(Object.assign(new Error('a worker failed'), error));
    else waiting?.resolve(result as never);
  }
}

/** Starts a process with its own LockModule and waits until it is ready. */
export async function startWorker(options: LockModuleOptions): Promise<Worker> {
  const child = fork(SCRIPT, [JSON.stringify(options)], { stdio: ['ignore', 'ignore', 'pipe', 'ipc'], execArgv: [] });
  const worker = new Worker(child);
  const timer = setTimeout(() => child.kill('SIGKILL'), READY_WITHIN_MS);
  try {
    await worker.ready;
  } finally {
    clearTimeout(timer);
  }
  return worker;
}
