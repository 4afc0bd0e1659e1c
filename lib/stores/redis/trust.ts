/**
 * Decides until when a grant of one Redis may be trusted, and whether its fence can be right, from what this process knows of the
 * server: its clock and the highest fences.
 */
import { FIRST_LEASE_MS, type AcquireRequest, type Grant } from '../../core/port/lock-store.js';
import { FenceFloors } from '../wire/fence-floors.js';
import type { ServerGrant } from '../wire/lock-reply.js';
import type { Place } from './places.js';
import { ServerClock, trustOf, type Exchange } from '../wire/server-clock.js';
import type { PushedGrant } from '../wire/wake-channel.js';

/**
 * How far a fence in a message may be ahead of the server's clock, in ms. A fence is the server's clock or shortly after it, unless
 * the clock was set back. A message with a fence further ahead is not believed: anybody who may publish could use up all fences
 * of a slot group with it.
 */
const FURTHEST_AHEAD_MS = 86_400_000;

export class Trust {
  readonly floors = new FenceFloors();
  /** By source (see Spot). */
  readonly clock = new ServerClock();

  constructor(
    /** The source (see Spot) of the locks of a slot group: whose clock counts for them, and which of them can share a command. */
    readonly sourceOf: (group: number) => number,
  ) {}

  observe(group: number, exchange: Exchange): void {
    this.clock.observe(this.sourceOf(group), exchange);
  }

  /** Forgets all clock samples, because a new connection may lead to another server with another clock. */
  reset(): void {
    this.clock.reset();
  }

  /** The grant from an answer, made by the server with this memory (memories.ts). */
  answered(group: number, grant: ServerGrant, { sentAt, serverNow }: Pick<Exchange, 'sentAt' | 'serverNow'>, memory: string | undefined): Grant {
    const { fence, fences, mode, end, contended } = grant;
    this.floors.saw(group, fence + fences - 1);
    const leftMs = end - serverNow;
    return { fence, fences, mode, trustedUntil: trustOf(leftMs, sentAt), contended, memory };
  }

  /**
   * The grant from a message, made by the server with this memory; undefined when the message is not enough to trust it, so that the
   * store has to be asked.
   */
  pushed({ request, group, floor }: Pick<Place, 'request' | 'group' | 'floor'>, push: PushedGrant, receivedAt: number, memory: string | undefined): Grant | undefined {
    if (request.minReplicas > 0 || push.fence <= floor || !couldAnswer(request, push)) return undefined;
    const serverNow = this.clock.before(this.sourceOf(group), receivedAt, receivedAt);
    if (push.fence > 1_000 * (serverNow + FURTHEST_AHEAD_MS)) return undefined;
    const trustedUntil = this.clock.trustedUntil(this.sourceOf(group), push.end, push.lengthMs, receivedAt);
    if (trustedUntil === undefined) return undefined;
    const { fence, fences, mode, contended } = push;
    this.floors.saw(group, fence + fences - 1);
    return { fence, fences, mode, trustedUntil, contended, memory };
  }
}

/** Whether a message can be the grant of this request. Messages are not signed, so one that grants more must come from somebody else. */
function couldAnswer({ mode, leaseMs, fences, owner }: AcquireRequest, push: PushedGrant): boolean {
  if (![push.fence, push.fences, push.end, push.lengthMs].every(Number.isSafeInteger)) return false;
  // A request that joins the present hold of its owner gets the mode of that hold.
  if (push.mode !== mode && owner === undefined) return false;
  return push.lengthMs <= Math.min(leaseMs, FIRST_LEASE_MS) && push.fences >= 1 && push.fences <= fences;
}
