/**
 * A process of a test's own that loads the built package and does what the test calls for, to be paused, killed and ended.
 * Its script names what it can do, by verbs (answer-calls.mjs):
 *
 *   const one = new DrivenProcess('test/support/worker-process.mjs', { options });
 *   await one.ready;
 *   await one.ask('hold', { key: 'order:1' });
 *   one.pause();
 */
import { fork, type ChildProcess } from 'node:child_process';
import { join } from 'node:path';
import { builtPackage } from './built-package.js';

/** Long, because a busy machine starts several at once. */
const READY_WITHIN_MS = 60_000;

interface Waiting {
  resolve(value: never): void;
  reject(error: Error): void;
}

/** What the process says: that it is ready, or the answer to a call. */
interface Message {
  readonly ready?: boolean;
  readonly call?: number;
  readonly result?: unknown;
  readonly error?: object;
}

export class DrivenProcess {
  /** Resolves when it answers calls; rejects when it ended before, with what it complained of. */
  readonly ready: Promise<void>;
  readonly exited: Promise<{ code: number | null; signal: NodeJS.Signals | null }>;
  private readonly child: ChildProcess;
  private readonly pending = new Map<number, Waiting>();
  private calls = 0;
  private stderr = '';

  /** `given` is what the script reads as JSON from its first argument. */
  constructor(script: string, given: object = {}) {
    const env = { ...process.env, HOLDFAST_PACKAGE: builtPackage() };
    const child = fork(join(process.cwd(), script), [JSON.stringify(given)], { stdio: ['ignore', 'ignore', 'pipe', 'ipc'], execArgv: [], env });
    this.child = child;
    child.stderr?.on('data', (chunk) => (this.stderr += String(chunk)));
    child.on('message', (message: Message) => this.answered(message));
    this.exited = new Promise((resolve) => child.on('exit', (code, signal) => resolve({ code, signal })));
    this.ready = new Promise((resolve, reject) => {
      child.on('message', ({ ready }: Message) => ready && resolve());
      void this.exited.then(({ code }) => reject(new Error(`a process ended with ${code} before it was ready: ${this.stderr}`)));
    });
    const late = setTimeout(() => child.kill('SIGKILL'), READY_WITHIN_MS);
    void this.ready.catch(() => {}).finally(() => clearTimeout(late));
    void this.exited.then(({ code }) => this.pending.forEach(({ reject }) => reject(new Error(`a process ended with ${code}: ${this.stderr}`))));
  }

  get isUp(): boolean {
    return this.child.exitCode === null && this.child.signalCode === null;
  }

  /** All that it complained of: an unhandled rejection, for one. */
  get errors(): string {
    return this.stderr;
  }

  /** What it complained of since it was asked last. */
  takeErrors(): string {
    const said = this.stderr;
    this.stderr = '';
    return said;
  }

  /** Calls a verb of its script; rejects with the name, code, key and message of the error that it fails with. */
  ask<T>(verb: string, args: object = {}): Promise<T> {
    const call = (this.calls += 1);
    return new Promise<T>((resolve, reject) => {
      if (!this.isUp) return reject(new Error(`a process has ended: ${this.stderr}`));
      this.pending.set(call, { resolve, reject });
      // Of a process that was killed just now the channel may be closed before its end is known.
      this.child.send({ call, verb, args }, (error) => error && reject(new Error(`a process has ended: ${error.message}. ${this.stderr}`)));
    });
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

  /** Closes its application; the process must end by itself then. */
  async close(): Promise<number | null> {
    if (this.isUp) void this.ask('close').catch(() => {});
    return (await this.exited).code;
  }

  async kill(): Promise<void> {
    this.child.kill('SIGKILL');
    await this.exited;
  }

  /** Calls nothing of it any more: with nothing else to do it must end by itself. */
  leaveAlone(): void {
    if (this.child.connected) this.child.disconnect();
  }

  /** It said something that it was not asked. */
  protected heard(_message: object): void {}

  private answered(message: Message): void {
    const { call, result, error } = message;
    if (call === undefined) return this.heard(message);
    const waiting = this.pending.get(call);
    this.pending.delete(call);
    if (error) waiting?.reject(Object.assign(new Error('a process failed'), error));
    else waiting?.resolve(result as never);
  }
}
