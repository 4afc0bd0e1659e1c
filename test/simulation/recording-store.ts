/**
 * Stands between the library and its store in one simulated process, and writes down for the history checker what requests
 * did and heard, on the world's time.
 */
import type { LockState } from '../../lib/core/port/lock-state.js';
import type {
  AcquireOutcome, AcquireRequest, Grant, HolderRef, LockStore, ReleaseRequest, RenewOutcome, RenewRequest, Wake,
} from '../../lib/core/port/lock-store.js';
import { WAITER_LEASE_MS } from '../../lib/stores/memory/lock-machine.js';
import type { HistoryEvent } from '../model/history.js';
import { StoreAround } from '../support/store-around.js';
import type { SimProcess } from './sim-process.js';

export interface Recorder {
  readonly history: HistoryEvent[];
  /** Calls of the port, by all processes. */
  storeCalls: number;
  /** The ids whose holds went to tickets: a hold goes on under another id, of which those who were told of it do not know. */
  readonly handedOff: Set<string>;
  /** A renewal that left at `sentAt`, in the world's time, was answered: the store has the lease. */
  renewed(id: string, sentAt: number): void;
  /** A request for a lock that was sent at `sentAt` was told that it is held. */
  wasTold(process: SimProcess, key: string, sentAt: number): void;
}

interface Adopting {
  readonly since: number;
  /** When the process first gave it up. */
  releasedAt?: number;
}

export class RecordingStore extends StoreAround {
  /** The keys of requests, by id, for what is told by id alone. */
  private readonly keys = new Map<string, string>();
  /** When those who wait sent the last question that was answered so, by id. */
  private readonly waitedAt = new Map<string, number>();
  /** Adoptions that have not been answered, by the new holder's id. When one was first asked for: an answer that got lost is asked for again. */
  private readonly adopting = new Map<string, Adopting>();

  constructor(store: LockStore, private readonly process: SimProcess, private readonly recorder: Recorder) {
    super(store);
  }

  override onWake(listener: (wake: Wake) => void): void {
    this.store.onWake((wake) => {
      if (wake.kind === 'granted') this.granted(wake.id, wake.grant);
      listener(wake);
    });
  }

  override async acquire(request: AcquireRequest): Promise<AcquireOutcome> {
    const { key, id, mode, owner, permits, replaces, handsOn, takesOver } = request;
    if (takesOver === 'ticket') return this.adopt(request);
    if (takesOver !== undefined) return this.handOff(request);
    this.keys.set(id, key);
    if (replaces !== undefined) this.tell(replaces, { kind: 'released' });
    this.tell(id, { kind: 'asked', mode, owner, permits, passesQueue: handsOn });
    this.recorder.storeCalls++;
    const sentAt = this.process.time.now;
    const outcome = await this.store.acquire(request);
    if (outcome.kind === 'waiting' || outcome.kind === 'busy') this.recorder.wasTold(this.process, key, sentAt);
    if (outcome.kind === 'granted') this.granted(id, outcome.grant);
    if (outcome.kind === 'waiting') {
      // Who was silent for too long has lost its place, and got a new one.
      if (this.process.time.now - (this.waitedAt.get(id) ?? Infinity) > WAITER_LEASE_MS) this.tell(id, { kind: 'left' });
      this.tell(id, { kind: 'queued' });
      this.waitedAt.set(id, sentAt);
    }
    if ((outcome.kind === 'busy' && !request.queue) || outcome.kind === 'permits') this.tell(id, { kind: 'left' });
    return outcome;
  }

  override async renew(request: RenewRequest): Promise<RenewOutcome> {
    this.recorder.storeCalls++;
    const { id } = request;
    const sentAt = this.process.time.now;
    const outcome = await this.store.renew(request);
    if (outcome.kind === 'renewed') this.recorder.renewed(id, sentAt);
    if (outcome.kind === 'renewed') this.tell(id, { kind: 'renewed', trustedUntil: this.process.worldInstant(outcome.trustedUntil) });
    if (outcome.kind === 'lost') this.tell(id, { kind: 'lost' });
    return outcome;
  }

  override async release(request: ReleaseRequest): Promise<'released' | 'lost'> {
    this.recorder.storeCalls++;
    this.tell(request.id, { kind: 'released' });
    const adopting = this.adopting.get(request.id);
    if (adopting !== undefined) adopting.releasedAt ??= this.process.time.now;
    return this.store.release(request);
  }

  private handOff(request: AcquireRequest): Promise<AcquireOutcome> {
    this.recorder.storeCalls++;
    this.recorder.handedOff.add(request.replaces!);
    if (request.takesOver === 'hold') this.tell(request.replaces!, { kind: 'released' });
    return this.store.acquire(request);
  }

  private async adopt(request: AcquireRequest): Promise<AcquireOutcome> {
    const { key, id } = request;
    this.recorder.storeCalls++;
    if (!this.adopting.has(id)) this.adopting.set(id, { since: this.process.time.now });
    const outcome = await this.store.acquire(request);
    if (outcome.kind !== 'granted') return outcome;
    const { grant, taken: { owner, permits } = {} } = outcome;
    const { since, releasedAt } = this.adopting.get(id)!;
    this.keys.set(id, key);
    this.tell(id, { kind: 'asked', mode: grant.mode, owner, permits, passesQueue: true }, since);
    // Its process gave it up before the answer came, and the store may have heard of that first: nobody works under it.
    if (releasedAt !== undefined) this.tell(id, { kind: 'released' }, releasedAt);
    this.granted(id, grant);
    return outcome;
  }

  override async downgrade(holder: HolderRef): Promise<'downgraded' | 'lost'> {
    this.recorder.storeCalls++;
    this.tell(holder.id, { kind: 'downgraded' });
    return this.store.downgrade(holder);
  }

  override inspect(key: string): Promise<LockState> {
    this.recorder.storeCalls++;
    return this.store.inspect(key);
  }

  override forceRelease(key: string, fence?: number): Promise<boolean> {
    this.recorder.storeCalls++;
    return this.store.forceRelease(key, fence);
  }

  override tryOut(): Promise<void> {
    this.recorder.storeCalls++;
    return this.store.tryOut();
  }

  /** A grant that is heard of when its time is over is none: nobody is put on it. */
  private granted(id: string, { mode, fence, fences, trustedUntil }: Grant): void {
    if (trustedUntil <= this.process.clock.now()) return;
    this.tell(id, { kind: 'granted', mode, fence, fences, trustedUntil: this.process.worldInstant(trustedUntil) });
  }

  private tell(id: string, what: Told, at = this.process.time.now): void {
    const key = this.keys.get(id);
    if (key === undefined) return;
    this.recorder.history.push({ at, key, id, ...what } as HistoryEvent);
  }
}

type Told = DistributiveOmit<HistoryEvent, 'at' | 'key' | 'id'>;
type DistributiveOmit<T, K extends PropertyKey> = T extends unknown ? Omit<T, K> : never;
