/**
 * The highest fence this process has seen in each slot group. It is sent along with whatever may grant, so that a
 * server that lost its memory, or a replica promoted without the last writes, does not grant a fence twice.
 *
 * A server takes a floor at its word, for its own clock may be years behind (decisions.md). So whoever notes a fence here has it
 * from a server's answer, or has held it against that server's clock.
 */
import { SLOT_GROUPS } from './redis-keys.js';

/** The year 2112 in µs, as in next-fence.lua: a number beyond it is nobody's clock, and would use up the fences that a double can tell apart. */
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
