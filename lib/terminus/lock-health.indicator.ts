/** Health of the store behind a lock module, for @nestjs/terminus. */
import { Inject, Injectable } from '@nestjs/common';
import { ModuleRef } from '@nestjs/core';
import { HealthIndicatorService, type HealthIndicatorResult } from '@nestjs/terminus';
import { systemClock } from '../core/port/clock.js';
import type { Leadership } from '../core/hold/leadership.js';
import type { LockStore } from '../core/port/lock-store.js';
import type { LockService } from '../lock.service.js';
import { findLocks } from '../nest/find-locks.js';
import { DEFAULT_INSTANCE, storeToken } from '../nest/lock-names.js';

export interface LockHealthOptions {
  /**
   * The `name` of the LockModule to look at. For one with a `route` all lock modules are asked that keep locks.
   * @default the module without a name
   */
  instance?: string | undefined;
  /**
   * An answer that takes longer counts as none, in ms.
   * @default 1000
   */
  timeoutMs?: number | undefined;
}

/** The LockService of a module with a route also knows the modules that the route can lead to. */
type Asked = Partial<LockService> & { instances?(): ReadonlyMap<string, LockService> };

const DEFAULT_TIMEOUT_MS = 1_000;

/**
 * Whether locks can be had: takes a lock that nobody else can name, and gives it back. A store that answers questions and
 * refuses writes is down.
 *
 *     @Get('health') @HealthCheck()
 *     check() {
 *       return this.health.check([() => this.lockHealth.pingCheck('locks')]);
 *     }
 *
 * `up` and `down` come with `latencyMs`, `down` with the reason as `message`. In a process that stands for roles they come with
 * `roles` as well, which says of each whether this process leads: `{ indexer: { isLeader: true } }`.
 */
@Injectable()
export class LockHealthIndicator {
  constructor(
    @Inject(HealthIndicatorService) private readonly health: HealthIndicatorService,
    @Inject(ModuleRef) private readonly moduleRef: ModuleRef,
  ) {}

  /** Never rejects for a store that is down. @throws LockUsageError when there is no lock module of that name */
  async pingCheck<const Key extends string>(key: Key, options: LockHealthOptions = {}): Promise<HealthIndicatorResult<Key>> {
    const { instance = DEFAULT_INSTANCE, timeoutMs = DEFAULT_TIMEOUT_MS } = options;
    const locks = findLocks<Asked>(this.moduleRef, instance, 'LockHealthIndicator');
    const session = this.health.check(key);
    const askedAt = systemClock.now();
    const failure = locks.instances ? await this.failures([...locks.instances().keys()], timeoutMs) : await this.failure(instance, timeoutMs);
    const latencyMs = Math.round(systemClock.now() - askedAt);
    const told = { latencyMs, ...rolesOf(locks.leaderships) };
    return failure === undefined ? session.up(told) : session.down({ message: failure, ...told });
  }

  /** Which keys a route knows is its own affair: tried are the stores that it can lead to. */
  private async failures(instances: readonly string[], timeoutMs: number): Promise<string | undefined> {
    const tried = instances.map(async (instance) => {
      const failure = await this.failure(instance, timeoutMs);
      return failure === undefined ? [] : [`Lock module '${instance}': ${failure}`];
    });
    const failures = (await Promise.all(tried)).flat();
    return failures.length > 0 ? failures.join(' ') : undefined;
  }

  /** Why no lock can be had there, if that is so. */
  private failure(instance: string, timeoutMs: number): Promise<string | undefined> {
    return within(timeoutMs, this.moduleRef.get<LockStore>(storeToken(instance), { strict: false }).tryOut());
  }
}

/** Of two candidates for one role in this process it counts that one of them leads. */
function rolesOf(leaderships: readonly Leadership[] = []): { roles?: Record<string, { isLeader: boolean }> } {
  if (leaderships.length === 0) return {};
  const leads = (name: string): boolean => leaderships.some(({ role, isLeader }) => role === name && isLeader);
  return { roles: Object.fromEntries(leaderships.map(({ role }) => [role, { isLeader: leads(role) }])) };
}

/** Why there was no answer, if there was none. */
function within(timeoutMs: number, answer: Promise<unknown>): Promise<string | undefined> {
  return new Promise((resolve) => {
    const timer = systemClock.setTimer(() => resolve(`The lock store did not answer within ${timeoutMs} ms.`), timeoutMs);
    const done = (failure?: string): void => {
      systemClock.clearTimer(timer);
      resolve(failure);
    };
    answer.then(() => done(), (error: unknown) => done(messageOf(error)));
  });
}

/** In a test runner's own realm errors are not instances of our Error. */
function messageOf(error: unknown): string {
  const message: unknown = typeof error === 'object' && error !== null && 'message' in error ? error.message : error;
  return String(message);
}
