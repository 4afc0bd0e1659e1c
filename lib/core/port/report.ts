/** What an operator should read: the library tells it to whoever made it, who writes it into a log. */

export type ReportLevel = 'error' | 'warning' | 'info';

export interface Finding {
  /** Findings of one kind are alike: of many in a short time one is enough. */
  readonly kind: string;
  readonly level: ReportLevel;
  readonly message: string;
}

export type Report = (finding: Finding) => void;
