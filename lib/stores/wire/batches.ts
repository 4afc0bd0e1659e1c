/**
 * Sends a list in batches of at most `limit` items, each of items for which `togetherOf` returns the same, all batches at once. The
 * answers are in the order of the items. Rejects as `send` does.
 */
export async function inBatches<T, R>(
  items: readonly T[],
  togetherOf: (item: T) => unknown,
  limit: number,
  send: (batch: readonly T[]) => Promise<readonly R[]>,
): Promise<R[]> {
  const answers: R[] = new Array(items.length);
  const sendAt = async (positions: readonly number[]): Promise<void> => {
    const told = await send(positions.map((position) => items[position]!));
    positions.forEach((position, n) => (answers[position] = told[n]!));
  };
  await Promise.all(positionsOfBatches(items, togetherOf, limit).map(sendAt));
  return answers;
}

function positionsOfBatches<T>(items: readonly T[], togetherOf: (item: T) => unknown, limit: number): readonly (readonly number[])[] {
  const open = new Map<unknown, number[]>();
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
