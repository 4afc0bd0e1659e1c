/** Findings that an operator should read. The core and the stores call a `Report`; the lock module writes each finding into the log. */

export type ReportLevel = 'error' | 'warning' | 'info';

export interface Finding {
  /** What the finding is about. Of several findings of one kind in a short time only one needs to be logged. */
  readonly kind: string;
  readonly level: ReportLevel;
  readonly message: string;
}

export type Report = (finding: Finding) => void;
