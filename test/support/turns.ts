/** Lets everything run that needs no time to pass: more turns of the event loop than any chain of answers takes. */
export async function everythingHasRun(): Promise<void> {
  for (let turn = 0; turn < 100; turn += 1) await new Promise((resolve) => setImmediate(resolve));
}
