/** Releases on one Redis: of an id, which holds or waits; and by force, of a lock from its holders. */
import type { LockStoreError } from '../../core/port/errors.js';
import { lateError } from '../../core/port/hold-errors.js';
import type { Hear, ReleaseRequest } from '../../core/port/lock-store.js';
import { ScriptRequest } from '../wire/bundles.js';
import { listOf, releaseOutcome } from '../wire/lock-reply.js';
import { forceReleaseCall, readForceRelease, release, type ReleaseArgs, releaseText } from '../wire/lua.generated.js';
import { UNKNOWN_MEMORY, type Spot } from '../wire/redis-keys.js';
import type { ScriptReply } from '../wire/script-runner.js';
import { LONG_AGO } from '../wire/server-clock.js';
import type { ServerView } from './server-view.js';

/** On a node of a Redlock a release may leave the mark of a request of its process that waits from now on (marks.lua). */
export type MarkingRelease = ReleaseRequest & { readonly mark?: string | undefined };

/** One release: its part of a call of release.lua, which takes an id out of the lock, whether it holds or waits, and its outcome. */
export class BundledRelease extends ScriptRequest<'released' | 'lost'> implements ReleaseArgs {
  readonly id: string;
  readonly abandoned: boolean;
  readonly mayBeOver: boolean;
  readonly mark: string | undefined;
  readonly recoveryMs: number;
  /** The highest fence and the memory that are known when the release is sent: they must be those of the connection that carries it. */
  floor = 0;
  known = UNKNOWN_MEMORY;

  constructor(
    private readonly view: ServerView,
    { id, abandoned = false, askedAt, trustedUntil = -Infinity, mark }: MarkingRelease,
    spot: Spot,
    told?: Hear<'released' | 'lost'>,
  ) {
    super(release, spot, askedAt, told);
    this.recoveryMs = view.recoveryMs;
    this.id = id;
    this.abandoned = abandoned;
    this.mark = mark;
    this.mayBeOver = askedAt === undefined || askedAt >= trustedUntil || mark !== undefined;
  }

  text(): string {
    const { spot, view: { trust, memories } } = this;
    this.floor = trust.floors.of(spot.group);
    this.known = memories.of(spot.group);
    return releaseText(this);
  }

  answered(reply: ScriptReply): void {
    this.tell(reply === 1 ? 'released' : releaseOutcome(reply));
  }

  failed(error: LockStoreError): void {
    this.tell(error);
  }
}

/**
 * Takes a lock away from its holders, for an operator; false when there was no such holder. It takes the lock from whoever has it when
 * the server acts, so it acts in time or not at all: a copy that the network held up would take it from a later holder, after its caller was
 * told that it had failed. Rejects with LockStoreError.
 */
export async function forceRelease(key: string, fence: number | undefined, view: ServerView): Promise<boolean> {
  const { runner, trust, clock, node, timeoutMs, recoveryMs, keys, readClock } = view;
  const on = keys.spotOf(key);
  const until = clock.now() + timeoutMs;
  const limit = (): number => trust.clock.before(on.source, until, clock.now());
  if (limit() === 0) await readClock();
  const call = forceReleaseCall(on, { fence, floor: trust.floors.of(on.group), recoveryMs, notAfter: limit() || LONG_AGO });
  const { kind } = await runner.run({ ...call, key, namesNobody: fence === undefined }, (reply) => readForceRelease(listOf(reply)));
  if (kind === 'late') throw lateError(key, node);
  return kind === 'taken';
}
