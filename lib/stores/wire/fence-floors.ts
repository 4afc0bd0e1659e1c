/**
 * The highest fence this process has seen in each slot group. It is sent along with whatever may grant, so that a
 * server that lost its memory, or a replica promoted without the last writes, does not grant a fence twice.
 */
import { SLOT_GROUPS } from './redis-keys.js';

export class FenceFloors {
  private readonly highest = new Float64Array(SLOT_GROUPS);

  of(group: number): number {
    return this.highest[group] ?? 0;
  }

  saw(group: number, fence: number): void {
    if (fence > this.of(group)) this.highest[group] = fence;
  }
}
