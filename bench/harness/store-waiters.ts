/**
 * Requests that go through the store's port, each with an id and a place in the queue of its own.
 */
import { openStore } from '../contenders/holdfast.js';
import type { RedisStore } from '../../lib/stores/redis/redis-store.js';
import { quantile } from './loop.js';
import { difference, sent, type BenchServer } from './redis.js';

const STORES = 4;
const ASKS_EVERY_MS = 700;
/** How many requests that keep places share a command. */
const REQUESTS_OF_A_COMMAND = 8;
const KEY = 'order:hot';

export interface WaitersRun {
  readonly perSecond: number;
  /** A hand-over, all of them. */
  readonly commands: number;
  readonly questions: number;
  readonly deadMs: number;
  readonly deadP99Ms: number;
}

interface Desk {
  readonly name: string;
  readonly store: RedisStore;
  /** By id, those who wait: told of the grant, or to ask again. */
  readonly waiting: Map<string, (granted: boolean) => void>;
}

export class StoreWaiters {
  private readonly deadTimes: number[] = [];
  private releasedAt = Number.NaN;
  private sequence = 0;
  private questions = 0;
  private over = false;

  constructor(
    private readonly server: BenchServer,
    private readonly waiters: number,
    private readonly durationMs: number,
  ) {}

  async run(): Promise<WaitersRun> {
    await this.server.probe.flushall();
    const desks = await Promise.all(Array.from({ length: STORES }, () => this.open()));
    const asking = setInterval(() => desks.forEach((desk) => this.keepPlaces(desk)), ASKS_EVERY_MS);
    // One holds, the others wait.
    const waiting = Array.from({ length: this.waiters + 1 }, (_, n) => this.wait(desks[n % STORES]!));
    await this.pause(300);
    this.deadTimes.length = 0;
    this.questions = 0;
    const before = await this.server.reading();
    const began = performance.now();
    await this.pause(this.durationMs);
    const cost = difference(before, await this.server.reading());
    const seconds = (performance.now() - began) / 1000;
    const { questions } = this;
    const deadTimes = [...this.deadTimes];
    this.over = true;
    clearInterval(asking);
    desks.forEach(({ waiting: places }) => places.forEach((tell) => tell(false)));
    await Promise.all(waiting);
    await Promise.all(desks.map(({ store }) => store.close()));
    const turns = deadTimes.length;
    return {
      perSecond: turns / seconds,
      commands: sent(cost, ['evalsha', 'eval']) / turns,
      questions: questions / turns,
      deadMs: quantile(deadTimes, 0.5),
      deadP99Ms: quantile(deadTimes, 0.99),
    };
  }

  private async open(): Promise<Desk> {
    const name = `waiters-${Math.random().toString(36).slice(2, 8)}`;
    const store = await openStore({ port: this.server.port, host: '127.0.0.1' }, name, 0);
    const waiting: Desk['waiting'] = new Map();
    store.onWake((wake) => {
      if (wake.kind === 'granted' || wake.kind === 'ask') waiting.get(wake.id)?.(wake.kind === 'granted');
    });
    await store.open();
    return { name, store, waiting };
  }

  private async wait(desk: Desk): Promise<void> {
    while (!this.over) {
      const holder = { key: KEY, id: `${desk.name}.${++this.sequence}` };
      if (await this.granted(desk, holder)) {
        this.deadTimes.push(performance.now() - this.releasedAt);
        this.releasedAt = performance.now();
      }
      await desk.store.release(holder).catch(() => {});
    }
  }

  /** Asks until the lock is granted or the run is over. */
  private async granted({ store, waiting }: Desk, holder: { key: string; id: string }): Promise<boolean> {
    const request = { ...holder, mode: 'write', leaseMs: 30_000, queue: true, fences: 1, minHoldMs: 0, minReplicas: 0 } as const;
    while (!this.over) {
      const woken = new Promise<boolean>((resolve) => waiting.set(holder.id, resolve));
      const outcome = await store.acquire({ ...request, notAfter: performance.now() + 2_000 });
      const granted = outcome.kind === 'granted' || (outcome.kind === 'waiting' && !this.over && (await woken));
      waiting.delete(holder.id);
      if (granted) return true;
    }
    return false;
  }

  /** Who waits asks again, as a request of the library does. */
  private keepPlaces({ waiting }: Desk): void {
    this.questions += Math.ceil(waiting.size / REQUESTS_OF_A_COMMAND);
    for (const tell of waiting.values()) tell(false);
  }

  private pause(forMs: number): Promise<void> {
    return new Promise((resolve) => setTimeout(resolve, forMs));
  }
}
