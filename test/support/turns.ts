import { pause } from '../../lib/core/port/clock.js';
import type { Lease } from '../../lib/core/port/lease.js';
import type { LockService } from '../../lib/lock.service.js';
import type { Fleet } from './locks.js';

/** Lets everything run that needs no time to pass: more turns of the event loop than any chain of answers takes. */
export async function everythingHasRun(): Promise<void> {
  for (let turn = 0; turn < 100; turn += 1) await new Promise((resolve) => setImmediate(resolve));
}

/** Callers that take turns on one lock, or on the permits of one, until there were enough; each turn checks who is inside, and the fences. */
export class Turns {
  readonly servedBy = new Map<string, number>();
  served = 0;
  most = 0;
  private inside = 0;
  /** The highest fence of a turn that has ended. */
  private endedFence = 0;
  private readonly fences = new Set<number>();

  constructor(
    private readonly fleet: Fleet, private readonly enough: number, private readonly permits: number | undefined = undefined,
    private readonly holdMs: number | undefined = undefined,
  ) {}

  async take(name: string, locks: LockService): Promise<void> {
    while (this.served < this.enough) await locks.withLock('hot', { permits: this.permits, waitMs: Infinity }, (lease) => this.turn(name, lease));
  }

  get counts(): number[] {
    return [...this.servedBy.values()];
  }

  private async turn(name: string, { fence }: Lease): Promise<void> {
    if (this.served >= this.enough) return;
    this.served += 1;
    this.servedBy.set(name, (this.servedBy.get(name) ?? 0) + 1);
    this.most = Math.max(this.most, (this.inside += 1));
    if (this.inside > (this.permits ?? 1) || this.fences.has(fence) || fence <= this.endedFence) {
      throw new Error(`turn ${this.served}: ${this.inside} inside, fence ${fence}${this.fences.has(fence) ? ' again' : ''}, and ${this.endedFence} has ended`);
    }
    this.fences.add(fence);
    const { clock } = this.fleet;
    await (this.holdMs === undefined ? new Promise<void>((resolve) => clock.nextTurn(resolve)) : pause(clock, (this.holdMs * (1 + ((this.served * 7) % 5))) / 2));
    this.endedFence = Math.max(this.endedFence, fence);
    this.inside -= 1;
  }
}
