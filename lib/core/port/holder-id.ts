/** What a holder id and a fence tell people: which process it is, and since when it holds. */

/** Where a holder or a waiter runs, as far as its process says so of itself (`describeHolders`). */
export interface Whereabouts {
  readonly host?: string | undefined;
  readonly pid?: number | undefined;
  /** The process's name in holder ids, which is there in any case. */
  readonly process: string;
}

/** A fence below is that of a store whose clock was never set: 2020 in µs. */
const FIRST_LIKELY_FENCE = 1_577_836_800_000_000;

/** Reads back what nest/process-name.ts wrote in front of a holder id: `host:pid:random.sequence`, or `random.sequence`. */
export function whereaboutsOf(id: string): Whereabouts {
  const process = id.slice(0, id.lastIndexOf('.'));
  const [, host, pid] = /^([^:]+):(\d+):[^:]+$/.exec(process) ?? [];
  return host === undefined ? { process } : { process, host, pid: Number(pid) };
}

/**
 * About when the hold began, in wall clock ms of the store; undefined when the fence does not come from a clock. A fence is the
 * store's clock in µs at its grant, or one more than the fence before, whichever is greater.
 */
export function sinceOf(fence: number): number | undefined {
  return fence < FIRST_LIKELY_FENCE ? undefined : Math.floor(fence / 1_000);
}
