/**
 * Puts positions of a list into batches: those that may share a command together, and no more than `limit` of them.
 */
export function batchesOf<T, K>(items: readonly T[], togetherOf: (item: T) => K, limit: number): readonly (readonly number[])[] {
  const open = new Map<K, number[]>();
  const batches: number[][] = [];
  items.forEach((item, position) => {
    const together = togetherOf(item);
    const batch = open.get(together);
    if (batch !== undefined && batch.length < limit) {
      batch.push(position);
      return;
    }
    const begun = [position];
    open.set(together, begun);
    batches.push(begun);
  });
  return batches;
}
