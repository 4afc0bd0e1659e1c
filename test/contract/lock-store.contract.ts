/**
 * The contract of the port as one suite: every store runs it, and the tests carry the numbers of the promises in
 * lib/core/port/lock-store.ts. Leases are short because it runs on real time, unless a store brings a clock that it drives;
 * it knows nothing of a store but the port.
 */
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { systemClock, type Clock } from '../../lib/core/port/clock.js';
import type { LockMode } from '../../lib/core/port/lock-options.js';
import type { LockStore } from '../../lib/core/port/lock-store.js';
import { Contender } from './contender.js';
import { keepsACrowdApart } from './crowd.contract.js';
import { endsLeases } from './endings.contract.js';
import { keepsGrace } from './grace.contract.js';
import { grantsLocks } from './grants.contract.js';
import { servesOperators } from './operating.contract.js';
import { countsPermits } from './permits.contract.js';
import { handsHoldsOn } from './tickets.contract.js';
import { takesTurns } from './turns.contract.js';
import { keepsWaiters } from './waiting.contract.js';

/** A promise's number (T: of tickets), `queue` for tests that need waiters, or the verb of the port that has no number of its own. */
export type PromiseLabel = `P${number}` | `T${number}` | 'queue' | 'permits' | 'owner' | 'downgrade' | 'minHold' | 'inspect' | 'list' | 'forceRelease';

export interface LockStoreContract {
  readonly name: string;
  /** Opens the store as one process sees it; all processes share the locks. The suite closes it. */
  open(process: string): Promise<LockStore>;
  /** How many records of locks and queues there are in the store, memory for fences not counted. */
  leftovers(): Promise<number>;
  /** The clock that the stores were given. */
  readonly clock?: Clock;
  /** Lets time pass on that clock until a test has ended. */
  readonly drive?: (test: Promise<void>) => Promise<void>;
  /** It keeps no common queue, has no permits either, says so, and is not asked for what they promise. */
  readonly withoutQueue?: true;
  /** It cannot hand holds to other processes, says so, and is not asked for what tickets promise. */
  readonly withoutTickets?: true;
}

/** What the tests play on: two processes of one application, and as many keys and contenders as they like. */
export interface Stage {
  readonly clock: Clock;
  /** How late something may be that comes by itself. In real time no less than what hangs, because a machine may be slow. */
  readonly lateMs: number;
  newKey(): string;
  /** A new request; each one comes from the other process than the one before. */
  contender(key: string): Contender;
  /** A contender for each mode, asking in this order: the first ones may be granted, the others queue. */
  line(key: string, ...modes: readonly LockMode[]): Promise<readonly Contender[]>;
  /** These and nobody else hold the lock. */
  expectHolders(key: string, ...holders: readonly (Contender | undefined)[]): Promise<void>;
  /** The two processes; a store that lives in one process is both. */
  stores(): readonly [LockStore, LockStore];
  leftovers(): Promise<number>;
}

/** Declares a test; `labels` are the promises it is about. */
export type Promised = (labels: readonly PromiseLabel[], name: string, test: () => Promise<void>) => void;

export function lockStoreContract(contract: LockStoreContract): void {
  const { clock = systemClock, drive = (test) => test } = contract;
  const contenders = new Map<string, Contender>();
  let opened: [LockStore, LockStore] | undefined;
  let keys = 0;

  const stage: Stage = {
    clock,
    lateMs: clock === systemClock ? 60_000 : 1_000,
    newKey: () => `contract:${++keys}`,
    contender(key) {
      const turn = contenders.size % 2;
      const id = `${turn === 0 ? 'a' : 'b'}.${contenders.size + 1}`;
      const contender = new Contender(stage.stores()[turn] as LockStore, key, id, clock);
      contenders.set(id, contender);
      return contender;
    },
    async line(key, ...modes) {
      const line = modes.map((mode) => ({ mode, contender: stage.contender(key) }));
      for (const { mode, contender } of line) await contender.ask({ mode });
      return line.map(({ contender }) => contender);
    },
    async expectHolders(key, ...holders) {
      const ids = (await stage.stores()[0].inspect(key)).holders.map(({ id }) => id);
      expect(ids.sort()).toEqual(holders.map((holder) => holder?.id).sort());
    },
    stores() {
      if (opened === undefined) throw new Error('the stores are opened before the first test');
      return opened;
    },
    leftovers: () => contract.leftovers(),
  };

  const promised: Promised = (labels, name, test) => {
    if (contract.withoutQueue && (labels.includes('queue') || labels.includes('permits'))) return;
    it(`${labels.join(' ')} ${name}`, () => drive(test()));
  };

  describe(`${contract.name} keeps the contract of the port:`, () => {
    beforeAll(async () => {
      opened = [await contract.open('a'), await contract.open('b')];
      // One store may stand for both processes, and takes one listener.
      for (const store of new Set(opened)) store.onWake((wake) => contenders.get(wake.id)?.wakes.push(wake));
    });
    afterAll(async () => {
      for (const store of new Set(opened)) await store.close();
    });
    it('says whether it keeps a queue, and whether a lock can have permits', () => {
      const has = contract.withoutQueue !== true;
      for (const store of stage.stores()) expect(store.capabilities).toMatchObject({ queue: has, permits: has });
    });
    it('says whether it hands holds on', () => {
      for (const store of stage.stores()) expect(store.ticketHome === undefined).toBe(contract.withoutTickets === true);
    });
    grantsLocks(stage, promised);
    endsLeases(stage, promised);
    keepsGrace(stage, promised);
    if (!contract.withoutTickets) handsHoldsOn(stage, promised);
    takesTurns(stage, promised);
    keepsWaiters(stage, promised);
    countsPermits(stage, promised);
    keepsACrowdApart(stage, promised);
    // Last, because it ends with the check that all the others left nothing behind.
    servesOperators(stage, promised);
  });
}
