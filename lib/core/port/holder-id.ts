/** Reads from a holder id in which process the holder is, and from a fence when its hold began. */

/** Where a holder or a waiter runs. Host and pid are undefined when its module has `describeHolders: false`. */
export interface Whereabouts {
  readonly host?: string | undefined;
  readonly pid?: number | undefined;
  /** The name with which the holder ids of the process begin. */
  readonly process: string;
}

/** The start of 2020 in µs. A smaller fence does not come from a clock that is set, so no date can be read from it. */
const FIRST_LIKELY_FENCE = 1_577_836_800_000_000;

/** The process of a holder id, which is `host:pid:random.sequence` or `random.sequence` (nest/process-name.ts makes its first part). */
export function whereaboutsOf(id: string): Whereabouts {
  const process = id.slice(0, id.lastIndexOf('.'));
  const [, host, pid] = /^([^:]+):(\d+):[^:]+$/.exec(process) ?? [];
  return host === undefined ? { process } : { process, host, pid: Number(pid) };
}

/**
 * About when the hold with this fence began, in ms of the store's wall clock; undefined when the fence does not come from a clock.
 * A fence is the store's clock in µs at the grant, or one more than the fence before it, whichever is greater.
 */
export function sinceOf(fence: number): number | undefined {
  return fence < FIRST_LIKELY_FENCE ? undefined : Math.floor(fence / 1_000);
}
