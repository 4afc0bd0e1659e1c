/** What a LockService tells of its store. */
import type { StoreEvent } from '../../lib/core/port/lock-events.js';
import type { LockService } from '../../lib/lock.service.js';

/** The events of the store from now on. */
export function storeEvents(locks: LockService): StoreEvent[] {
  const told: StoreEvent[] = [];
  locks.events.subscribe((event) => event.key === undefined && told.push(event));
  return told;
}

/** How many leases this process has brought back in all recoveries. */
export function broughtBack(events: readonly StoreEvent[]): number {
  return events.reduce((sum, event) => sum + (event.type === 'storeRecovered' ? event.broughtBack : 0), 0);
}
