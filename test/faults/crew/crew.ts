/**
 * Processes that outlive single fault runs: starting one takes longer than many a fault. Each boots a new application for
 * each run; one that was killed or crashed is replaced.
 */
import { fork, type ChildProcess } from 'node:child_process';
import { join } from 'node:path';
import type { LockModuleOptions } from '../../../lib/nest/lock-module-options.js';
import { builtPackage } from '../../support/built-package.js';
import { GUARDED_WRITE } from './fenced-resource.js';
import type { CallerPlan, OpenFailure, ProcessReport } from './stay-record.js';

const SCRIPT = join(process.cwd(), 'test/faults/crew/crew-process.mjs');
const ENDS_WITHIN_MS = 5_000;

export interface Berth {
  /** `run/process`, the run's name being that of its keys in the resource. */
  readonly name: string;
  readonly resourceUrl: string;
}

export class CrewMember {
  private calls = 0;
  private readonly pending = new Map<number, { resolve(value: never): void; reject(error: Error): void }>();
  private stderr = '';
  readonly exited: Promise<number | null>;
  readonly ready: Promise<void>;

  constructor(private readonly child: ChildProcess) {
    child.stderr?.on('data', (chunk) => (this.stderr += String(chunk)));
    child.on('message', (message: { call?: number; result?: unknown; error?: object }) => this.answered(message));
    this.exited = new Promise((resolve) => child.on('exit', (code) => resolve(code)));
    this.ready = new Promise((resolve, reject) => {
      child.on('message', (message: { ready?: boolean }) => message.ready && resolve());
      child.on('exit', () => reject(new Error(`a process ended before it was ready: ${this.stderr}`)));
    });
    this.ready.catch(() => {});
    void this.exited.then((code) => this.pending.forEach(({ reject }) => reject(new Error(`a process ended with ${code}: ${this.stderr}`))));
  }

  get isUp(): boolean {
    return this.child.exitCode === null && this.child.signalCode === null;
  }

  /** What it complained of since it was asked last: an unhandled rejection, for one. */
  takeComplaints(): string {
    const said = this.stderr;
    this.stderr = '';
    return said;
  }

  open(options: LockModuleOptions, berth: Berth): Promise<OpenFailure | undefined> {
    return this.ask('open', { options, guard: GUARDED_WRITE, ...berth });
  }

  begin(plans: readonly CallerPlan[], seed: number): Promise<void> {
    return this.ask('begin', { plans, seed });
  }

  lastGrants(): Promise<Record<string, number>> {
    return this.ask('lastGrants', {});
  }

  heldSince(key: string): Promise<number | undefined> {
    return this.ask('heldSince', { key });
  }

  finish(): Promise<ProcessReport> {
    return this.ask('finish', {});
  }

  stepClock(ms: number): Promise<void> {
    return this.ask('stepClock', { ms });
  }

  close(): Promise<void> {
    return this.ask('close', {});
  }

  pause(): void {
    this.child.kill('SIGSTOP');
  }

  resume(): void {
    this.child.kill('SIGCONT');
  }

  /** Leaves it alone: with nothing to do it must end by itself. Answers its exit code, or 'stays'. */
  async dismiss(): Promise<number | null | 'stays'> {
    if (this.child.connected) this.child.disconnect();
    const timer = setTimeout(() => this.child.kill('SIGKILL'), ENDS_WITHIN_MS);
    const code = await this.exited;
    clearTimeout(timer);
    return this.child.signalCode === 'SIGKILL' ? 'stays' : code;
  }

  private ask<T>(verb: string, args: object): Promise<T> {
    const call = (this.calls += 1);
    return new Promise<T>((resolve, reject) => {
      if (!this.isUp) return reject(new Error(`a process has ended: ${this.stderr}`));
      this.pending.set(call, { resolve, reject });
      this.child.send({ call, verb, args });
    });
  }

  private answered({ call, result, error }: { call?: number; result?: unknown; error?: object }): void {
    if (call === undefined) return;
    const waiting = this.pending.get(call);
    this.pending.delete(call);
    if (error) waiting?.reject(Object.assign(new Error('a process failed'), error));
    else waiting?.resolve(result as never);
  }
}

export class Crew {
  private readonly idle: CrewMember[] = [];

  async take(count: number): Promise<CrewMember[]> {
    while (this.idle.length < count) this.idle.push(this.start());
    const members = this.idle.splice(0, count);
    await Promise.all(members.map(({ ready }) => ready));
    return members;
  }

  giveBack(members: readonly CrewMember[]): void {
    this.idle.push(...members.filter(({ isUp }) => isUp));
  }

  /** Ends all who are idle, and tells how: 0 is right. */
  async dismiss(): Promise<(number | null | 'stays')[]> {
    return Promise.all(this.idle.splice(0).map((member) => member.dismiss()));
  }

  private start(): CrewMember {
    const env = { ...process.env, HOLDFAST_DIST: builtPackage() };
    const child = fork(SCRIPT, [], { stdio: ['ignore', 'ignore', 'pipe', 'ipc'], execArgv: [], env });
    return new CrewMember(child);
  }
}
