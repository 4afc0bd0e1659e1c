/**
 * Judges what holders did to each other: given a history, says where it broke a promise. It knows nothing of how the
 * history came about.
 *
 *   overlap  two incompatible holds were trusted at one time                                               (S1)
 *   permits  more holds were trusted at one time than the lock has permits
 *   fence    a grant's fence was not greater than that of an incompatible hold which had ended before      (S2)
 *   order    a writer was served before another one that was known to wait when it asked                   (L1)
 */
import type { LockMode } from '../../lib/core/port/lock-options.js';
import { readStays, type HistoryEvent, type Stay, type TrustedWindow } from './history.js';

export interface Violation {
  readonly rule: 'overlap' | 'permits' | 'fence' | 'order';
  readonly key: string;
  readonly message: string;
}

type Found = Omit<Violation, 'key'>;
/** A stay that came to trust its lease; one whose grant was heard too late is no hold. */
type Hold = Stay & { readonly grant: NonNullable<Stay['grant']> };

/** Every broken promise of a history. */
export function checkHistory(history: readonly HistoryEvent[]): Violation[] {
  const byKey = new Map<string, HistoryEvent[]>();
  for (const event of history) {
    const events = byKey.get(event.key) ?? [];
    byKey.set(event.key, events);
    events.push(event);
  }
  return [...byKey].flatMap(([key, events]) => {
    const holds = readStays(events).filter((stay): stay is Hold => stay.grant !== undefined && stay.windows.length > 0);
    const single = holds.filter(({ permits }) => permits === undefined);
    const permitted = holds.filter(({ permits }) => permits !== undefined);
    const found = [...findOverlaps(holds), ...findFences(single), ...findPermitFences(permitted), ...findOrder(single, ({ grant }) => grant.at), ...findOrder(permitted, ({ grant }) => grant.fence)];
    return found.map((found) => ({ key, ...found }));
  });
}

/** Holders of one owner count as one. */
const related = (one: Stay, other: Stay): boolean => one === other || (one.owner !== undefined && one.owner === other.owner);

/** Those who name the same number of permits go together, up to that many. */
const share = (one: Stay, other: Stay): boolean => one.permits !== undefined && one.permits === other.permits;

const exclusive = (one: LockMode, other: LockMode): boolean => one === 'write' || other === 'write';

function findOverlaps(holds: readonly Hold[]): Found[] {
  const found: Found[] = [];
  let open: TrustedWindow[] = [];
  for (const next of holds.flatMap(({ windows }) => windows).sort((one, other) => one.from - other.from)) {
    open = open.filter(({ until }) => until > next.from);
    for (const other of open) {
      if (!exclusive(other.mode, next.mode) || related(other.stay, next.stay) || share(other.stay, next.stay)) continue;
      found.push({ rule: 'overlap', message: `${tell(other)} beside ${tell(next)}` });
    }
    if (next.until > next.from) open.push(next);
    const { permits } = next.stay;
    const beside = new Set(open.map(({ stay }) => stay)).size;
    if (permits !== undefined && beside > permits) found.push({ rule: 'permits', message: `${tell(next)}, the ${beside}th of ${permits}` });
  }
  return found;
}

function tell({ stay, mode, from, until }: TrustedWindow): string {
  return `${stay.id} trusted its ${mode} lease from ${from} until ${until}`;
}

/**
 * Readers that were let in together hear of it in any order, so only holds that exclude each other are compared: of
 * these, one had ended for the store too before it granted the other.
 */
function findFences(holds: readonly Hold[]): Found[] {
  const found: Found[] = [];
  const ended = [...holds].sort((one, other) => endOf(one) - endOf(other));
  const highest: { any?: Hold; write?: Hold } = {};
  let next = 0;
  for (const hold of [...holds].sort((one, other) => one.grant.at - other.grant.at)) {
    for (let over = ended[next]; over !== undefined && endOf(over) <= hold.grant.at; over = ended[++next]) {
      highest.any = higher(highest.any, over);
      if (over.grant.mode === 'write') highest.write = higher(highest.write, over);
    }
    const before = hold.grant.mode === 'write' ? highest.any : highest.write;
    if (before === undefined || before === hold || hold.grant.fence > before.grant.lastFence) continue;
    // A request that joins a hold of its owner shares its fence, and may stay longer.
    if (related(hold, before) && hold.grant.fence === before.grant.fence) continue;
    const message = `${hold.id} was granted fence ${hold.grant.fence} (${hold.grant.mode}) at ${hold.grant.at}, after ${before.id} with ${before.grant.lastFence} (${before.grant.mode}) had ended at ${endOf(before)}`;
    found.push({ rule: 'fence', message });
  }
  return found;
}

/** Grants of permits are heard of in any order, so a hold is compared with those that had ended before it asked. */
function findPermitFences(holds: readonly Hold[]): Found[] {
  return holds.flatMap((hold) => {
    const before = holds.filter((other) => endOf(other) <= hold.askedAt).reduce<Hold | undefined>(higher, undefined);
    if (before === undefined || hold.grant.fence > before.grant.lastFence) return [];
    return [{ rule: 'fence', message: `${hold.id} asked at ${hold.askedAt} and was granted fence ${hold.grant.fence}, after ${before.id} with ${before.grant.lastFence} had ended` }];
  });
}

const higher = (one: Hold | undefined, other: Hold): Hold => one === undefined || other.grant.lastFence > one.grant.lastFence ? other : one;

function endOf({ windows }: Hold): number {
  return windows.at(-1)?.until ?? -Infinity;
}

/**
 * From the last grant back to the first: nobody granted later may have been waiting before this one asked. `place`: what rises with
 * every grant; for permits it is the fence, because their grants are heard of in any order.
 */
function findOrder(holds: readonly Hold[], place: (hold: Hold) => number): Found[] {
  const found: Found[] = [];
  const writers = holds.filter(({ askedMode, owner, passesQueue, queuedAt }) => askedMode === 'write' && owner === undefined && !(passesQueue && queuedAt === undefined));
  let passed: { stay: Hold; since: number } | undefined;
  for (const stay of writers.sort((one, other) => place(other) - place(one))) {
    if (passed !== undefined && passed.since < stay.askedAt && place(passed.stay) > place(stay)) {
      const message = `${stay.id} asked at ${stay.askedAt} and was served before ${passed.stay.id}, which waited since ${passed.since}`;
      found.push({ rule: 'order', message });
    }
    if (stay.queuedAt !== undefined && stay.queuedAt < (passed?.since ?? Infinity)) passed = { stay, since: stay.queuedAt };
  }
  return found;
}
