/**
 * Takes a lock away from its holders on one server. It takes the lock from whoever has it when it acts, so it acts in time or not at
 * all: a copy that the network held up would take it from a later holder, after its caller was told that it had failed.
 */
import type { ScriptCall, ScriptReply } from './script-runner.js';
import { inTime, type Timed } from './in-time.js';
import { listOf } from './lock-reply.js';
import { forceReleaseCall, readForceRelease, type ForceReleaseArgs } from './lua.generated.js';
import type { LockKeys } from './redis-keys.js';

interface ForcedRelease extends Omit<ForceReleaseArgs, 'notAfter'> {
  readonly on: LockKeys;
}

type Answer = 'taken' | 'none' | 'late';
type Run = (call: ScriptCall, decode: (reply: ScriptReply, sentAt: number, receivedAt: number) => Answer) => Promise<Answer>;

/** `none`: there was no such holder. Rejects with LockStoreError. */
export function forcedRelease({ on, ...args }: ForcedRelease, timed: Timed, run: Run): Promise<'taken' | 'none'> {
  const { key, serverClock, source } = timed;
  return inTime<'taken' | 'none'>(timed, (notAfter) =>
    run({ ...forceReleaseCall(on, { ...args, notAfter }), key }, (reply, sentAt, receivedAt) => {
      const { kind, now } = readForceRelease(listOf(reply));
      serverClock.observe(source, { sentAt, receivedAt, serverNow: now });
      return kind;
    }));
}
