/**
 * Takes locks away from their holders, for an operator, on one Redis, Sentinel or Cluster. It takes the lock from whoever has it when
 * the server acts, so it acts in time or not at all: a copy that the network held up would take it from a later holder, after its caller was
 * told that it had failed.
 */
import type { Clock } from '../../core/port/clock.js';
import { lateError } from '../../core/port/hold-errors.js';
import { listOf } from '../wire/lock-reply.js';
import { forceReleaseCall, readForceRelease } from '../wire/lua.generated.js';
import type { Spots } from '../wire/redis-keys.js';
import type { ScriptRunner } from '../wire/script-runner.js';
import { LONG_AGO } from '../wire/server-clock.js';
import type { Trust } from './trust.js';

interface ForceReleaseParts {
  readonly runner: ScriptRunner;
  readonly spots: Spots;
  readonly trust: Trust;
  readonly clock: Clock;
  readonly node: string;
  readonly timeoutMs: number;
  readonly recoveryMs: number;
}

/** False when there was no such holder. Rejects with LockStoreError. */
export async function forceRelease(key: string, fence: number | undefined, parts: ForceReleaseParts): Promise<boolean> {
  const { runner, trust, clock, node, timeoutMs, recoveryMs, spots } = parts;
  const on = spots.of(key);
  const until = clock.now() + timeoutMs;
  const limit = (): number => trust.clock.before(on.source, until, clock.now());
  const ask = (notAfter: number): Promise<'taken' | 'none' | 'late'> => {
    const call = forceReleaseCall(on, { fence, floor: trust.floors.of(on.group), recoveryMs, notAfter: notAfter || LONG_AGO });
    return runner.run({ ...call, key, namesNobody: fence === undefined }, (reply, sentAt, receivedAt) => {
      const { kind, now } = readForceRelease(listOf(reply));
      trust.clock.observe(on.source, { sentAt, receivedAt, serverNow: now });
      return kind;
    });
  };
  // While the server's time is not known, a first request, which is late by any clock, only learns it.
  const known = limit();
  let answer = await ask(known);
  if (answer === 'late' && known === 0 && clock.now() < until) answer = await ask(limit());
  if (answer === 'late') throw lateError(key, node);
  return answer === 'taken';
}
