/** What a master of a Redlock has in Redis when it has granted nothing yet, and may vote at once, as after its first quarantine. */
import { RedisKeys, SLOT_GROUPS } from '../../lib/stores/wire/redis-keys.js';

/** The Redis keys with their values. `nowMs`: the server's time. */
export function wholeNode(prefix: string, runId: string, nowMs: number): readonly (readonly [string, string])[] {
  const keys = new RedisKeys(prefix);
  return Array.from({ length: SLOT_GROUPS }, (_, group) => [keys.fence(group), `1 ${runId.slice(0, 16)}:${nowMs}`]);
}
