/**
 * What this process knows of its servers, and what follows from it for a grant: until when it may be trusted, and whether
 * its fence can be right.
 */
import { FIRST_LEASE_MS, type AcquireRequest, type Grant } from '../../core/port/lock-store.js';
import { FenceFloors } from '../wire/fence-floors.js';
import type { ServerGrant } from '../wire/lock-reply.js';
import type { Place } from './places.js';
import { ServerClock, trustOf, type Exchange } from '../wire/server-clock.js';
import type { PushedGrant } from '../wire/wake-channel.js';

/**
 * A fence is the server's clock or comes shortly after it, unless the clock was set back. A message that tells one further ahead is
 * not believed by itself: whoever may publish could use up all fences of a slot group with it.
 */
const FURTHEST_AHEAD_MS = 86_400_000;

export class Trust {
  readonly floors = new FenceFloors();
  /** By source (see LockSpot). */
  readonly clock = new ServerClock();

  /** `sourceOf` tells whose clock answers for a slot group. */
  constructor(private readonly sourceOf: (group: number) => number) {}

  observe(group: number, exchange: Exchange): void {
    this.clock.observe(this.sourceOf(group), exchange);
  }

  /** Another connection may lead to another server, with another clock. */
  reset(): void {
    this.clock.reset();
  }

  /** A grant that an answer told us. */
  answered(group: number, grant: ServerGrant, { sentAt, serverNow }: Exchange): Grant {
    const { fence, fences, mode, end, contended } = grant;
    this.floors.saw(group, fence + fences - 1);
    const leftMs = end - serverNow;
    return { fence, fences, mode, trustedUntil: trustOf(leftMs, sentAt), contended };
  }

  /** A grant that a message told us, if that is enough to trust it; else the store has to be asked. */
  pushed({ request, group, floor }: Place, push: PushedGrant, receivedAt: number): Grant | undefined {
    if (request.minReplicas > 0 || push.fence <= floor || !couldAnswer(request, push)) return undefined;
    const serverNow = this.clock.before(this.sourceOf(group), receivedAt, receivedAt);
    if (push.fence > 1_000 * (serverNow + FURTHEST_AHEAD_MS)) return undefined;
    const trustedUntil = this.clock.trustedUntil(this.sourceOf(group), push.end, push.lengthMs, receivedAt);
    if (trustedUntil === undefined) return undefined;
    const { fence, fences, mode, contended } = push;
    this.floors.saw(group, fence + fences - 1);
    return { fence, fences, mode, trustedUntil, contended };
  }
}

/** Messages are not signed: one that says more than this request could be granted comes from somebody else. */
function couldAnswer({ mode, leaseMs, fences, owner }: AcquireRequest, push: PushedGrant): boolean {
  if (![push.fence, push.fences, push.end, push.lengthMs].every(Number.isSafeInteger)) return false;
  // Whoever enters beside its owner does so in the owner's mode.
  if (push.mode !== mode && owner === undefined) return false;
  return push.lengthMs <= Math.min(leaseMs, FIRST_LEASE_MS) && push.fences >= 1 && push.fences <= fences;
}
