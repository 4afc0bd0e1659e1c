/** How a lock is held: `write` alone, `read` together with other readers. */
export type LockMode = 'read' | 'write';

/** Whether a hold in `held` mode lets a nested request for `wanted` run inside it. */
export function covers(held: LockMode, wanted: LockMode): boolean {
  return held === 'write' || wanted === 'read';
}
