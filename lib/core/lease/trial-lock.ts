/**
 * Whether locks can be had: a lock that nobody else can name is taken and given back. A store may answer questions and refuse
 * every write, because its memory is full or it has become a replica; only a write tells.
 */
import type { Clock } from '../port/clock.js';
import type { LockStore } from '../port/lock-store.js';
import { ownKey } from '../port/own-keys.js';

/** Should the answer to the release be lost, the lock ends by itself so soon. */
const LEASE_MS = 2_000;

export class TrialLock {
  private tries = 0;

  constructor(
    private readonly store: LockStore,
    private readonly process: string,
    private readonly clock: Clock,
  ) {}

  /** Another try of this process that has the lock at the moment has shown the same. Rejects with LockStoreError. */
  async take(): Promise<void> {
    const { store, process, clock } = this;
    const holder = { key: ownKey(`trial:${process}`), id: `${process}.trial${(this.tries += 1)}`, abandoned: true };
    const terms = { mode: 'write', leaseMs: LEASE_MS, queue: false, fences: 1, minHoldMs: 0, minReplicas: 0 } as const;
    try {
      await store.acquire({ ...holder, ...terms, notAfter: clock.now() + LEASE_MS });
    } catch (error) {
      void store.release(holder).catch(() => undefined);
      throw error;
    }
    await store.release(holder);
  }
}
