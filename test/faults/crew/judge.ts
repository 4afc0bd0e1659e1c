/**
 * Judges a fault run by what its processes recorded: which promise was broken, and the figures for the table.
 *
 * Overlaps are counted against the earlier holder: from the grant of another one until the last instant at which the
 * earlier was sure of its lease. Who asks before each step (assertHeld) must never overlap at all; who only listens to
 * the signal may by as much as its own event loop was late.
 */
import type { HistoryEvent } from '../../model/history.js';
import { checkHistory } from '../../model/history-checker.js';
import type { ResourceState } from './fenced-resource.js';
import type { ProcessReport, StayRecord } from './stay-record.js';

/** What a scenario says may happen in it. */
export interface Allowance {
  /** `none`: no lease may be lost at all; `during`: only between the fault's start and two seconds after its end. */
  readonly losses: 'none' | 'during';
  /** How long two holders may both be sure when the store lost its memory, as the docs state it, in ms. */
  readonly overlapMs?: number;
  /** For a while two servers took themselves for the master: fences rise on each, and the resource tells them apart. */
  readonly splitBrain?: boolean;
  /** Service is back so long after the fault's end, in ms. */
  readonly resumesWithinMs?: number;
  /** No waiter sleeps on a free lock for longer, in ms; outside the fault unless `idleInside`. */
  readonly idleMs?: number;
  readonly idleInside?: boolean;
}

export interface Outage {
  readonly from: number;
  readonly to: number;
}

export interface RunRecord {
  readonly reports: readonly ProcessReport[];
  readonly resource: ResourceState;
  /** Since when every key has been granted: from then on the store is in service. */
  readonly warmAt: number;
  readonly outage: Outage;
  /** When the processes were told to stop. */
  readonly stoppedAt: number;
  readonly keysLeft: readonly string[];
  readonly complaints: readonly string[];
}

export interface Verdict {
  readonly broken: readonly string[];
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

const RESUMES_WITHIN_MS = 2_000;
const ACQUIRE_OVERRUN_MS = 1_000;
const SHORT_WAIT_MS = 250;
const RELEASE_TAKES_MS = 2_500;
const IDLE_MS = 1_000;
/** Processes that were stopped by the fault itself are not starved. */
const LONGEST_EXCUSE_MS = 400;
/** A signal is delivered when the event loop next turns, and timers are a little late on a busy machine. */
const SIGNAL_LATE_MS = 25;

/**
 * A machine that does not let the processes run makes everything late, and not by anybody's fault: bounds of time are
 * longer by their longest pause. What must never happen is not excused by it.
 */
export function judge(record: RunRecord, given: Allowance): Verdict {
  const starvedMs = Math.max(0, ...record.reports.flatMap(({ lags }) => lags.map(([, ms]) => ms)).filter((ms) => ms < LONGEST_EXCUSE_MS));
  const { resumesWithinMs = RESUMES_WITHIN_MS, idleMs: longestIdleMs = IDLE_MS } = given;
  const allowance = { ...given, resumesWithinMs: resumesWithinMs + 3 * starvedMs, idleMs: longestIdleMs + 2 * starvedMs };
  const stays = record.reports.flatMap(({ stays: each }) => each);
  const broken: string[] = [];
  const overlapMs = judgeOverlaps(stays, record, allowance, broken);
  if (allowance.splitBrain !== true) judgeFences(stays, broken);
  judgeLosses(stays, record, allowance, broken);
  const overrunMs = judgeCalls(stays, record, allowance, broken);
  const resumedMs = judgeService(stays, record, allowance, broken);
  const idleMs = judgeIdle(stays, record, allowance, broken);
  broken.push(...record.resource.backward.map((what) => `the resource accepted an old fence: ${what}`));
  broken.push(...record.keysLeft.map((key) => `left behind: ${key}`));
  broken.push(...record.complaints.map((what) => `a process complained: ${what}`));
  const grants = stays.filter(({ grantedAt }) => grantedAt !== undefined).length;
  const lost = stays.filter((stay) => lostAt(stay) !== undefined).length;
  return { broken, figures: { grants, lost, staleRefused: record.resource.refused, overlapMs, resumedMs, overrunMs, idleMs } };
}

type Held = StayRecord & { readonly grantedAt: number };

function isHeld(stay: StayRecord): stay is Held {
  return stay.grantedAt !== undefined;
}

function byKey(stays: readonly StayRecord[]): Map<string, Held[]> {
  const found = new Map<string, Held[]>();
  for (const stay of stays.filter(isHeld)) {
    for (const key of stay.keys) found.set(key, [...(found.get(key) ?? []), stay]);
  }
  for (const each of found.values()) each.sort((one, other) => one.grantedAt - other.grantedAt);
  return found;
}

/** Until when the holder worked on, believing in its lease. */
function sureUntil(stay: Held): number {
  const until = stay.caution === 'asks' ? (stay.sureAt ?? stay.grantedAt) : Math.min(stay.abortedAt ?? Infinity, stay.sureAt ?? stay.grantedAt);
  return Math.min(until, stay.releasedAt ?? Infinity);
}

function name(stay: StayRecord): string {
  return `${stay.process}#${stay.caller} ${stay.mode} '${stay.keys.join()}' asked at ${stay.askedAt.toFixed(0)}, granted at ${stay.grantedAt?.toFixed(0)}`;
}

function judgeOverlaps(stays: readonly StayRecord[], { reports }: RunRecord, { overlapMs: allowed = 0 }: Allowance, broken: string[]): number {
  const lags = new Map(reports.map(({ stays: each, lags: late }) => [each[0]?.process, late]));
  let longest = 0;
  for (const [key, holds] of byKey(stays)) {
    let open: Held[] = [];
    for (const next of holds) {
      open = open.filter((hold) => sureUntil(hold) > next.grantedAt);
      for (const hold of open.filter((other) => other.mode === 'write' || next.mode === 'write')) {
        const ms = Math.min(sureUntil(hold), sureUntil(next)) - next.grantedAt;
        if (ms <= 0) continue;
        const excused = hold.caution === 'listens' ? SIGNAL_LATE_MS + lagWithin(lags.get(hold.process) ?? [], next.grantedAt - 200, sureUntil(hold) + 50) : 0;
        if (ms > excused) longest = Math.max(longest, ms);
        if (ms > allowed + excused) broken.push(`overlap of ${ms.toFixed(1)} ms on '${key}': ${name(hold)} beside ${name(next)}`);
      }
      open.push(next);
    }
  }
  return longest;
}

function lagWithin(lags: ProcessReport['lags'], from: number, to: number): number {
  return Math.max(0, ...lags.filter(([at, ms]) => at >= from && at - ms <= to).map(([, ms]) => ms));
}

/** A grant's fence is greater than those of all holds that had ended before it. */
function judgeFences(stays: readonly StayRecord[], broken: string[]): void {
  const history = stays.flatMap((stay, n) => stay.keys.flatMap((key) => historyOf(stay, key, `${stay.process}#${n}`)));
  for (const { rule, key, message } of checkHistory(history)) if (rule === 'fence') broken.push(`fence of '${key}': ${message}`);
}

function historyOf(stay: StayRecord, key: string, id: string): HistoryEvent[] {
  const { mode } = stay;
  const asked: HistoryEvent = { kind: 'asked', at: stay.askedAt, key, id, mode };
  // One that found out at its first look that it holds nothing any more held nothing: its process was stopped in between.
  if (!isHeld(stay) || stay.sureAt === undefined) return [asked];
  const until = Math.max(sureUntil(stay), stay.grantedAt + 0.001);
  const granted: HistoryEvent = { kind: 'granted', at: stay.grantedAt, key, id, mode, fence: stay.fences?.[key] ?? 0, fences: 1, trustedUntil: until };
  return [asked, granted, { kind: 'released', at: until, key, id }];
}

/** When the holder learned that its lease was gone, if it did. */
function lostAt({ abortedAt, threwAt, outcome, releasedAt }: StayRecord): number | undefined {
  return abortedAt ?? threwAt ?? (outcome === 'lost' ? releasedAt : undefined);
}

function judgeLosses(stays: readonly StayRecord[], { outage, reports }: RunRecord, { losses, resumesWithinMs = RESUMES_WITHIN_MS }: Allowance, broken: string[]): void {
  const lags = new Map(reports.map(({ stays: each, lags: late }) => [each[0]?.process, late]));
  for (const stay of stays) {
    const at = lostAt(stay);
    if (at === undefined) continue;
    const allowed = losses === 'during' && at >= outage.from && at <= outage.to + resumesWithinMs;
    // A process that was not let run for most of a lease loses it by right.
    const starved = lagWithin(lags.get(stay.process) ?? [], at - stay.leaseMs, at + 50) > stay.leaseMs / 3;
    if (allowed || starved) continue;
    const how = stay.abortedAt !== undefined ? 'its signal aborted' : stay.threwAt !== undefined ? 'assertHeld threw' : 'told by release';
    const heldMs = at - (stay.grantedAt ?? at);
    broken.push(`lost ${(at - outage.from).toFixed(0)} ms after the fault began, after ${heldMs.toFixed(0)} ms, without need (${how}): ${name(stay)}`);
  }
}

function judgeCalls(stays: readonly StayRecord[], { outage, stoppedAt, warmAt, reports }: RunRecord, { resumesWithinMs = RESUMES_WITHIN_MS }: Allowance, broken: string[]): number {
  const lags = new Map(reports.map(({ stays: each, lags: late }) => [each[0]?.process, late]));
  const longestLag = Math.max(0, ...reports.flatMap(({ lags: late }) => late.map(([, ms]) => ms)));
  const lagOf = ({ process, askedAt, grantedAt, refusedAt }: StayRecord) => lagWithin(lags.get(process) ?? [], askedAt, grantedAt ?? refusedAt ?? Infinity);
  let longest = 0;
  for (const stay of stays) {
    const overrun = (stay.grantedAt ?? stay.refusedAt ?? Infinity) - stay.askedAt - stay.waitMs;
    longest = Math.max(longest, overrun);
    if (overrun > ACQUIRE_OVERRUN_MS + lagOf(stay)) broken.push(`acquire took ${overrun.toFixed(0)} ms more than its waitMs of ${stay.waitMs}: ${name(stay)}`);
    if (stay.releaseError !== undefined) broken.push(`release threw ${stay.releaseError}: ${name(stay)}`);
    if ((stay.releaseTookMs ?? 0) > RELEASE_TAKES_MS) broken.push(`release took ${stay.releaseTookMs?.toFixed(0)} ms: ${name(stay)}`);
    const { refusedAt = 0, askedAt } = stay;
    const during = askedAt < warmAt || (refusedAt >= outage.from && refusedAt <= outage.to + resumesWithinMs);
    // In a short wait a starved machine looks like a silent store.
    const starved = stay.waitMs < SHORT_WAIT_MS && longestLag > SHORT_WAIT_MS / 4;
    const expected = [undefined, 'cancelled', 'LOCK_TIMEOUT', ...(during || starved ? ['LOCK_STORE', 'LOCK_LOST'] : [])];
    if (!expected.includes(stay.code) && refusedAt < stoppedAt) {
      broken.push(`acquire rejected with ${stay.code} ${(refusedAt - outage.to).toFixed(0)} ms after the fault (${stay.message}): ${name(stay)}`);
    }
  }
  return longest;
}

/** From the fault's end to the first grant, for the key that took longest; a key that somebody kept all the time is in service. */
function judgeService(stays: readonly StayRecord[], { outage, stoppedAt }: RunRecord, { resumesWithinMs = RESUMES_WITHIN_MS }: Allowance, broken: string[]): number {
  let longest = 0;
  for (const [key, holds] of byKey(stays)) {
    const kept = holds.some((hold) => hold.grantedAt <= outage.to && sureUntil(hold) > outage.to && lostAt(hold) === undefined);
    const first = holds.find(({ grantedAt }) => grantedAt > outage.to)?.grantedAt;
    if (kept && (first === undefined || first - outage.to > resumesWithinMs)) continue;
    const ms = (first ?? stoppedAt) - outage.to;
    longest = Math.max(longest, ms);
    if (first === undefined) broken.push(`'${key}' was not granted in the ${ms.toFixed(0)} ms after the fault`);
    else if (ms > resumesWithinMs) broken.push(`'${key}' was granted only ${ms.toFixed(0)} ms after the fault`);
  }
  return longest;
}

/** How long a lock was free while somebody waited for it. */
function judgeIdle(stays: readonly StayRecord[], { outage, stoppedAt }: RunRecord, allowance: Allowance, broken: string[]): number {
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
        if (ms > allowed) broken.push(`'${key}' was free for ${ms.toFixed(0)} ms while somebody waited, until ${name(hold)}`);
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
