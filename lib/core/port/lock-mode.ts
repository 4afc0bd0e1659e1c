/** How a lock is held: `write` excludes every other holder, `read` is shared with other readers. */
export type LockMode = 'read' | 'write';

/** Whether a call that wants the lock in mode `wanted` may re-enter a hold of mode `held`. */
export function covers(held: LockMode, wanted: LockMode): boolean {
  return held === 'write' || wanted === 'read';
}
