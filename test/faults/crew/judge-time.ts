/** The promises that are bounds of time: what may be late by as much as the machine was, and no more. */
import { FIRST_LEASE_MS } from '../../../lib/core/port/lock-store.js';
import { byKey, lostAt, name, sureUntil, type Held } from './holds.js';
import type { StayRecord } from './stay-record.js';
import { IDLE_MS, RESUMES_WITHIN_MS, type Trial } from './trial.js';

const ACQUIRE_OVERRUN_MS = 1_000;
const SHORT_WAIT_MS = 250;
const RELEASE_TAKES_MS = 2_500;

/** How long after its process reached the servers again a lease is renewed at the latest, in ms. */
const RENEWED_WITHIN_MS = 250;
/** A lease that is lost so long before the end of its trust, in ms, was lost because a server said so. */
const BEFORE_ITS_END_MS = 25;

export function judgeLosses(trial: Trial, late: string[]): void {
  for (const stay of trial.stays) {
    const at = lostAt(stay);
    if (at === undefined || isAllowed(stay, at, trial)) continue;
    const how = stay.abortedAt !== undefined ? 'its signal aborted' : stay.threwAt !== undefined ? 'assertHeld threw' : 'told by release';
    const heldMs = at - (stay.grantedAt ?? at);
    const { from } = trial.record.outage;
    const stoodStillMs = trial.lateness.inAll(stay.process, at - stay.leaseMs, at);
    const still = `its process was not let run for ${stoodStillMs.toFixed(0)} of the last ${stay.leaseMs} ms`;
    late.push(`lost ${(at - from).toFixed(0)} ms after the fault began, after ${heldMs.toFixed(0)} ms, without need (${how}; ${trustOf(stay, at, trial)}; ${still}): ${name(stay)}`);
  }
}

function isAllowed(stay: StayRecord, at: number, trial: Trial): boolean {
  const { record: { outage }, allowance: { losses, resumesWithinMs = RESUMES_WITHIN_MS }, lateness } = trial;
  if (losses === 'ended' && stay.trustedUntil !== undefined) return at >= outage.from && isExcused(stay, stay.trustedUntil, at, trial);
  // A process that was not let run for most of a lease loses it by right; one that was lost before its first look may have been its first.
  const trustMs = losses === 'ended' ? Math.min(stay.leaseMs, FIRST_LEASE_MS) : stay.leaseMs;
  if (lateness.met(stay.process, at - trustMs, at + 50) > trustMs / 3 || lateness.inAll(stay.process, at - trustMs, at) > trustMs / 2) return true;
  return losses === 'during' && at >= outage.from && at <= outage.to + resumesWithinMs;
}

/**
 * Whether a server that forgot is not to blame for the loss: the lease ended by its own process's clock before the process can have renewed
 * it, or was not let run to do so; or the process reached the servers later than they wait for.
 */
function isExcused({ process, grantedAt = 0, renewedAt = [] }: StayRecord, trustedUntil: number, at: number, trial: Trial): boolean {
  const { record: { outage }, allowance: { recoveryMs = 0 }, lateness } = trial;
  const reached = reachedAt(process, trial);
  // What the process and the test did late, nobody can tell from what the servers did late.
  if (at < trustedUntil - BEFORE_ITS_END_MS) return reached + lateness.met(process, outage.from, at) > outage.to + recoveryMs;
  const since = renewedAt.at(-1) ?? grantedAt;
  return trustedUntil <= reached + RENEWED_WITHIN_MS || lateness.met(process, since, at + 50) > (trustedUntil - since) / 3;
}

/** When a process got or renewed its first lease after the fault. */
function reachedAt(process: string, { stays, record: { outage } }: Trial): number {
  const signs = stays.filter((stay) => stay.process === process).flatMap(({ grantedAt, renewedAt = [] }) => [...(grantedAt === undefined ? [] : [grantedAt]), ...renewedAt]);
  return Math.min(...signs.filter((at) => at >= outage.to));
}

/** The facts of a loss in words. */
function trustOf({ trustedUntil, process }: StayRecord, at: number, trial: Trial): string {
  if (trustedUntil === undefined) return 'it was never trusted';
  const reached = reachedAt(process, trial) - trial.record.outage.to;
  return `trusted for ${(trustedUntil - at).toFixed(0)} ms more; its process reached the servers ${reached.toFixed(0)} ms after the fault`;
}

/** Returns by how much the slowest acquire overran its waitMs. */
export function judgeCalls({ stays, record, allowance: { resumesWithinMs = RESUMES_WITHIN_MS }, lateness }: Trial, broken: string[], late: string[]): number {
  const { outage, stoppedAt, warmAt } = record;
  const lagOf = ({ process, askedAt, grantedAt, refusedAt }: StayRecord) => lateness.met(process, askedAt, grantedAt ?? refusedAt ?? Infinity);
  const longestLag = lateness.longest();
  let longest = 0;
  for (const stay of stays) {
    const overrun = (stay.grantedAt ?? stay.refusedAt ?? Infinity) - stay.askedAt - stay.waitMs;
    longest = Math.max(longest, overrun);
    if (overrun > ACQUIRE_OVERRUN_MS + lagOf(stay)) late.push(`acquire took ${overrun.toFixed(0)} ms more than its waitMs of ${stay.waitMs}: ${name(stay)}`);
    if (stay.releaseError !== undefined) broken.push(`release threw ${stay.releaseError}: ${name(stay)}`);
    if ((stay.releaseTookMs ?? 0) > RELEASE_TAKES_MS) late.push(`release took ${stay.releaseTookMs?.toFixed(0)} ms: ${name(stay)}`);
    const { refusedAt = 0, askedAt } = stay;
    const during = askedAt < warmAt || (refusedAt >= outage.from && refusedAt <= outage.to + resumesWithinMs);
    // In a short wait a starved machine looks like a silent store.
    const starved = stay.waitMs < SHORT_WAIT_MS && longestLag > SHORT_WAIT_MS / 4;
    const expected = [undefined, 'cancelled', 'LOCK_TIMEOUT', ...(during || starved ? ['LOCK_STORE', 'LOCK_LOST'] : [])];
    if (!expected.includes(stay.code) && refusedAt < stoppedAt) {
      late.push(`acquire rejected with ${stay.code} ${(refusedAt - outage.to).toFixed(0)} ms after the fault (${stay.message}): ${name(stay)}`);
    }
  }
  return longest;
}

/** From the fault's end to the first grant, for the key that took longest; a key that somebody kept all the time is in service. */
export function judgeService({ stays, record: { outage, stoppedAt }, allowance: { resumesWithinMs = RESUMES_WITHIN_MS } }: Trial, late: string[]): number {
  let longest = 0;
  for (const [key, holds] of byKey(stays)) {
    const kept = holds.some((hold) => hold.grantedAt <= outage.to && sureUntil(hold) > outage.to && lostAt(hold) === undefined);
    const first = holds.find(({ grantedAt }) => grantedAt > outage.to)?.grantedAt;
    if (kept && (first === undefined || first - outage.to > resumesWithinMs)) continue;
    const ms = (first ?? stoppedAt) - outage.to;
    longest = Math.max(longest, ms);
    if (first === undefined) late.push(`'${key}' was not granted in the ${ms.toFixed(0)} ms after the fault`);
    else if (ms > resumesWithinMs) late.push(`'${key}' was granted only ${ms.toFixed(0)} ms after the fault`);
  }
  return longest;
}

/** How long a lock was free while somebody waited for it. */
export function judgeIdle({ stays, record: { outage, stoppedAt }, allowance }: Trial, late: string[]): number {
  const { idleMs: allowed = IDLE_MS, idleInside = false } = allowance;
  let longest = 0;
  for (const [key, holds] of byKey(stays)) {
    const waits = stays.filter((stay) => stay.keys.length === 1 && stay.keys[0] === key);
    let freeSince = Infinity;
    for (const hold of holds) {
      const ended = hold.grantedAt;
      const affected = freeSince < outage.to + RESUMES_WITHIN_MS && ended > outage.from;
      if (ended > freeSince && (idleInside || !affected) && ended < stoppedAt) {
        const since = waits.filter(({ askedAt, grantedAt, refusedAt }) => askedAt < ended && (grantedAt ?? refusedAt ?? Infinity) > freeSince).map(({ askedAt, grantedAt, refusedAt }) => Math.min(ended, grantedAt ?? refusedAt ?? ended) - Math.max(askedAt, freeSince));
        const ms = Math.max(0, ...since);
        longest = Math.max(longest, ms);
        if (ms > allowed) late.push(`'${key}' was free for ${ms.toFixed(0)} ms while somebody waited, until ${name(hold)}`);
      }
      freeSince = Math.max(freeSince === Infinity ? 0 : freeSince, endOf(hold));
    }
  }
  return longest;
}

/** When the lock became free as far as the holder knows. */
function endOf({ releasedAt, releaseTookMs = 0 }: Held): number {
  return releasedAt === undefined ? Infinity : releasedAt + releaseTookMs;
}
