/** Takes locks away from their holders, for an operator, on one Redis, Sentinel or Cluster. */
import type { Clock } from '../../core/port/clock.js';
import { forcedRelease } from '../wire/forced-release.js';
import type { ScriptRunner } from '../wire/script-runner.js';
import type { Spots } from '../wire/redis-keys.js';
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
  const { runner, trust, clock, node, timeoutMs, recoveryMs } = parts;
  const on = parts.spots.of(key);
  const timed = { key, notAfter: clock.now() + timeoutMs, clock, serverClock: trust.clock, source: on.source, node };
  const asked = { on, fence, floor: trust.floors.of(on.group), recoveryMs };
  return (await forcedRelease(asked, timed, (call, decode) => runner.run({ ...call, namesNobody: fence === undefined }, decode))) === 'taken';
}
