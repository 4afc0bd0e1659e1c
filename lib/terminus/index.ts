/** What `nestjs-holdfast/terminus` gives: a health indicator for @nestjs/terminus, which is an optional peer. */
export { LockHealthIndicator, type LockHealthOptions } from './lock-health.indicator.js';
