/** The options of stores in tests; a test changes those that it is about. */
import { systemClock } from '../../lib/core/port/clock.js';

export const USUAL_OPTIONS = {
  prefix: 'lock', maxLeaseMs: 60_000, commandTimeoutMs: 2_000, bootTimeoutMs: 30_000, clock: systemClock, report: (): void => {},
} as const;
