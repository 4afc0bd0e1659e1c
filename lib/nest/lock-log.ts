/**
 * Writes findings to Nest's log, at most one line of each kind in ten seconds. When that time is over, and more findings of
 * the kind came meanwhile, the last of them is written with their number, unless it is not so any more.
 */
import type { LoggerService } from '@nestjs/common';
import type { Clock } from '../core/port/clock.js';
import { oneLine } from '../core/port/errors.js';
import type { Finding, Report } from '../core/port/lock-events.js';

const ONE_IN_MS = 10_000;

type Log = Pick<LoggerService, 'error' | 'warn' | 'log'>;

/** The findings of one kind that came since the last line of that kind and were not written. */
interface KeptBack {
  count: number;
  last: Finding | undefined;
  /** Local instant at which the last one came. */
  at: number;
}

/** A Report that writes to `log`. It has a timer only for a kind that was written in the last ten seconds. */
export function logReports(log: Log, clock: Clock): Report {
  const kinds = new Map<string, KeptBack>();
  const tell = (finding: Finding): void => {
    kinds.set(finding.kind, { count: 0, last: undefined, at: clock.now() });
    clock.setTimer(() => tellRest(finding.kind), ONE_IN_MS);
    write(log, finding);
  };
  const tellRest = (kind: string): void => {
    const keptBack = kinds.get(kind);
    kinds.delete(kind);
    if (keptBack?.last !== undefined && keptBack.last.isStill?.() !== false) tell({ ...keptBack.last, message: `${keptBack.last.message} ${delayed(keptBack, clock.now())}` });
  };
  return (finding) => {
    const keptBack = kinds.get(finding.kind);
    if (keptBack === undefined) return tell(finding);
    keptBack.count += 1;
    keptBack.last = finding;
    keptBack.at = clock.now();
  };
}

/** Says how old a delayed line is, so that the reader does not take it for the present. */
function delayed({ count, at }: KeptBack, now: number): string {
  const ago = `${((now - at) / 1_000).toFixed(1)} s before this line was written`;
  return count === 1 ? `(This was found ${ago}.)` : `(This is the last of ${count} such findings in ${ONE_IN_MS / 1_000} s, found ${ago}.)`;
}

/** A logger that throws, as one may whose process is about to exit, must not stop what is being reported: nobody else catches it. */
function write(log: Log, { level, message: text }: Finding): void {
  const message = oneLine(text);
  try {
    if (level === 'error') log.error(message);
    else if (level === 'warning') log.warn(message);
    else log.log(message);
  } catch {
    // There is no other place to which it could be written.
  }
}
