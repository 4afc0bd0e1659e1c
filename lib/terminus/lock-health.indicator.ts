/** The health indicator of a lock module for @nestjs/terminus: it reports whether locks can be had. */
import { Inject, Injectable } from '@nestjs/common';
import { ModuleRef } from '@nestjs/core';
import { HealthIndicatorService, type HealthIndicatorResult } from '@nestjs/terminus';
import { inTime, systemClock } from '../core/port/clock.js';
import type { Leadership } from '../core/hold/leading.js';
import { messageOf } from '../core/port/errors.js';
import type { LockStore } from '../core/port/lock-store.js';
import { checkOptions, type NamesOf, type OptionList, whole } from '../core/port/options.js';
import type { LockService } from '../lock.service.js';
import { DEFAULT_INSTANCE, findLocks, storeToken } from '../nest/lock-names.js';

/** Options of {@link LockHealthIndicator.pingCheck}. */
export interface LockHealthOptions {
  /**
   * The `name` of the LockModule to check. For one with a `route`, all lock modules to which the route can lead are checked.
   * @default the module without a name
   */
  instance?: string | undefined;
  /**
   * How long the store may take to answer, in ms, from 1 to 3,600,000. A slower answer counts as `down`.
   * @default 1000
   */
  timeoutMs?: number | undefined;
}

const names: NamesOf<LockHealthOptions> = { instance: true, timeoutMs: whole(1, 3_600_000) };
const DEFAULT_TIMEOUT_MS = 1_000;
const OPTIONS: OptionList = { names, example: '{ timeoutMs: 500 }' };

/**
 * Checks whether locks can be had: it takes a lock that nobody else can name, and releases it. So a store that answers questions but
 * refuses writes is `down`.
 *
 *     @Get('health') @HealthCheck()
 *     check() {
 *       return this.health.check([() => this.lockHealth.pingCheck('locks')]);
 *     }
 *
 * The result has `latencyMs`, and when it is `down` the reason as `message`. In a process that stands for roles it has `roles` as
 * well, which says of each role whether this process leads: `{ indexer: { isLeader: true } }`.
 */
@Injectable()
export class LockHealthIndicator {
  constructor(
    @Inject(HealthIndicatorService) private readonly health: HealthIndicatorService,
    @Inject(ModuleRef) private readonly moduleRef: ModuleRef,
  ) {}

  /**
   * Checks the store; it does not reject when the store is down. @throws LockUsageError when there is no lock module of that name, or
   * for an unknown option or a time that is none
   */
  async pingCheck<const Key extends string>(key: Key, options: LockHealthOptions = {}): Promise<HealthIndicatorResult<Key>> {
    checkOptions(options, { ...OPTIONS, of: `LockHealthIndicator.pingCheck('${key}')` });
    const { instance = DEFAULT_INSTANCE, timeoutMs = DEFAULT_TIMEOUT_MS } = options;
    const locks = findLocks<Partial<LockService>>(this.moduleRef, instance, 'LockHealthIndicator', 'tryAcquire');
    const session = this.health.check(key);
    const askedAt = systemClock.now();
    const failure = locks.router ? await this.failures([...locks.router.instances().keys()], timeoutMs) : await this.failure(instance, timeoutMs);
    const latencyMs = Math.round(systemClock.now() - askedAt);
    const told = { latencyMs, ...rolesOf(locks.leaderships) };
    return failure === undefined ? session.up(told) : session.down({ message: failure, ...told });
  }

  /** Checks every store to which a route can lead, because nobody can tell which keys the route will get. */
  private async failures(instances: readonly string[], timeoutMs: number): Promise<string | undefined> {
    const tried = instances.map(async (instance) => {
      const failure = await this.failure(instance, timeoutMs);
      return failure === undefined ? [] : [`Lock module '${instance}': ${failure}`];
    });
    const failures = (await Promise.all(tried)).flat();
    return failures.length > 0 ? failures.join(' ') : undefined;
  }

  /** Why no lock can be had from this lock module; undefined when one can. */
  private failure(instance: string, timeoutMs: number): Promise<string | undefined> {
    const trial = this.moduleRef.get<LockStore>(storeToken(instance), { strict: false }).tryOut();
    const late = (): Error => new Error(`The lock store did not answer within ${timeoutMs} ms.`);
    return inTime(systemClock, trial, timeoutMs, late).then(() => undefined, messageOf);
  }
}

/** Of two candidates for one role in this process it counts that one of them leads. */
function rolesOf(leaderships: readonly Leadership[] = []): { roles?: Record<string, { isLeader: boolean }> } {
  if (leaderships.length === 0) return {};
  const leads = (name: string): boolean => leaderships.some(({ role, isLeader }) => role === name && isLeader);
  return { roles: Object.fromEntries(leaderships.map(({ role }) => [role, { isLeader: leads(role) }])) };
}
