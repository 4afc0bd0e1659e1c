import { describe, expect, it, jest } from '@jest/globals';
import type { ReportLevel } from '../../lib/core/port/lock-events.js';
import { logReports } from '../../lib/nest/lock-log.js';
import { FakeClock } from '../support/fake-clock.js';

function log() {
  const clock = new FakeClock();
  const lines: string[] = [];
  const write = (level: string) => (message: string) => void lines.push(`${level} ${message}`);
  const report = logReports({ error: write('error'), warn: write('warn'), log: write('log') }, clock);
  return { clock, lines, report, tell: (message: string, kind = 'store lost', level: ReportLevel = 'warning') => report({ kind, level, message }) };
}

describe('The log', () => {
  it('has one line of a kind in ten seconds, and one with the number of the rest when they are over', async () => {
    const { clock, lines, tell } = log();
    for (let n = 1; n <= 5; n += 1) tell(`loss ${n}`);
    expect(lines).toEqual(['warn loss 1']);
    await clock.advance(9_999);
    expect(lines).toHaveLength(1);
    await clock.advance(1);
    expect(lines).toEqual(['warn loss 1', 'warn loss 5 (This is the last of 4 such findings in 10 s, found 10.0 s before this line was written.)']);
    await clock.advance(6_000);
    tell('loss 6');
    expect(lines).toHaveLength(2);
    await clock.advance(4_000);
    expect(lines[2]).toBe('warn loss 6 (This was found 4.0 s before this line was written.)');
  });

  it('has one line for each finding, whatever stands in a key', () => {
    const { lines, tell } = log();
    tell(`Lock 'a\nb' was lost`);
    expect(lines).toEqual([String.raw`warn Lock 'a\u000ab' was lost`]);
  });

  it.each([[true, 2], [false, 1]])('writes nothing later that is true no longer: still so %p, %i lines', async (isStill, count) => {
    const { clock, lines, report } = log();
    for (const message of ['first', 'second']) report({ kind: 'renewal failed', level: 'warning', message, isStill: () => isStill });
    await clock.advance(10_000);
    expect(lines).toHaveLength(count);
  });

  it('whose logger throws stops nobody', async () => {
    const clock = new FakeClock();
    const write = jest.fn(() => {
      throw new Error('the stream is closed');
    });
    const report = logReports({ error: write, warn: write, log: write }, clock);
    for (const level of ['error', 'warning', 'info'] as const) {
      for (let n = 0; n < 2; n += 1) expect(() => report({ kind: level, level, message: 'a finding' })).not.toThrow();
    }
    await clock.advance(10_000);
    expect(write).toHaveBeenCalledTimes(6);
  });

  it('keeps no timer and no entry for a kind that nothing is told of any more', async () => {
    const { clock, lines, tell } = log();
    tell('gone');
    await clock.advance(10_000);
    expect(clock.pendingTimers).toBe(0);
    tell('gone again');
    expect(lines).toEqual(['warn gone', 'warn gone again']);
  });
});
