/**
 * What a question of the benchmark answers with: a table for people, and figures with their goals.
 */
export interface Answer {
  readonly title: string;
  /** What was done, in a few sentences: enough to do it again. */
  readonly method: string;
  readonly columns: readonly string[];
  readonly rows: readonly (readonly (string | number)[])[];
  readonly figures: readonly Figure[];
}

/** One goal of the project and what was measured. */
export interface Figure {
  readonly what: string;
  readonly measured: number;
  readonly goal: { readonly atLeast: number } | { readonly atMost: number };
}

/** One file of questions/ each. */
export interface Question {
  readonly name: string;
  answer(): Promise<readonly Answer[]>;
}

export function isMet({ measured, goal }: Figure): boolean {
  return 'atLeast' in goal ? measured >= goal.atLeast : measured <= goal.atMost;
}

/** Three significant digits; thousands in full. */
export function digits(value: number): string {
  if (!Number.isFinite(value)) return '–';
  if (Math.abs(value) >= 1000) return Math.round(value).toLocaleString('en-US');
  if (value === 0 || Number.isInteger(value)) return String(value);
  return String(Number(value.toPrecision(3)));
}
