/**
 * A Redlock whose masters are simulated: the real store and the real scripts, on virtual time, without a server. What happens to a
 * master or to the way to it is what the test says.
 */
import { jest } from '@jest/globals';
import type { Clock } from '../../lib/core/port/clock.js';
import { RedlockStore, type RedlockStoreOptions } from '../../lib/stores/redlock/redlock-store.js';
import type { Finding } from '../../lib/core/port/lock-events.js';
import { byIoredis } from '../../lib/stores/wire/ioredis.js';
import { acquire } from '../../lib/stores/wire/lua.generated.js';
import { Random } from '../simulation/random.js';
import { SimClient } from '../simulation/sim-client.js';
import { SimProcess } from '../simulation/sim-process.js';
import { SimServer } from '../simulation/sim-server.js';
import { Way } from '../simulation/sim-socket.js';
import { VirtualTime } from '../simulation/virtual-time.js';
import { forEachTest } from './started.js';
import { USUAL_OPTIONS } from './store-options.js';
import { wholeNode } from '../simulation/whole-node.js';

/** A process with a store, the ways from it to the masters, and what it wrote to its log. */
export interface RedlockMember {
  readonly store: RedlockStore;
  /** One for each node: a test leads a node elsewhere by another way in its place. */
  readonly ways: Way[];
  readonly told: Finding[];
}

export class SimulatedRedlock {
  readonly time = new VirtualTime();
  readonly servers: readonly SimServer[];
  /** All processes run on one machine. */
  readonly clock: Clock;
  private readonly random = new Random(7);
  private readonly machine = new SimProcess('machine', this.time, this.random.fork(), 0);
  private readonly stores: RedlockStore[] = [];

  /** All masters are as after a quarantine, and may vote at once. */
  constructor(nodes = 3) {
    this.servers = Array.from({ length: nodes }, (_, n) => new SimServer(`redis${n + 1}`, this.time, 0));
    this.clock = this.machine.clock;
    for (const server of this.servers) remembers(server);
  }

  /** Makes a process, whose store is not open yet. */
  member(name: string, options: Partial<RedlockStoreOptions> = {}): RedlockMember {
    const ways = this.servers.map((server) => this.wayTo(server));
    const told: Finding[] = [];
    const nodes = this.servers.map(({ name: host }, n) => byIoredis(SimClient.for(() => ways[n]!, { host })));
    const store = new RedlockStore({ ...USUAL_OPTIONS, clock: this.clock, report: (finding) => told.push(finding), nodes, process: name, ...options });
    this.stores.push(store);
    return { store, ways, told };
  }

  /** A way from the machine of the processes to a master. */
  wayTo(server: SimServer): Way {
    return new Way(this.machine, server, this.random.fork(), this.time);
  }

  /** A process whose store is open. */
  async opened(name: string, options?: Partial<RedlockStoreOptions>): Promise<RedlockMember> {
    const member = this.member(name, options);
    await this.runUntil(member.store.open());
    return member;
  }

  /** Lets time pass until the promise settles, and settles like it. */
  async runUntil<T>(promise: Promise<T>, withinMs = 600_000): Promise<T> {
    let settled = false;
    const marked = promise.finally(() => (settled = true));
    // Whoever awaits the result below gets the rejection; this only keeps it from counting as unhandled until then.
    marked.catch(() => undefined);
    if (!(await this.time.runUntil(() => settled, this.time.now + withinMs))) throw new Error(`not settled within ${withinMs} ms of virtual time`);
    return marked;
  }

  /** Timers of the processes that are set and have not fired. */
  get pendingTimers(): number {
    return this.machine.timers.size;
  }

  /** Lets so much time pass. */
  async pass(ms: number): Promise<void> {
    await this.time.run(ms);
  }

  async stop(): Promise<void> {
    for (const store of this.stores.splice(0)) await this.runUntil(store.close());
  }
}

/** Lets a master vote at once, as if it had granted nothing yet and its first quarantine were over. It knows the script of votes, as after the first one. */
export function remembers(server: SimServer): void {
  (Reflect.get(server, 'scripts') as Map<string, string>).set(acquire.sha1, acquire.source);
  for (const [key, value] of wholeNode('lock', server.runId, server.nowMs())) server.put(key, value);
}

/** A Redlock for each test of a file; chance is the same in each run. */
export function simulatedRedlock(nodes = 3): SimulatedRedlock {
  const start = async (): Promise<SimulatedRedlock> => {
    jest.spyOn(Math, 'random').mockImplementation(new Random(5).next);
    return new SimulatedRedlock(nodes);
  };
  return forEachTest(start, () => jest.restoreAllMocks());
}
