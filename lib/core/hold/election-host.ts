/** What a service gives to all its candidates. */
import type { Clock } from '../port/clock.js';
import type { CallSite, ResolvedDefaults, WithLockOptions } from '../port/lock-options.js';
import type { Announcer } from './announcer.js';
import type { Hold } from './hold.js';
import type { HoldContext } from './hold-context.js';

export interface ElectionHost {
  readonly clock: Clock;
  readonly context: HoldContext;
  readonly defaults: ResolvedDefaults;
  readonly announcer: Announcer;
  acquire(key: string, options: WithLockOptions & CallSite): Promise<Hold>;
}
