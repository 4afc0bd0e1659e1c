/** The example of docs/handing-off.md. */
import type { Job } from 'bullmq';
import type { LockService } from 'nestjs-holdfast';

interface Orders {
  check(id: string): Promise<void>;
  pay(id: string, fence: number): Promise<void>;
}

export class Payments {
  constructor(
    private readonly locks: LockService,
    private readonly orders: Orders,
    private readonly queue: { add(name: string, data: { readonly id: string; readonly ticket: string }, options: { readonly attempts: number; readonly backoff: number }): Promise<unknown> },
  ) {}

  async request(id: string): Promise<void> {
    // in the request
    await this.locks.withLock(`order:${id}`, async (lease) => {
      await this.orders.check(id);
      const ticket = await lease.handOff({ withinMs: 60_000 });
      await this.queue.add('pay', { id, ticket }, { attempts: 3, backoff: 1_000 });
    });
  }

  // in the worker: a BullMQ processor, in any process
  async process({ data: { id, ticket } }: Job) {
    await this.locks.withAdopted(ticket, { onError: 'handBack', withinMs: 60_000 }, async (lease) => {
      await this.orders.pay(id, lease.fence);
    });
  }
}
