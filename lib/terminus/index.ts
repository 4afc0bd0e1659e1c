/** The exports of `nestjs-holdfast/terminus`: a health indicator for @nestjs/terminus, which is an optional peer. */
export { LockHealthIndicator, type LockHealthOptions } from './lock-health.indicator.js';
