/**
 * A store and the lock machine side by side: each act is done to both, and after it the two must have answered the same
 * and describe the same locks. Fences need not be equal, but must stand in the same order; instants may differ by what
 * a real server takes, and by the margin of trust.
 */
import { expect } from '@jest/globals';
import type { Clock } from '../../lib/core/port/clock.js';
import type { AcquireRequest, HolderRef, LockStore, Wake } from '../../lib/core/port/lock-store.js';
import { adopt, type AdoptOutcome, handOff } from '../support/ticket-desk.js';
import { MemoryStore } from '../../lib/stores/memory/memory-store.js';
import { until } from '../contract/contender.js';
import { KEYS_OF_A_RUN, type Act } from './acts.js';
import { FencePairs, sameAdoption, sameOutcome, sameState, type AnyOutcome } from './sameness.js';

/** The store to compare, open, as processes `a` and `b` see it. */
export interface ModelTarget {
  readonly stores: readonly [LockStore, LockStore];
  /** The wakes of both processes since they were opened. */
  readonly wakes: readonly Wake[];
  readonly clock: Clock;
}

export class StoreAndMachine {
  private readonly model: MemoryStore;
  /** What the store has to tell by wakes, because no answer told it. */
  private readonly owedWakes: Wake[] = [];
  private readonly requests: AcquireRequest[] = [];
  private readonly fences = new FencePairs();

  constructor(private readonly target: ModelTarget, private readonly run: number) {
    // Without timers the machine does nothing that no command asked for, like Redis.
    this.model = new MemoryStore({ ...clockOf(target.clock), setTimer: () => ({}), clearTimer: () => undefined });
    this.model.onWake((wake) => this.owedWakes.push(wake));
  }

  async perform(act: Act): Promise<unknown> {
    const told = await this.apply(act);
    for (let key = 0; key < KEYS_OF_A_RUN; key++) await this.compareStates(this.nameOf(key));
    return told;
  }

  /** Ends everything, in both the same way, and waits for the wakes that are still owed. */
  async end(): Promise<void> {
    for (const [who] of this.requests.entries()) await this.perform({ act: 'release', who, abandoned: true });
    for (let key = 0; key < KEYS_OF_A_RUN; key++) await this.perform({ act: 'forceRelease', key, who: undefined });
    for (let key = 0; key < KEYS_OF_A_RUN; key++) expect((await this.target.stores[0].inspect(this.nameOf(key))).mode).toBeNull();
    const heard = (owed: Wake): boolean =>
      this.target.wakes.some(({ id, kind }) => id === owed.id && (kind === owed.kind || (kind === 'ask' && owed.kind === 'granted')));
    const missing = (): Wake[] => this.owedWakes.filter((owed) => !heard(owed));
    // Not arriving is told by what is missing.
    await until(this.target.clock, () => missing().length === 0, 'all wakes arrive', 2_000).catch(() => undefined);
    expect(missing()).toEqual([]);
    await this.model.close();
  }

  private async apply(act: Act): Promise<unknown> {
    switch (act.act) {
      case 'acquire':
        return this.acquire(await this.newRequest(act));
      case 'forceRelease':
        return this.forceRelease(this.nameOf(act.key), act.who);
      case 'adopt':
        return this.adopt(act);
      default:
        // Acts that name requests do nothing while there is none.
        return this.requests.length === 0 ? undefined : this.follow(act);
    }
  }

  private follow(act: Exclude<Act, { act: 'acquire' | 'forceRelease' | 'adopt' }>): Promise<unknown> {
    switch (act.act) {
      case 'repeat':
        return this.acquire(this.request(act.who));
      case 'renew': {
        const batch = this.batch(act.who).map(({ key, id }) => ({ key, id, leaseMs: act.leaseMs, minReplicas: 0 }));
        return this.compareBatch(batch, (store) => Promise.all(batch.map((one) => store.renew(one))));
      }
      case 'release': {
        const ref = { ...refOf(this.request(act.who)), abandoned: act.abandoned };
        return this.compare(ref, (store) => store.release(ref));
      }
      case 'handOff': {
        const request = this.request(act.who);
        const stays = request.mode === 'read' && request.owner === undefined && act.who % 2 === 0;
        const given = { ticketId: this.ticketId(act.ticket), withinMs: act.withinMs, holds: [{ ...refOf(request), stays }], notAfter: this.target.clock.now() + 60_000 };
        return this.compare(request, async (store) => (await handOff(store, given)).kind);
      }
      case 'downgrade': {
        const ref = refOf(this.request(act.who));
        return this.compare(ref, (store) => store.downgrade(ref));
      }
    }
  }

  private async acquire(request: AcquireRequest): Promise<unknown> {
    const now = { ...request, notAfter: this.target.clock.now() + 60_000 };
    const outcome = await this.compareOutcome(request, (store) => store.acquire(now));
    this.forgiveWakes([request]);
    return outcome;
  }

  /** The new holder is a request like any other for the acts that follow. */
  private async adopt({ key, ticket, leaseMs }: Extract<Act, { act: 'adopt' }>): Promise<AdoptOutcome> {
    const how = { mode: 'write', queue: false, minHoldMs: 0, fences: 1, owner: undefined, permits: undefined, replaces: undefined, handsOn: false } as const;
    const { key: name, id } = await this.newRequest({ act: 'acquire', key, leaseMs, ...how });
    const terms = { leaseMs, graceMs: 0, label: 'Orders.adopted', minReplicas: 0, until: Number.MAX_SAFE_INTEGER, notAfter: this.target.clock.now() + 60_000 };
    const ask = (store: LockStore): Promise<AdoptOutcome> => adopt(store, { ticketId: this.ticketId(ticket), holds: [{ key: name, id }], ...terms });
    const expected = await ask(this.model);
    const actual = await ask(this.storeOf({ key: name, id }));
    sameAdoption(name, expected, actual, this.fences);
    return actual;
  }

  private async forceRelease(key: string, who: number | undefined): Promise<unknown> {
    // The machine's fence of that request if it holds now, else one that nobody has.
    const { holders } = await this.model.inspect(key);
    const fence = who === undefined ? undefined : (holders[who % (holders.length + 1)]?.fence ?? 1);
    const theirs = fence === undefined ? undefined : this.fences.of(key, fence);
    const expected = await this.model.forceRelease(key, fence);
    expect(await this.target.stores[0].forceRelease(key, theirs)).toBe(expected);
    return expected;
  }

  private async compareOutcome(ref: HolderRef, ask: (store: LockStore) => Promise<AnyOutcome>): Promise<AnyOutcome> {
    const expected = await ask(this.model);
    const actual = await ask(this.storeOf(ref));
    sameOutcome(ref.key, expected, actual, this.fences);
    return actual;
  }

  private async compare(ref: HolderRef, ask: (store: LockStore) => Promise<string>): Promise<string> {
    const expected = await ask(this.model);
    expect(await ask(this.storeOf(ref))).toBe(expected);
    return expected;
  }

  private async compareBatch(batch: readonly HolderRef[], ask: (store: LockStore) => Promise<readonly AnyOutcome[]>): Promise<unknown> {
    const expected = await ask(this.model);
    const actual = await ask(this.storeOf(batch[0] as HolderRef));
    expect(actual).toHaveLength(expected.length);
    batch.forEach(({ key }, at) => sameOutcome(key, expected[at] as AnyOutcome, actual[at] as AnyOutcome, this.fences));
    this.forgiveWakes(batch);
    return actual;
  }

  private async compareStates(key: string): Promise<void> {
    sameState(await this.model.inspect(key), await this.target.stores[0].inspect(key), this.fences);
  }

  /** Who was told by an answer need not be told by a wake. */
  private forgiveWakes(told: readonly HolderRef[]): void {
    for (let at = this.owedWakes.length - 1; at >= 0; at--) {
      const owed = this.owedWakes[at] as Wake;
      if (owed.kind === 'granted' && told.some(({ id }) => id === owed.id)) this.owedWakes.splice(at, 1);
    }
  }

  private async newRequest({ act: _, key, replaces, ...how }: Extract<Act, { act: 'acquire' }>): Promise<AcquireRequest> {
    const number = this.requests.length;
    const name = this.nameOf(key);
    const request = {
      ...how,
      key: name,
      id: `${number % 2 === 0 ? 'a' : 'b'}.${this.run * 1_000 + number}`,
      label: `Orders.act${number}`,
      replaces: replaces === undefined ? undefined : await this.replaced(name, replaces, how.handsOn),
      minReplicas: 0,
      notAfter: 0,
    };
    this.requests.push(request);
    return request;
  }

  /** The id that a request replaces: of any request for the lock, or of one that holds it, because only a permit that is held is handed on. */
  private async replaced(key: string, number: number, handsOn: boolean): Promise<string | undefined> {
    const { holders } = await this.model.inspect(key);
    const choice = this.requests.filter((one) => one.key === key && (!handsOn || holders.some(({ id }) => id === one.id)));
    return choice[number % choice.length]?.id;
  }

  private ticketId(ticket: number): string {
    return `a.=${this.run}x${ticket}`;
  }

  private request(who: number): AcquireRequest {
    return this.requests[who % this.requests.length] as AcquireRequest;
  }

  /** One process sends its own ids only. */
  private batch(who: readonly number[]): HolderRef[] {
    const refs = who.map((each) => refOf(this.request(each)));
    return refs.filter((ref) => this.storeOf(ref) === this.storeOf(refs[0] as HolderRef));
  }

  private storeOf({ id }: HolderRef): LockStore {
    return this.target.stores[id.startsWith('a.') ? 0 : 1];
  }

  private nameOf(key: number): string {
    return `model:${this.run}:${key}`;
  }
}

function refOf({ key, id }: HolderRef): HolderRef {
  return { key, id };
}

function clockOf(clock: Clock): Omit<Clock, 'setTimer' | 'clearTimer'> {
  return {
    now: () => clock.now(), wallNow: () => clock.wallNow(), uptimeMs: () => clock.uptimeMs(), nextTurn: (callback) => clock.nextTurn(callback),
    keepAlive: () => clock.keepAlive(),
  };
}
