/**
 * The class with forRoot and forRootAsync that LockModule extends, and the extras that both methods take beside the options.
 */
import { ConfigurableModuleBuilder } from '@nestjs/common';
import { lockProviders } from './lock-providers.js';
import type { LockModuleOptions } from './lock-module-options.js';
import { DEFAULT_INSTANCE, MODULE_OPTIONS } from './lock-names.js';

/** Options that Nest must know before a factory makes the others. They are given beside `useFactory`, not in its result. */
export interface LockModuleExtras {
  /**
   * Whether every module of the application can inject the locks without importing LockModule.
   * @default true
   */
  isGlobal?: boolean;
  /**
   * The name of this instance of LockModule, for `@InjectLocks(name)` and the option `instance` of the decorators.
   * @default 'default', the instance that is used where no name is given
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
