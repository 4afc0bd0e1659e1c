/** The judge of fault runs itself: each promise, broken by hand in a small record, is found. */
import { describe, expect, it } from '@jest/globals';
import { judge } from './crew/judge.js';
import type { StayRecord } from './crew/stay-record.js';
import type { Allowance, RunRecord } from './crew/trial.js';

const strict: Allowance = { losses: 'none' };
let fence = 1;

function stay(process: string, grantedAt: number, endedAt: number, more: Partial<StayRecord> = {}): StayRecord {
  return {
    process, caller: 0, keys: ['k'], mode: 'write', caution: 'asks', leaseMs: 1_000, waitMs: 500, askedAt: grantedAt - 1, accepted: 1, stale: 0,
    grantedAt, fences: { k: (fence += 1) }, sureAt: endedAt, releasedAt: endedAt, releaseTookMs: 1, outcome: 'released', ...more,
  };
}

function record(stays: readonly StayRecord[], more: Partial<RunRecord> = {}): RunRecord {
  const processes = [...new Set(stays.map(({ process }) => process))];
  const reports = processes.map((process) => ({ stays: stays.filter((each) => each.process === process), lags: [] }));
  const resource = { accepted: 1, refused: 0, backward: [] };
  return { reports, lags: [], resource, outage: { from: 1_000, to: 2_000 }, warmAt: 100, stoppedAt: 5_000, keysLeft: [], complaints: [], ...more };
}

const orderly = (): StayRecord[] => [stay('p1', 200, 300), stay('p2', 400, 900), stay('p1', 2_100, 2_200), stay('p2', 2_300, 2_400)];

function brokenOf(stays: readonly StayRecord[], allowance: Allowance = strict, more: Partial<RunRecord> = {}): readonly string[] {
  const { broken, late } = judge(record(stays, more), allowance);
  return [...broken, ...late];
}

describe('The judge of fault runs', () => {
  it('finds nothing in an orderly run', () => expect(brokenOf(orderly())).toEqual([]));

  it('finds two holders that were sure at one time, by a millisecond', () => {
    const stays = [...orderly(), stay('p1', 3_000, 3_100), stay('p2', 3_099, 3_200)];
    expect(brokenOf(stays)).toEqual([expect.stringContaining('overlap of 1.0 ms')]);
    expect(brokenOf(stays, { ...strict, overlapMs: 2 })).toEqual([]);
  });

  it('excuses one that only listens by the lateness of its own event loop, and no more', () => {
    const late = (until: number) => [...orderly(), stay('p1', 3_000, until, { caution: 'listens' }), stay('p2', 3_100, 3_900)];
    expect(brokenOf(late(3_120))).toEqual([]);
    expect(brokenOf(late(3_160))).toEqual([expect.stringContaining('overlap')]);
  });

  it('lets readers in together, but no reader beside a writer', () => {
    const read = { mode: 'read' } as const;
    expect(brokenOf([...orderly(), stay('p1', 3_000, 3_100, read), stay('p2', 3_050, 3_200, read)])).toEqual([]);
    expect(brokenOf([...orderly(), stay('p1', 3_000, 3_100, read), stay('p2', 3_050, 3_200)])).toEqual([expect.stringContaining('overlap')]);
  });

  it('finds a fence that does not rise, and a resource that took an old one', () => {
    const stays = [...orderly(), stay('p1', 3_000, 3_100, { fences: { k: 1 } })];
    expect(brokenOf(stays)).toEqual([expect.stringContaining("fence of 'k'")]);
    const resource = { accepted: 2, refused: 0, backward: ['k: 1 after 2'] };
    expect(brokenOf(orderly(), strict, { resource })).toEqual([expect.stringContaining('accepted an old fence')]);
  });

  it('takes an answer that was on its way during a fault, which let others in at once, for as old as its request', () => {
    const outrun = (askedAt: number) => [stay('p1', 200, 300), stay('p2', 1_050, 1_060, { fences: { k: 900 } }), stay('p1', 1_070, 1_080, { fences: { k: 800 }, askedAt })];
    const later = [stay('p2', 2_300, 2_400, { fences: { k: 1_000 } })];
    expect(brokenOf([...outrun(1_040), ...later], { ...strict, overlapMs: 400 })).toEqual([]);
    expect(brokenOf([...outrun(1_061), ...later], { ...strict, overlapMs: 400 })).toEqual([expect.stringContaining("fence of 'k'")]);
    expect(brokenOf([...outrun(1_040), ...later])).toEqual([expect.stringContaining("fence of 'k'")]);
  });

  it('finds a loss without need, and allows one during the fault where the scenario does', () => {
    const lost = (at: number) => [...orderly(), stay('p3', 500, at, { keys: ['j'], fences: { j: 1 }, abortedAt: at }), stay('p3', 2_500, 2_600, { keys: ['j'], fences: { j: 2 } })];
    expect(brokenOf(lost(1_500), { losses: 'during' })).toEqual([]);
    expect(brokenOf(lost(1_500))).toEqual([expect.stringContaining('without need')]);
    expect(brokenOf(lost(900), { losses: 'during' })).toEqual([expect.stringContaining('without need')]);
  });

  it('excuses a process that was not let run for most of a lease, in many short turns, and no more', () => {
    const lost = [stay('p3', 500, 1_500, { keys: ['j'], fences: { j: 1 }, abortedAt: 1_500 }), stay('p3', 2_500, 2_600, { keys: ['j'], fences: { j: 2 } })];
    const judged = (turns: number): readonly string[] => {
      const stays = [...orderly(), ...lost];
      const lags = Array.from({ length: turns }, (_, turn) => [700 + 100 * turn, 90] as const);
      return brokenOf(stays, strict, { reports: record(stays).reports.map((report) => ({ ...report, lags: report.stays[0]?.process === 'p3' ? lags : [] })) });
    };
    expect(judged(6)).toEqual([]);
    expect(judged(5)).toEqual([expect.stringContaining('without need')]);
  });

  describe('where servers forgot', () => {
    const forgetful: Allowance = { losses: 'ended', recoveryMs: 1_000, resumesWithinMs: 2_500 };
    /** A lease that was granted before the fault and lost, beside one of the same process that was renewed at `reachedAt`. */
    const lost = (at: number, trustedUntil: number, reachedAt: number, more: Partial<StayRecord> = {}): StayRecord[] => [
      stay('p3', 500, at, { keys: ['j'], fences: { j: 1 }, leaseMs: 30_000, abortedAt: at, trustedUntil, ...more }),
      stay('p3', 600, 4_000, { keys: ['i'], leaseMs: 30_000, trustedUntil: 32_000, renewedAt: [reachedAt] }),
      stay('p3', 4_200, 4_300, { keys: ['j'], fences: { j: 2 } }),
    ];
    const found = (stays: readonly StayRecord[], more: Partial<RunRecord> = {}): readonly string[] => brokenOf([...orderly(), ...stays], forgetful, more);

    it('allows the loss of a lease whose own trust ended before its process had reached the server again', () => {
      expect(found(lost(1_900, 1_900, 2_100))).toEqual([]);
    });

    it('finds a lease that ended although its process had reached the server, and one that ended before the fault', () => {
      expect(found(lost(2_400, 2_400, 2_100))).toEqual([expect.stringContaining('its process reached the servers 100 ms after the fault')]);
      expect(found(lost(900, 900, 2_100))).toEqual([expect.stringContaining('without need')]);
    });

    it('finds a lease of which the server said before its end that it is lost, unless its process came after recoveryMs', () => {
      expect(found(lost(2_400, 30_400, 2_100))).toEqual([expect.stringContaining('trusted for 28000 ms more')]);
      expect(found(lost(3_200, 30_400, 3_100))).toEqual([]);
    });

    it('excuses one that was lost before its first look by what a first lease allows, and by no more', () => {
      const stays = [...orderly(), ...lost(2_400, 2_400, 2_100).map(({ trustedUntil, ...untrusted }) => untrusted)];
      const judged = (ms: number): readonly string[] => brokenOf(stays, forgetful, { lags: [[2_300, ms]] });
      expect(judged(510)).toEqual([]);
      expect(judged(400)).toEqual([expect.stringContaining('it was never trusted')]);
    });

    it('excuses a process that was told of a loss by as much as it and the test stood still, and no more', () => {
      const stays = [...orderly(), ...lost(2_900, 30_400, 2_800)];
      const judged = (ms: number): readonly string[] => brokenOf(stays, forgetful, { lags: [[2_300, ms]] });
      expect(judged(210)).toEqual([]);
      expect(judged(190)).toEqual([expect.stringContaining('without need')]);
    });

    it('excuses a process that was not let run for a third of what it trusted, however long its leases are otherwise', () => {
      const stays = [...orderly(), ...lost(2_400, 2_400, 2_100, { renewedAt: [1_000] })];
      const judged = (ms: number): readonly string[] => {
        const { reports } = record(stays);
        const lags = reports.map((report) => ({ ...report, lags: report.stays[0]?.process === 'p3' ? [[2_300, ms] as const] : [] }));
        return brokenOf(stays, forgetful, { reports: lags });
      };
      expect(judged(500)).toEqual([]);
      expect(judged(400)).toEqual([expect.stringContaining('without need')]);
    });
  });

  it('finds an acquire that outlasts its wait, an error outside the fault, and a release that throws', () => {
    const { grantedAt, fences, sureAt, releasedAt, outcome, ...asked } = stay('p1', 3_000, 3_001);
    expect(brokenOf([...orderly(), { ...asked, refusedAt: asked.askedAt + 1_501 + asked.waitMs, code: 'LOCK_TIMEOUT' }])).toEqual([expect.stringContaining('more than its waitMs')]);
    expect(brokenOf([...orderly(), { ...asked, refusedAt: 4_500, waitMs: 2_000, code: 'LOCK_STORE' }])).toEqual([expect.stringContaining('rejected with LOCK_STORE')]);
    expect(brokenOf([...orderly(), stay('p1', 3_000, 3_100, { releaseError: 'boom' })])).toEqual([expect.stringContaining('release threw boom')]);
  });

  it('excuses bounds of time by the lateness of the machine, and what must never happen by nothing', () => {
    const busy = { lags: [[2_300, 300]] } as const;
    expect(brokenOf([stay('p1', 200, 300), stay('p1', 4_100, 4_200)], strict, busy)).toEqual([]);
    expect(brokenOf([...orderly(), stay('p1', 3_000, 3_100), stay('p2', 3_099, 3_200)], strict, busy)).toEqual([expect.stringContaining('overlap of 1.0 ms')]);
  });

  it('finds a service that does not come back in time', () => {
    expect(brokenOf([stay('p1', 200, 300), stay('p1', 4_100, 4_200)])).toEqual([expect.stringContaining('only 2100 ms after')]);
    expect(brokenOf([stay('p1', 200, 300)])).toEqual([expect.stringContaining('was not granted')]);
  });

  it('finds a lock that was free while somebody waited, keys left behind, and complaints', () => {
    const stays = [...orderly(), stay('p2', 4_100, 4_200), stay('p1', 6_500, 6_600, { askedAt: 4_150, waitMs: 4_000 })];
    expect(brokenOf(stays, strict, { stoppedAt: 9_000 })).toEqual([expect.stringContaining('was free for 2299 ms')]);
    expect(brokenOf(orderly(), strict, { keysLeft: ['{lock:1}:l:k'] })).toEqual(['left behind: {lock:1}:l:k']);
    expect(brokenOf(orderly(), strict, { complaints: ['unhandled'] })).toEqual(['a process complained: unhandled']);
  });
});
