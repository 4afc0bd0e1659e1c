/**
 * Processes of a test's own, each with a Nest application on the built package (worker-process.mjs).
 *
 *   const one = await startWorker({ redis: redis.url });
 *   const lease = await one.hold('order:1', { leaseMs: 1_000 });
 *   one.pause();
 */
import type { LockModuleOptions } from '../../lib/nest/lock-module-options.js';
import type { LockOptions } from '../../lib/core/port/lock-options.js';
import type { LockState } from '../../lib/core/port/lock-state.js';
import type { ReleaseOutcome } from '../../lib/core/port/lease.js';
import { DrivenProcess } from './driven-process.js';

export interface WorkerLease {
  readonly fence: number;
  readonly fences: Readonly<Record<string, number>>;
  readonly mode: string;
  look(): Promise<{ held: boolean; aborted: boolean; remainingMs: number }>;
  verify(): Promise<boolean>;
  release(): Promise<ReleaseOutcome>;
}

export class Worker extends DrivenProcess {
  private leases = 0;

  constructor(options: LockModuleOptions) {
    super('test/support/worker-process.mjs', { options });
  }

  async hold(key: string | readonly string[], options: LockOptions = {}): Promise<WorkerLease> {
    const name = `lease ${(this.leases += 1)}`;
    const { fences, mode } = await this.ask<{ fences: Record<string, number>; mode: string }>('hold', { name, key, options });
    return {
      fence: Object.values(fences)[0]!, fences, mode, look: () => this.ask('look', { name }), verify: () => this.ask('verify', { name }),
      release: () => this.ask('release', { name }),
    };
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
}

/** Starts a process with its own LockModule and waits until it is ready. */
export async function startWorker(options: LockModuleOptions): Promise<Worker> {
  const worker = new Worker(options);
  await worker.ready;
  return worker;
}
