/**
 * What must never happen, however late everything is: two holders of one lock, a fence that does not rise.
 *
 * Overlaps are counted against the earlier holder: from the grant of another one until the last instant at which the
 * earlier was sure of its lease. Who asks before each step (assertHeld) must never overlap at all; who only listens to
 * the signal may by as much as its own event loop was late.
 */
import type { HistoryEvent } from '../../model/history.js';
import { checkHistory } from '../../model/history-checker.js';
import { byKey, isHeld, name, sureUntil, type Held } from './holds.js';
import type { StayRecord } from './stay-record.js';
import type { Trial } from './trial.js';

/** A signal is delivered when the event loop next turns, and timers are a little late on a busy machine. */
const SIGNAL_LATE_MS = 25;

/** The longest time for which two holders were both sure without an excuse, in ms. */
export function judgeOverlaps({ stays, lateness, allowance: { overlapMs: allowed = 0 } }: Trial, broken: string[], late: string[]): number {
  // A store that lost its memory lets both in; how soon the one before is told is a bound of time.
  const found = allowed > 0 ? late : broken;
  let longest = 0;
  for (const [key, holds] of byKey(stays)) {
    let open: Held[] = [];
    for (const next of holds) {
      open = open.filter((hold) => sureUntil(hold) > next.grantedAt);
      for (const hold of open.filter((other) => other.mode === 'write' || next.mode === 'write')) {
        const ms = Math.min(sureUntil(hold), sureUntil(next)) - next.grantedAt;
        if (ms <= 0) continue;
        const excused = hold.caution === 'listens' ? SIGNAL_LATE_MS + lateness.own(hold.process, next.grantedAt - 200, sureUntil(hold) + 50) : 0;
        if (ms > excused) longest = Math.max(longest, ms);
        if (ms > allowed + excused) found.push(`overlap of ${ms.toFixed(1)} ms on '${key}': ${name(hold)} beside ${name(next)}`);
      }
      open.push(next);
    }
  }
  return longest;
}

/** A grant's fence is greater than those of all holds that had ended before it. */
export function judgeFences(trial: Trial, broken: string[]): void {
  const history = trial.stays.flatMap((stay, n) => stay.keys.flatMap((key) => historyOf(stay, key, `${stay.process}#${n}`, grantCountsFrom(stay, trial))));
  for (const { rule, key, message } of checkHistory(history)) if (rule === 'fence') broken.push(`fence of '${key}': ${message}`);
}

/**
 * When its process heard of it. Where leases end before their time and others are let in at once, what they did may be heard
 * of before an answer from before it; then the grant is as old as the request.
 */
function grantCountsFrom({ askedAt, grantedAt }: StayRecord, { record: { outage }, allowance: { overlapMs = 0 } }: Trial): number | undefined {
  if (grantedAt === undefined) return undefined;
  const onItsWay = overlapMs > 0 && askedAt < outage.to && grantedAt > outage.from && grantedAt < outage.to + overlapMs;
  return onItsWay ? askedAt : grantedAt;
}

function historyOf(stay: StayRecord, key: string, id: string, countsFrom: number | undefined): HistoryEvent[] {
  const { mode } = stay;
  const asked: HistoryEvent = { kind: 'asked', at: stay.askedAt, key, id, mode };
  // One that found out at its first look that it holds nothing any more held nothing: its process was stopped in between.
  if (!isHeld(stay) || stay.sureAt === undefined) return [asked];
  const until = Math.max(sureUntil(stay), stay.grantedAt + 0.001);
  const granted: HistoryEvent = { kind: 'granted', at: countsFrom ?? stay.grantedAt, key, id, mode, fence: stay.fences?.[key] ?? 0, fences: 1, trustedUntil: until };
  return [asked, granted, { kind: 'released', at: until, key, id }];
}
