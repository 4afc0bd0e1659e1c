/** What `nestjs-holdfast/testing` gives: locks without Redis, whose time and faults a test drives. */
export { TestLocks, type OverridesProviders, type TestLocksOptions } from './test-locks.js';
export type { BusyOptions } from './test-store.js';
