/** Sends releases to one Redis, and forgets the place of each id that is released. */
import type { ReleaseRequest } from '../../core/port/lock-store.js';
import type { Bundles } from '../wire/bundles.js';
import { release } from '../wire/lua.generated.js';
import { BundledRelease } from './bundled-release.js';
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
