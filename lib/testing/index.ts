/** The exports of `nestjs-holdfast/testing`: locks without Redis, whose time and faults a test controls. */
export { TestLocks, type BusyOptions, type OverridesProviders, type TestLocksOptions } from './test-locks.js';
