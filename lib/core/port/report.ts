/** Findings that an operator should read. The core and the stores call a `Report`; the lock module writes each finding into the log. */

export type ReportLevel = 'error' | 'warning' | 'info';

export interface Finding {
  /** What the finding is about. Of several findings of one kind in a short time only one needs to be logged. */
  readonly kind: string;
  readonly level: ReportLevel;
  readonly message: string;
  /** Whether it is still so when the line is written later than it was told. Without it, it is told as what was found. */
  readonly isStill?: () => boolean;
}

export type Report = (finding: Finding) => void;
