/** Sends releases to one Redis, and forgets the place of each id that is released. */
import type { LockStoreError } from '../../core/port/errors.js';
import type { ReleaseRequest } from '../../core/port/lock-store.js';
import type { BundledRequest, Bundles } from '../wire/bundles.js';
import { releaseOutcome } from '../wire/lock-reply.js';
import { addRelease, release, type ReleaseArgs, type ScriptArgument } from '../wire/lua.generated.js';
import { UNKNOWN_MEMORY, type Spot, type Spots } from '../wire/redis-keys.js';
import type { ScriptReply } from '../wire/script-runner.js';
import type { Memories } from './memories.js';
import type { Places } from './places.js';
import type { Trust } from './trust.js';

export interface ReleasesParts {
  readonly bundles: Bundles;
  readonly spots: Spots;
  readonly places: Places;
  readonly trust: Trust;
  readonly memories: Memories;
  readonly recoveryMs: number;
}

export class Releases {
  /** The servers, by the source of their locks, that have run release.lua on the present connection. */
  private readonly runBy = new Set<number>();

  constructor(readonly parts: ReleasesParts) {}

  /** Rejects with LockStoreError when the outcome is not known. The store has this function as its own, which spares every release a call. */
  readonly release = (request: ReleaseRequest): Promise<'released' | 'lost'> => {
    const { bundles, spots, places } = this.parts;
    if (places.count > 0) places.drop(request.id);
    const spot = spots.of(request.key);
    return new Promise((resolve, reject) => {
      bundles.add(release, spot.source, new BundledRelease(this, request, spot, resolve, reject));
    });
  };

  /**
   * Calls `done` when the releases of these locks have been written to the network. A server that may not know release.lua runs a release
   * only when it is sent again as source, so nothing is said of it: the answer has to be awaited.
   */
  whenSent(keys: readonly string[], done: () => void): void {
    const { bundles, spots } = this.parts;
    if (keys.every((key) => this.runBy.has(spots.of(key).source))) bundles.whenSent(done);
  }

  wasRunBy(source: number): void {
    this.runBy.add(source);
  }

  /** Another server may answer from now on. */
  reset(): void {
    this.runBy.clear();
  }
}

/** One release: its part of a call of release.lua, which takes an id out of the lock, whether it holds or waits, and its outcome. */
export class BundledRelease implements BundledRequest, ReleaseArgs {
  readonly id: string;
  readonly abandoned: boolean;
  readonly mayBeOver: boolean;
  readonly key: string;
  readonly lockKey: string;
  readonly askedAt: number | undefined;
  readonly recoveryMs: number;
  /** The highest fence and the memory that are known when the release is sent: they must be those of the connection that carries it. */
  floor = 0;
  known = UNKNOWN_MEMORY;

  constructor(
    private readonly releases: Releases,
    request: ReleaseRequest,
    private readonly spot: Spot,
    private readonly resolve: (outcome: 'released' | 'lost') => void,
    readonly failed: (error: LockStoreError) => void,
  ) {
    this.recoveryMs = releases.parts.recoveryMs;
    this.id = request.id;
    this.abandoned = request.abandoned === true;
    this.key = spot.key;
    this.lockKey = spot.lockKey;
    this.askedAt = request.askedAt;
    const { askedAt = Infinity, trustedUntil = -Infinity } = request;
    this.mayBeOver = askedAt >= trustedUntil;
  }

  addTo(keys: string[], args: ScriptArgument[]): void {
    const { spot: { group }, releases: { parts: { trust, memories } } } = this;
    this.floor = trust.floors.of(group);
    this.known = memories.of(group);
    addRelease(keys, args, this.spot, this);
  }

  answered(reply: ScriptReply): void {
    this.releases.wasRunBy(this.spot.source);
    this.resolve(reply === 1 ? 'released' : releaseOutcome(reply));
  }
}
