/** One release: its part of a call of release.lua, which takes an id out of the lock, whether it holds or waits, and its outcome. */
import type { LockStoreError } from '../../core/port/errors.js';
import type { ReleaseRequest } from '../../core/port/lock-store.js';
import type { BundledRequest } from '../wire/bundles.js';
import { releaseOutcome } from '../wire/lock-reply.js';
import type { LockSpot } from '../wire/redis-keys.js';
import type { ScriptArgument, ScriptReply } from '../wire/script-runner.js';

export class GivingBack implements BundledRequest {
  readonly key: string;
  readonly lockKey: string;
  readonly askedAt: number | undefined;

  constructor(
    private readonly request: ReleaseRequest,
    private readonly spot: LockSpot,
    private readonly floor: number,
    private readonly resolve: (outcome: 'released' | 'lost') => void,
    readonly failed: (error: LockStoreError) => void,
  ) {
    this.key = spot.key;
    this.lockKey = spot.lockKey;
    this.askedAt = request.askedAt;
  }

  addTo(keys: string[], args: ScriptArgument[]): void {
    const { lockKey, queueKey, fenceKey } = this.spot;
    keys.push(lockKey, queueKey, fenceKey);
    args.push(this.request.id, `${this.floor} ${this.request.abandoned ? 1 : 0}`);
  }

  answered(reply: ScriptReply): void {
    this.resolve(releaseOutcome(reply));
  }
}
