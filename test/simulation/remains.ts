/** What is left when all work is done: nothing but fences in Redis, and in the processes no timer, no entry and no connection. */
import type { Member, World } from './world.js';

/** Leases of the dead end, keys expire, and what waits in old sockets has arrived. */
const AFTERMATH_MS = 20_000;

/** Looks behind what is private: an entry that stays is a leak, and nobody else would notice it. */
interface Inside {
  readonly core: {
    readonly store: { readonly store: InsideStore };
    readonly queues: Counted;
    readonly watchdog: { readonly schedule: Counted };
    readonly holders: { readonly looks: Counted };
  };
}

interface Counted {
  readonly size: number;
}

interface InsideNode {
  readonly redis: { readonly runner: { readonly underway: readonly unknown[] } };
  readonly requests: { readonly places: Counted };
}

/** Of a single Redis, or of a Redlock. */
type InsideStore =
  | InsideNode
  | {
      readonly ballots: Counted;
      readonly schedule: Counted;
      readonly nodes: readonly { readonly store: InsideNode }[];
    };

export class Remains {
  constructor(private readonly world: World) {}

  async check(): Promise<void> {
    const { world } = this;
    if (world.broken) return;
    const { plan, time } = world;
    await time.run(Math.max(...plan.leasesMs) + plan.maxLeaseMs + AFTERMATH_MS);
    for (const member of this.living) this.inProcess(member);
    for (const server of world.servers) {
      for (const key of server.keys()) if (!/^\{lock(:\d+)?\}:(f|format|q:%heard)$/.test(key)) world.violations.push(`left in ${server.name}: ${key}`);
    }
    await this.close();
  }

  private get living(): readonly Member[] {
    return this.world.members.filter(({ process }) => process.alive);
  }

  private inProcess({ process, locks }: Member): void {
    const { store, queues, watchdog, holders } = (locks as unknown as Inside).core;
    const counts: Record<string, number> = {
      ...inStore(store.store), timers: process.timers.size, appointments: watchdog.schedule.size, keys: queues.size,
      'questions for a holder': holders.looks.size,
    };
    for (const [what, count] of Object.entries(counts)) if (count !== 0) this.world.violations.push(`left in ${process.name}: ${count} ${what}`);
  }

  private async close(): Promise<void> {
    const { world } = this;
    const members = this.living;
    let open = members.length;
    for (const { locks } of members) locks.close().then(() => (open -= 1), (error: unknown) => world.violations.push(`closing failed: ${String(error)}`));
    await world.time.run(5_000);
    if (open > 0) world.violations.push(`${open} processes could not be closed`);
    for (const { process, ways } of members) {
      if (process.timers.size > 0) world.violations.push(`${process.name} has ${process.timers.size} timers after it was closed`);
      const sockets = ways.reduce((sum, way) => sum + way.sockets.size, 0);
      if (sockets > 0) world.violations.push(`${process.name} has ${sockets} connections after it was closed`);
    }
  }
}

function inStore(store: InsideStore): Record<string, number> {
  if ('redis' in store) return { places: store.requests.places.size, requests: store.redis.runner.underway.length };
  return {
    ballots: store.ballots.size,
    withdrawals: store.schedule.size,
    requests: store.nodes.reduce((sum, { store: { redis: { runner } } }) => sum + runner.underway.length, 0),
  };
}
