/** Releases on one Redis: of an id, which holds or waits; and by force, of a lock from its holders. */
import { lateError } from '../../core/port/hold-errors.js';
import type { Hear, ReleaseRequest } from '../../core/port/lock-store.js';
import { ScriptRequest } from '../wire/bundles.js';
import { forceReleaseCall, readForceRelease, readRelease, release, releaseText } from '../wire/lua.generated.js';
import type { Spot } from '../wire/redis-keys.js';
import type { ScriptReply } from '../wire/script-runner.js';
import { LONG_AGO } from '../wire/server-clock.js';
import type { ServerView } from './server-view.js';

/** On a node of a Redlock a release may leave the mark of a request of its process that waits from now on (marks.lua). */
export type MarkingRelease = ReleaseRequest & { readonly mark?: string | undefined };

/** One release: its part of a call of release.lua, which takes an id out of the lock, whether it holds or waits, and its outcome. */
export class BundledRelease extends ScriptRequest<'released' | 'lost'> {
  constructor(
    private readonly view: ServerView,
    private readonly request: MarkingRelease,
    spot: Spot,
    told?: Hear<'released' | 'lost'>,
  ) {
    super(release, spot, request.askedAt, told);
  }

  /** The highest fence and the memory are those that are known now: they must be those of the connection that carries the release. */
  text(): string {
    const { request: { id, abandoned = false, askedAt, trustedUntil = -Infinity, mark }, spot: { group }, view: { trust, memories, recoveryMs } } = this;
    const mayBeOver = askedAt === undefined || askedAt >= trustedUntil || mark !== undefined;
    return releaseText({ id, abandoned, mayBeOver, mark, recoveryMs, floor: trust.floors.of(group), known: memories.of(group) });
  }

  answered(reply: ScriptReply): void {
    this.tell(reply === 1 ? 'released' : readRelease(reply));
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
  const { kind } = await runner.run({ ...call, key, namesNobody: fence === undefined }, readForceRelease);
  if (kind === 'late') throw lateError(key, node);
  return kind === 'taken';
}
