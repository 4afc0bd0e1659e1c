/** A LockService on the embedded store and on virtual time, and the faults a test wants to see it live through. */
import { type LockKey, LockService } from '../../lib/lock.service.js';
import { pause, type Clock } from '../../lib/core/port/clock.js';
import type { Lease } from '../../lib/core/port/lease.js';
import type { LockDefaults, LockOptions } from '../../lib/core/port/lock-options.js';
import type { AcquireOutcome, AcquireRequest, Doubt, HolderRef, LockStore, ReleaseRequest, RenewOutcome, RenewRequest, StoreCapabilities, Wake } from '../../lib/core/port/lock-store.js';
import { LockStoreError } from '../../lib/core/port/errors.js';
import type { LockEvent, Report } from '../../lib/core/port/lock-events.js';
import { MemoryStore } from '../../lib/stores/memory/memory-store.js';
import { FakeClock } from './fake-clock.js';
import { StoreAround } from './store-around.js';

/** One process of a fleet: its view of the shared store, with a network that a test can cut. */
export class Wire extends StoreAround {
  /** Commands that reached the store, by verb. */
  readonly sent = { acquire: 0, renew: 0, release: 0, downgrade: 0, handOff: 0, adopt: 0 };
  /** Requests do not arrive. */
  cut = false;
  /** Requests arrive, answers do not. */
  deaf = false;
  /** So long does an answer take. */
  slowMs = 0;
  /** Wakes of these kinds are lost. */
  readonly lostWakes = new Set<Wake['kind']>();
  private readonly renewals: RenewRequest[] = [];
  private renewed: Promise<readonly RenewOutcome[]> | undefined;
  private readonly doubters: ((doubt: Doubt) => void)[] = [];

  constructor(store: LockStore, private readonly clock: Clock, private readonly wakes: Set<(wake: Wake) => void>, groupOf?: StoreCapabilities['groupOf']) {
    super(store, { groupOf });
  }

  get commands(): number {
    return Object.values(this.sent).reduce((sum, count) => sum + count, 0);
  }

  /** The store is that of all processes: none of them opens it, and none closes it. */
  override async open(): Promise<void> {}
  override async close(): Promise<void> {}

  override onWake(listener: (wake: Wake) => void): void {
    this.wakes.add((wake) => {
      if (!this.lostWakes.has(wake.kind) && !this.cut) listener(wake);
    });
  }

  override onDoubt(listener: (doubt: Doubt) => void): void {
    this.doubters.push(listener);
  }

  /** The store is reached anew, or says that it may have forgotten what it did. */
  reconnect(doubt: Doubt): void {
    for (const listener of this.doubters) listener(doubt);
  }

  override acquire(request: AcquireRequest): Promise<AcquireOutcome> {
    if (request.takesOver === 'ticket') return this.adopt(request);
    return request.takesOver ? this.handOff(request) : this.send('acquire', () => this.store.acquire(request));
  }

  override release(request: ReleaseRequest): Promise<'released' | 'lost'> {
    return this.send('release', () => this.store.release(request));
  }

  override downgrade(holder: HolderRef): Promise<'downgraded' | 'lost'> {
    return this.send('downgrade', () => this.store.downgrade(holder));
  }

  /** A request that gives a hold to a ticket. */
  handOff(request: AcquireRequest): Promise<AcquireOutcome> {
    return this.send('handOff', () => this.store.acquire(request));
  }

  /** A request that takes a hold from a ticket. */
  adopt(request: AcquireRequest): Promise<AcquireOutcome> {
    return this.send('adopt', () => this.store.acquire(request));
  }

  /** As every store does, it sends the renewals of one turn together. */
  override renew(request: RenewRequest): Promise<RenewOutcome> {
    const at = this.renewals.push(request) - 1;
    if (at === 0) this.renewed = new Promise((resolve) => process.nextTick(() => resolve(this.renewTogether(this.renewals.splice(0)))));
    return this.renewed!.then((outcomes) => outcomes[at]!);
  }

  async renewTogether(requests: readonly RenewRequest[]): Promise<readonly RenewOutcome[]> {
    try {
      return await this.send('renew', () => Promise.all(requests.map((request) => this.store.renew(request))));
    } catch (cause) {
      return requests.map(() => ({ kind: 'unknown', cause: cause as LockStoreError }));
    }
  }

  private async send<T>(verb: keyof Wire['sent'], act: () => Promise<T>): Promise<T> {
    if (this.cut) throw new LockStoreError('the network is cut');
    this.sent[verb] += 1;
    const answer = await act();
    if (this.slowMs > 0) await pause(this.clock, this.slowMs);
    if (this.deaf) throw new LockStoreError('the answer was lost');
    return answer;
  }
}

/** Several processes on one embedded store and one clock. */
export class Fleet {
  readonly clock = new FakeClock();
  readonly store = new MemoryStore(this.clock);
  private readonly wakes = new Set<(wake: Wake) => void>();
  private processes = 0;

  constructor() {
    this.store.onWake((wake) => this.wake(wake));
  }

  /** Tells all processes what the store says, or what a test makes it say. */
  wake(wake: Wake): void {
    this.wakes.forEach((listener) => listener(wake));
  }

  process(defaults: LockDefaults = {}, groupOf?: StoreCapabilities['groupOf'], report?: Report): { locks: LockService; wire: Wire } {
    const wire = new Wire(this.store, this.clock, this.wakes, groupOf);
    const locks = new LockService({ ...defaults, store: wire, process: `p${(this.processes += 1)}`, clock: this.clock, report });
    return { locks, wire };
  }
}

/** A fleet with one process, until the test adds others. */
export function alone(...how: Parameters<Fleet['process']>): { fleet: Fleet; locks: LockService; wire: Wire } {
  const fleet = new Fleet();
  return { fleet, ...fleet.process(...how) };
}

/** A process of a fleet, in which another process holds this lock. */
export async function besideHolder(key: LockKey, options?: LockOptions, ...how: Parameters<Fleet['process']>): Promise<{ fleet: Fleet; locks: LockService; wire: Wire; other: Lease }> {
  const fleet = new Fleet();
  const other = await fleet.process().locks.acquire(key, options);
  return { fleet, ...fleet.process(...how), other };
}

/** Two readers of one process whose terms differ: each has a read lease of its own in the store. */
export async function twoReadLeases(key: string): Promise<{ fleet: Fleet; wire: Wire; earlier: Lease; newer: Lease }> {
  const fleet = new Fleet();
  const { locks, wire } = fleet.process();
  const earlier = await locks.acquire(key, { mode: 'read' });
  const newer = await locks.acquire(key, { mode: 'read', leaseMs: 5_000 });
  return { fleet, wire, earlier, newer };
}

/** The events of this service from now on. */
export function eventsOf(locks: LockService): LockEvent[] {
  const told: LockEvent[] = [];
  locks.events.subscribe((event) => told.push(event));
  return told;
}

/** A promise to be settled by hand, and whether it has been. */
export function gate<T = void>(): { promise: Promise<T>; open: (value: T) => void } {
  let open!: (value: T) => void;
  const promise = new Promise<T>((resolve) => (open = resolve));
  return { promise, open };
}
