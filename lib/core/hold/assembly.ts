/** Puts the parts of the core together, once for each lock module. */
import { Watchdog } from '../lease/watchdog.js';
import type { Clock } from '../port/clock.js';
import type { ResolvedDefaults } from '../port/lock-options.js';
import type { LockStore } from '../port/lock-store.js';
import type { Report } from '../port/report.js';
import { LocalQueue } from '../queue/local-queue.js';
import { Announcer, type EventSink } from './announcer.js';
import { Election } from './election.js';
import { HoldContext } from './hold-context.js';
import type { HoldHost } from './hold-host.js';
import { HoldersHere } from './holders-here.js';
import { LockCalls } from './lock-calls.js';
import { ShutdownGate } from './shutdown-gate.js';
import { Tickets } from './tickets.js';
import { Timeouts } from './timeouts.js';
import { WaitingCalls } from './waiting-calls.js';

interface CoreParts {
  readonly events: EventSink;
  readonly store: LockStore;
  /** The name of this process in holder ids, and that of the lock module. */
  readonly process: string;
  readonly instance: string;
  readonly clock: Clock;
  readonly defaults: ResolvedDefaults;
  readonly report: Report | undefined;
}

/** What the API of a lock module uses of its core. */
export interface Core {
  readonly calls: LockCalls;
  readonly context: HoldContext;
  readonly here: HoldersHere;
  readonly election: Election;
  readonly shutdown: ShutdownGate;
}

export function assembleCore({ events, store, process, instance, clock, defaults, report }: CoreParts): Core {
  const announcer = new Announcer(events, report);
  const context = new HoldContext();
  const watchdog = new Watchdog(store, clock, (lease, cause) => announcer.renewFailed(lease, cause, lease.trustedUntil - clock.now()));
  const queue = new LocalQueue(store, clock, watchdog, process, defaults);
  const shutdown = new ShutdownGate(queue, watchdog, clock, defaults, (holds) => announcer.overstayed(holds, defaults.shutdownGraceMs));
  const tickets = new Tickets({ store, clock, background: queue.background, defaults, process, instance });
  const here = new HoldersHere(queue);
  const waiting = new WaitingCalls(clock);
  const host: HoldHost = {
    store,
    clock,
    watchdog,
    context,
    defaults,
    lost: (hold, cause) => announcer.lost(hold, cause, !shutdown.holdLost(hold)),
    ended: (hold, outcome) => {
      if (outcome !== 'lost') shutdown.holdEnded();
      if (events.observed) announcer.released(hold, outcome);
    },
    handOff: (hold, given) => tickets.handOff(hold, given),
  };
  const timeouts = new Timeouts(host, queue, here, waiting);
  const calls = new LockCalls({ events, host, queue, shutdown, tickets, announcer, timeouts, waiting });
  const election = new Election({ clock, context, defaults, announcer, acquire: (key, given) => calls.acquire(calls.begin([key], given)) });
  return { calls, context, here, election, shutdown };
}
