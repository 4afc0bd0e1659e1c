/**
 * The highest fence that this process has seen in each slot group. It is sent with each request that may grant a lock, so that a
 * server that lost its memory, or a replica that was promoted without the last writes, does not grant a fence twice.
 *
 * A server believes every floor, because its own clock may be years behind (decisions.md). So a fence may only be noted here when
 * it came in a server's answer, or was compared with that server's clock.
 */
import { SLOT_GROUPS } from './redis-keys.js';

/** The year 2112 in µs, as in next-fence.lua. A greater number comes from no clock, and would use up the integers of a double. */
const HIGHEST_FLOOR = 2 ** 52;

export class FenceFloors {
  private readonly highest = new Float64Array(SLOT_GROUPS);

  of(group: number): number {
    return this.highest[group] ?? 0;
  }

  saw(group: number, fence: number): void {
    if (fence > this.highest[group]!) this.highest[group] = Math.min(fence, HIGHEST_FLOOR);
  }
}
