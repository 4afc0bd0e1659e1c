/**
 * Findings as lines of Nest's log: of one kind never more than one in ten seconds. What was kept back is told when that time is
 * over, in one line with its number, so that a storm is seen without being the log.
 */
import type { LoggerService } from '@nestjs/common';
import type { Clock } from '../core/port/clock.js';
import type { Finding, Report } from '../core/port/report.js';

const ONE_IN_MS = 10_000;

type Log = Pick<LoggerService, 'error' | 'warn' | 'log'>;

/** What came of one kind since its last line. */
interface KeptBack {
  count: number;
  last: Finding | undefined;
}

/** A reporter that writes to `log`. Its timers keep no process alive, and there is none for a kind that nothing was told of. */
export function logReports(log: Log, clock: Clock): Report {
  const kinds = new Map<string, KeptBack>();
  const tell = (finding: Finding): void => {
    kinds.set(finding.kind, { count: 0, last: undefined });
    clock.setTimer(() => tellRest(finding.kind), ONE_IN_MS);
    write(log, finding);
  };
  const tellRest = (kind: string): void => {
    const { last, count } = kinds.get(kind) ?? {};
    kinds.delete(kind);
    if (last === undefined) return;
    tell(count === 1 ? last : { ...last, message: `${last.message} (This is the last of ${count} such findings in ${ONE_IN_MS / 1_000} s.)` });
  };
  return (finding) => {
    const keptBack = kinds.get(finding.kind);
    if (keptBack === undefined) return tell(finding);
    keptBack.count += 1;
    keptBack.last = finding;
  };
}

function write(log: Log, { level, message }: Finding): void {
  if (level === 'error') log.error(message);
  else if (level === 'warning') log.warn(message);
  else log.log(message);
}
