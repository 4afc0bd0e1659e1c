/** The exports of `nestjs-holdfast/telemetry`: OpenTelemetry metrics and spans. @opentelemetry/api is an optional peer. */
export { instrumentLocks, type LockTelemetryOptions } from './instrument-locks.js';
export { LockTelemetryModule, type LockTelemetryModuleOptions } from './lock-telemetry.module.js';
