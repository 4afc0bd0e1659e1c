/**
 * The shape of the lock module: forRoot, forRootAsync, and what both take beside the options.
 */
import { ConfigurableModuleBuilder } from '@nestjs/common';
import { lockProviders } from './lock-providers.js';
import type { LockModuleOptions } from './lock-module-options.js';
import { DEFAULT_INSTANCE, MODULE_OPTIONS } from './lock-names.js';

/** What Nest must know before any option can be asked for. */
export interface LockModuleExtras {
  /**
   * Whether every module of the application sees the locks without importing them.
   * @default true
   */
  isGlobal?: boolean;
  /**
   * The name of a further instance, for `@InjectLocks(name)` and the option `instance` of the decorators.
   * @default none: the instance that is meant where none is named
   */
  name?: string;
}

const extras: LockModuleExtras = { isGlobal: true, name: DEFAULT_INSTANCE };

export const { ConfigurableModuleClass, OPTIONS_TYPE, ASYNC_OPTIONS_TYPE } =
  new ConfigurableModuleBuilder<LockModuleOptions>({ optionsInjectionToken: MODULE_OPTIONS })
    .setClassMethodName('forRoot')
    .setExtras(extras, (definition, { isGlobal = true, name = DEFAULT_INSTANCE }) => {
      const { providers, exports } = lockProviders(name);
      return { ...definition, global: isGlobal, providers: [...(definition.providers ?? []), ...providers], exports };
    })
    .build();
