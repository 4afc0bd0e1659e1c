/**
 * The suites run on real servers, in real time, beside three other suites. On a busy machine an answer can come later than a test
 * bears, so a test that failed is tried once more. `second-tries-reporter.cjs` names each test that needed it, and
 * HOLDFAST_TRIES=1 allows none.
 */
import { jest } from '@jest/globals';

const tries = Number(process.env.HOLDFAST_TRIES ?? 2);
jest.retryTimes(tries - 1, { logErrorsBeforeRetry: true });
