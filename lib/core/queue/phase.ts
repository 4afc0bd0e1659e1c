/**
 * A phase of reading is decided once, for all who waited when it began: they enter together, past writers that wait among
 * them, here or elsewhere. Who comes later waits behind these writers.
 */
import type { Caller } from './caller.js';

/** The same callers, those first that enter with the phase; their order among each other stays, and that of the others. */
export function withPhase<T>(callers: readonly Caller<T>[], enters: (caller: Caller<T>) => boolean): Caller<T>[] {
  const [entering, others]: [Caller<T>[], Caller<T>[]] = [[], []];
  for (const caller of callers) (enters(caller) ? entering : others).push(caller);
  return [...entering, ...others];
}
