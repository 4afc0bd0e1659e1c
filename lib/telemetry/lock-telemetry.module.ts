/** The module that measures the locks of a Nest application with OpenTelemetry. */
import { Inject, Module, type DynamicModule, type OnModuleInit } from '@nestjs/common';
import { ModuleRef } from '@nestjs/core';
import { checkOptions } from '../core/port/options.js';
import { DEFAULT_INSTANCE, findLocks, instancesProblem } from '../nest/lock-names.js';
import { instrumentLocks, OPTIONS, type LockTelemetryOptions } from './instrument-locks.js';

/** Options of LockTelemetryModule.forRoot. */
export interface LockTelemetryModuleOptions extends LockTelemetryOptions {
  /**
   * The names of the lock modules to measure; 'default' is the one without a name. If one of them has a `route`, do not name the modules to
   * which it leads as well: their locks would be measured twice.
   * @default ['default']
   */
  instances?: readonly string[] | undefined;
}

const TELEMETRY_OPTIONS = Symbol.for('nestjs-holdfast:telemetry-options');

/**
 * Measures the locks of the application from its start to its end, with the OpenTelemetry SDK that was registered before
 * the application was created:
 *
 *     imports: [LockModule.forRoot({ redis }), LockTelemetryModule.forRoot()]
 *
 * The boot fails when one of `instances` does not exist.
 */
@Module({})
export class LockTelemetryModule implements OnModuleInit {
  constructor(
    @Inject(TELEMETRY_OPTIONS) private readonly options: LockTelemetryModuleOptions,
    @Inject(ModuleRef) private readonly moduleRef: ModuleRef,
  ) {}

  /** Makes the module. @throws LockUsageError for options that are not valid */
  static forRoot(options: LockTelemetryModuleOptions = {}): DynamicModule {
    checkOptions(options, { ...OPTIONS, names: { ...OPTIONS.names, instances: instancesProblem } });
    return { module: LockTelemetryModule, providers: [{ provide: TELEMETRY_OPTIONS, useValue: options }] };
  }

  /** Begins to measure. Nothing ends it before the events complete, because holds go on until the last hook of a shutdown. */
  onModuleInit(): void {
    const { instances = [DEFAULT_INSTANCE], ...options } = this.options;
    for (const instance of instances) instrumentLocks(findLocks(this.moduleRef, instance, 'LockTelemetryModule', 'events'), { ...options, instance });
  }
}
