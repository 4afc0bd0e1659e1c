/** One release: its part of a call of release.lua, which takes an id out of the lock, whether it holds or waits, and its outcome. */
import type { LockStoreError } from '../../core/port/errors.js';
import type { ReleaseRequest } from '../../core/port/lock-store.js';
import type { BundledRequest } from '../wire/bundles.js';
import { releaseOutcome } from '../wire/lock-reply.js';
import { addRelease, type ReleaseArgs, type ScriptArgument } from '../wire/lua.generated.js';
import type { Memories } from './memories.js';
import type { LockSpot } from '../wire/redis-keys.js';
import type { ScriptReply } from '../wire/script-runner.js';

export class GivingBack implements BundledRequest, ReleaseArgs {
  readonly id: string;
  readonly abandoned: boolean;
  readonly key: string;
  readonly lockKey: string;
  readonly askedAt: number | undefined;

  constructor(
    request: ReleaseRequest,
    private readonly spot: LockSpot,
    readonly floor: number,
    readonly recoveryMs: number,
    private readonly memories: Memories,
    private readonly resolve: (outcome: 'released' | 'lost') => void,
    readonly failed: (error: LockStoreError) => void,
  ) {
    this.id = request.id;
    this.abandoned = request.abandoned === true;
    this.key = spot.key;
    this.lockKey = spot.lockKey;
    this.askedAt = request.askedAt;
  }

  /** The memory is read when the release is sent, because it must be that of the connection on which it is sent. */
  get known(): string {
    return this.memories.of(this.spot.group);
  }

  addTo(keys: string[], args: ScriptArgument[]): void {
    addRelease(keys, args, this.spot, this);
  }

  answered(reply: ScriptReply): void {
    this.resolve(releaseOutcome(reply));
  }
}
