/** Judges a fault run by what its processes recorded: which promise was broken, and the figures for the table. */
import { Lateness, lostAt } from './holds.js';
import { judgeFences, judgeOverlaps } from './judge-exclusion.js';
import { judgeCalls, judgeIdle, judgeLosses, judgeService } from './judge-time.js';
import { IDLE_MS, RESUMES_WITHIN_MS, type Allowance, type RunRecord, type Trial } from './trial.js';

export interface Verdict {
  /** What must never happen. */
  readonly broken: readonly string[];
  /** Bounds of time that were not kept. */
  readonly late: readonly string[];
  /** For which share of the run the test itself was not let run by its machine. */
  readonly starved: number;
  readonly figures: Figures;
}

export interface Figures {
  readonly grants: number;
  readonly lost: number;
  readonly staleRefused: number;
  /** Longest time for which two holders were both sure. */
  readonly overlapMs: number;
  /** From the fault's end to the first grant of the key that took longest. */
  readonly resumedMs: number;
  /** By how much the slowest acquire overran its waitMs. */
  readonly overrunMs: number;
  /** Longest time for which a lock was free while somebody waited for it, outside the fault. */
  readonly idleMs: number;
}

/** Processes that were stopped by the fault itself are not starved. */
const LONGEST_EXCUSE_MS = 400;

/**
 * A machine that does not let the processes run makes everything late, and not by anybody's fault: bounds of time are
 * longer by their longest pause. What must never happen is not excused by it.
 */
export function judge(record: RunRecord, given: Allowance): Verdict {
  const stays = record.reports.flatMap(({ stays: each }) => each);
  const lateness = new Lateness(record.reports, record.lags);
  const trial: Trial = { stays, record, lateness, allowance: excused(given, lateness.longest(LONGEST_EXCUSE_MS)) };
  const broken: string[] = [];
  const late: string[] = [];
  const overlapMs = judgeOverlaps(trial, broken, late);
  if (given.splitBrain !== true) judgeFences(trial, broken);
  judgeLosses(trial, late);
  const overrunMs = judgeCalls(trial, broken, late);
  const resumedMs = judgeService(trial, late);
  const idleMs = judgeIdle(trial, late);
  broken.push(...record.resource.backward.map((what) => `the resource accepted an old fence: ${what}`));
  if (given.noLateWrites === true && record.resource.refused > 0) broken.push(`${record.resource.refused} writes came after those of a later holder`);
  broken.push(...record.keysLeft.map((key) => `left behind: ${key}`));
  broken.push(...record.complaints.map((what) => `a process complained: ${what}`));
  const grants = stays.filter(({ grantedAt }) => grantedAt !== undefined).length;
  const lost = stays.filter((stay) => lostAt(stay) !== undefined).length;
  const starved = record.lags.reduce((sum, [, ms]) => sum + ms, 0) / (record.stoppedAt - record.warmAt);
  return { broken, late, starved, figures: { grants, lost, staleRefused: record.resource.refused, overlapMs, resumedMs, overrunMs, idleMs } };
}

function excused(given: Allowance, starvedMs: number): Allowance {
  const { resumesWithinMs = RESUMES_WITHIN_MS, idleMs = IDLE_MS } = given;
  return { ...given, resumesWithinMs: resumesWithinMs + 3 * starvedMs, idleMs: idleMs + 2 * starvedMs };
}
