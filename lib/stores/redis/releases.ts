/** Sends releases to one Redis, and forgets the place of each id that is released. */
import type { LockStoreError } from '../../core/port/errors.js';
import type { ReleaseRequest } from '../../core/port/lock-store.js';
import type { BundledRequest, Bundles } from '../wire/bundles.js';
import type { FenceFloors } from '../wire/fence-floors.js';
import { releaseOutcome } from '../wire/lock-reply.js';
import { addRelease, release, type ReleaseArgs, type ScriptArgument } from '../wire/lua.generated.js';
import { type LockSpot, UNKNOWN_MEMORY } from '../wire/redis-keys.js';
import type { ScriptReply } from '../wire/script-runner.js';
import type { Memories } from './memories.js';
import type { Places } from './places.js';
import type { Spots } from './spots.js';
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
  constructor(private readonly parts: ReleasesParts) {}

  /** Rejects with LockStoreError when the outcome is not known. The store has this function as its own, which spares every release a call. */
  readonly release = (request: ReleaseRequest): Promise<'released' | 'lost'> => {
    const { bundles, spots, places, trust, memories, recoveryMs } = this.parts;
    if (places.count > 0) places.drop(request.id);
    const spot = spots.of(request.key);
    return new Promise((resolve, reject) => {
      bundles.add(release, spot.source, new BundledRelease(request, spot, recoveryMs, trust.floors, memories, resolve, reject));
    });
  };
}

/** One release: its part of a call of release.lua, which takes an id out of the lock, whether it holds or waits, and its outcome. */
export class BundledRelease implements BundledRequest, ReleaseArgs {
  readonly id: string;
  readonly abandoned: boolean;
  readonly mayBeOver: boolean;
  readonly key: string;
  readonly lockKey: string;
  readonly askedAt: number | undefined;
  /** The highest fence and the memory that are known when the release is sent: they must be those of the connection that carries it. */
  floor = 0;
  known = UNKNOWN_MEMORY;

  constructor(
    request: ReleaseRequest,
    private readonly spot: LockSpot,
    readonly recoveryMs: number,
    private readonly floors: FenceFloors,
    private readonly memories: Memories,
    private readonly resolve: (outcome: 'released' | 'lost') => void,
    readonly failed: (error: LockStoreError) => void,
  ) {
    this.id = request.id;
    this.abandoned = request.abandoned === true;
    this.key = spot.key;
    this.lockKey = spot.lockKey;
    this.askedAt = request.askedAt;
    const { askedAt = Infinity, trustedUntil = -Infinity } = request;
    this.mayBeOver = askedAt >= trustedUntil;
  }

  addTo(keys: string[], args: ScriptArgument[]): void {
    const { group } = this.spot;
    this.floor = this.floors.of(group);
    this.known = this.memories.of(group);
    addRelease(keys, args, this.spot, this);
  }

  answered(reply: ScriptReply): void {
    this.resolve(reply === 1 ? 'released' : releaseOutcome(reply));
  }
}
