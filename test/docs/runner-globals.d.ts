/** The globals of a test runner, which an application's tests use, and those of this project import. */
import type * as jest from '@jest/globals';

declare global {
  const it: typeof jest.it;
  const expect: typeof jest.expect;
}
