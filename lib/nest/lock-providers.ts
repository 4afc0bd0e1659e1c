/**
 * The providers of one lock module. Each is made of the one before: options, store, LockService, LockInterceptor.
 */
import { Logger, type FactoryProvider, type InjectionToken, type Provider } from '@nestjs/common';
import { ModulesContainer } from '@nestjs/core';
import { systemClock } from '../core/port/clock.js';
import { LockUsageError } from '../core/port/errors.js';
import type { LockStore, StoreCapabilities } from '../core/port/lock-store.js';
import { completeProfiles } from '../core/port/options.js';
import type { Report } from '../core/port/lock-events.js';
import { LockService } from '../lock.service.js';
import { bootLine, embeddedLine } from './boot-line.js';
import { createStore } from './create-store.js';
import { logReports } from './lock-log.js';
import { lockHome, MODULE_DEFAULTS, ownOptions, type LockModuleOptions } from './lock-module-options.js';
import { INSTANCE_NAME, interceptorToken, locksToken, MODULE_OPTIONS, storeToken } from './lock-names.js';
import { LockInterceptor } from './lock.interceptor.js';
import { LockRouter, type Locks } from './lock-router.js';
import { processName } from './process-name.js';
import { openFor, orRefuse } from './refused-boot.js';

/** The token of the name of this process in holder ids. It is not exported from the lock module. */
const PROCESS_NAME = Symbol.for('nestjs-holdfast:process-name');
/** The token of the Report to which the store and the LockService give what belongs into the log. It is not exported either. */
const REPORT = Symbol.for('nestjs-holdfast:report');

/** The providers of the lock module named `instance`, and the tokens that it exports. @throws LockUsageError for an invalid name */
export function lockProviders(instance: string): { providers: Provider[]; exports: InjectionToken[] } {
  if (typeof instance !== 'string' || instance === '') {
    throw new LockUsageError(`LockModule: expected name to be a text that is not empty, got ${String(instance)}.`);
  }
  const named = { provide: INSTANCE_NAME, useValue: instance };
  const shared = [storeProvider(instance), locksProvider(instance), interceptorProvider(instance)];
  return { providers: [named, processProvider, reportProvider, ...shared], exports: shared.map(({ provide }) => provide) };
}

const processProvider: FactoryProvider<string> = {
  provide: PROCESS_NAME,
  inject: [MODULE_OPTIONS],
  // The options can be undefined here, when useFactory returned nothing: the store's provider then throws an error that says so.
  useFactory: (options: LockModuleOptions | undefined) => processName(options?.describeHolders ?? MODULE_DEFAULTS.describeHolders),
};

const reportProvider: FactoryProvider<Report> = { provide: REPORT, useFactory: () => logReports(new Logger('LockModule'), systemClock) };

/**
 * The store has a provider of its own, so that tests can override it. It is null for a module that routes every key to other
 * modules.
 */
function storeProvider(instance: string): FactoryProvider<Promise<LockStore | null>> {
  return {
    provide: storeToken(instance),
    inject: [MODULE_OPTIONS, PROCESS_NAME, REPORT, ModulesContainer],
    useFactory: (options: LockModuleOptions, process: string, report: Report, modules: ModulesContainer) =>
      orRefuse(modules, () => {
        const environment = globalThis.process.env['NODE_ENV'];
        const where = lockHome(options, environment);
        if (where.kind === 'elsewhere') return null;
        if (where.kind === 'embedded') new Logger('LockModule').log(embeddedLine(where.implied));
        return createStore(where, options, { process, clock: systemClock, report, environment });
      }),
  };
}

/**
 * The LockService is opened while Nest makes the providers: so a store that cannot serve fails the boot, and locks can be
 * taken from `onModuleInit` on.
 */
function locksProvider(instance: string): FactoryProvider<Promise<Locks>> {
  return {
    provide: locksToken(instance),
    inject: [MODULE_OPTIONS, PROCESS_NAME, REPORT, storeToken(instance), ModulesContainer],
    useFactory: (options: LockModuleOptions, process: string, report: Report, store: LockStore | null, modules: ModulesContainer): Promise<Locks> =>
      orRefuse(modules, async () => {
        if (store) checkCapabilities(store.capabilities, options);
        const own = store && (await openFor(modules, new LockService({ ...ownOptions(options), store, process, report, instance })));
        if (store?.summary) new Logger('LockModule').log(bootLine(instance, store.summary));
        return options.route ? new LockRouter({ route: options.route, profiles: completeProfiles(options.profiles) }, instance, own, modules) : (own ?? neverRouted(instance));
      }),
  };
}

/** @throws LockUsageError when an option needs what the store does not have */
function checkCapabilities({ replicas }: StoreCapabilities, { minReplicas = 0 }: LockModuleOptions): void {
  if (minReplicas > 0 && !replicas) {
    throw new LockUsageError(`LockModule options: minReplicas is ${minReplicas}, but this store has no replicas to count.`);
  }
}

/** A module without a route has a store, unless a test has overridden it by null. */
function neverRouted(instance: string): never {
  throw new LockUsageError(`LockModule '${instance}' has neither a store nor a route.`);
}

function interceptorProvider(instance: string): FactoryProvider<LockInterceptor> {
  return {
    provide: interceptorToken(instance),
    inject: [locksToken(instance), MODULE_OPTIONS],
    useFactory: (locks: Locks, { describeHolders, profiles }: LockModuleOptions) => new LockInterceptor(locks, describeHolders, completeProfiles(profiles)),
  };
}
