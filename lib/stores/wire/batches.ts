/**
 * Splits a list into batches of at most `limit` items, each of items for which `togetherOf` returns the same. A batch is a list of
 * positions, so that outcomes can be put in the order of the items.
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
