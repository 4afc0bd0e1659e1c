/**
 * Names the holders of this process by the calls that hold now. The store knows the label of the call to which it granted the
 * lease; a lease that was handed on since, inside the process, is that of another call.
 */
import type { HolderState, LockState } from '../port/lock-state.js';
import type { LocalQueue } from '../queue/local-queue.js';
import { Hold } from './hold.js';

export class HoldersHere {
  constructor(private readonly queue: LocalQueue) {}

  /** The holds of this process on the lease with this id, without nested ones. */
  of(key: string, id: string): Hold[] {
    const followers = this.queue.leaseOf(key, id)?.followers ?? [];
    return followers.filter((one): one is Hold => one instanceof Hold).filter(({ isNested }) => !isNested);
  }

  /** The label of the call that holds now; that of the store, when the holder is no call of this process. */
  labelOf(key: string, { id, label }: HolderState): string | undefined {
    const holds = this.of(key, id);
    return holds.length === 0 ? label : holds.find(({ options }) => options.label !== undefined)?.options.label;
  }

  /** What the store knows of a lock, with the holders of this process under their present labels. */
  named(state: LockState): LockState {
    const { key, holders } = state;
    if (!holders.some((holder) => this.labelOf(key, holder) !== holder.label)) return state;
    return { ...state, holders: holders.map((holder) => ({ ...holder, label: this.labelOf(key, holder) })) };
  }

  /** {@link named} for many locks. */
  async *allNamed(states: AsyncIterable<LockState>): AsyncGenerator<LockState> {
    for await (const state of states) yield this.named(state);
  }
}
