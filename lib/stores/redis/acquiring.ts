/**
 * Asks one Redis for a lock, and asks again where one answer is not enough:
 *
 *     ask ──▶ granted ──(minReplicas)──▶ confirmed by a renewal that replicas acknowledged
 *      │         └──(fence not above one seen before: the server lost its memory)──▶ replaced by another request of its id
 *      ├────▶ waiting ──(the message of its grant arrived before)──▶ granted
 *      ├────▶ busy | upgrade | full | permits
 *      ├────▶ recovering: the server forgot, and grants nothing new for a while
 *      └────▶ late ──(the time of the server was not known before)──▶ asked once more, with a limit in that time; else an error
 */
import type { Clock } from '../../core/port/clock.js';
import { LockStoreError } from '../../core/port/errors.js';
import type { AcquireOutcome, AcquireRequest, Grant } from '../../core/port/lock-store.js';
import type { Bundles } from '../wire/bundles.js';
import { acquire } from '../wire/lua.generated.js';
import { BundledAcquire } from './bundled-acquire.js';
import type { Memories } from './memories.js';
import type { Recovery } from './recovery.js';
import type { Places } from './places.js';
import type { Renewals } from './renewals.js';
import type { Spots } from './spots.js';
import type { ToldHolds } from './told-holds.js';
import type { Trust } from './trust.js';

export interface AcquiringParts {
  readonly bundles: Bundles;
  readonly spots: Spots;
  readonly places: Places;
  readonly trust: Trust;
  readonly renewals: Renewals;
  readonly clock: Clock;
  readonly node: string;
  readonly maxLeaseMs: number;
  readonly recoveryMs: number;
  readonly memories: Memories;
  readonly recovery: Recovery;
  readonly toldHolds: ToldHolds;
}

export class Acquiring {
  /** Whether waiters of this process are passed over while nobody listens on its channel. It is found out at boot. */
  needsListener = false;

  constructor(readonly parts: AcquiringParts) {}

  /** Asks for a lock. Rejects with LockStoreError when the outcome is not known. The store has this function as its own, as that of Releases. */
  readonly acquire = (request: AcquireRequest): Promise<AcquireOutcome> => {
    const { bundles, spots, places } = this.parts;
    const spot = spots.of(request.key);
    const known = places.count > 0 ? places.askAgain(request) : undefined;
    return new Promise((resolve, reject) => {
      bundles.add(acquire, spot.source, new BundledAcquire(this, request, spot, known, resolve, reject));
    });
  };

  sendAgain(request: BundledAcquire): void {
    this.parts.bundles.add(acquire, request.spot.source, request);
  }

  /** The try of this id that is not answered yet, for a message that came before its answer. */
  underway(id: string): BundledAcquire | undefined {
    for (const request of this.parts.bundles.underway()) if (request instanceof BundledAcquire && request.request.id === id) return request;
    return undefined;
  }

  /**
   * Confirms a grant that counts only when replicas have it: a renewal writes the lock once more and waits for them. Without their
   * answer the grant stays, because the request asks for it again under the same id: a release that is held up in the network would take
   * away what it gets then. A request that gives up releases it.
   */
  async confirmed(request: AcquireRequest, group: number, grant: Grant, connection: number): Promise<AcquireOutcome> {
    const [renewed] = await this.parts.renewals.renew([request]);
    if (renewed?.kind === 'renewed') {
      this.parts.recovery.compare(group, grant.memory, connection);
      const { trustedUntil, contended } = renewed;
      return { kind: 'granted', grant: { ...grant, trustedUntil, contended } };
    }
    if (renewed?.kind === 'unknown') throw renewed.cause;
    const message = `Lock '${request.key}': the grant was gone before ${request.minReplicas} replicas had acknowledged it. It is safe to try again.`;
    throw new LockStoreError(message, { key: request.key });
  }

  /**
   * Called when a server that lost its memory granted a used fence: asks for another one, and the request takes the place of what its id
   * was granted, in one step. A release before it might be held up in the network and come after it.
   */
  askAnew(request: AcquireRequest): Promise<AcquireOutcome> {
    return this.acquire({ ...request, replaces: request.id, askedAt: this.parts.clock.now() });
  }
}
