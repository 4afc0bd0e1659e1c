/**
 * Judges what holders did to each other: given a history, says where it broke a promise. It knows nothing of how the
 * history came about.
 *
 *   overlap  two incompatible holds were trusted at one time                                               (S1)
 *   fence    a grant's fence was not greater than that of an incompatible hold which had ended before      (S2)
 *   order    a writer was served before another one that was known to wait when it asked                   (L1)
 */
import type { LockMode } from '../../lib/core/port/lock-mode.js';
import { readStays, type HistoryEvent, type Stay, type TrustedWindow } from './history.js';

export interface Violation {
  readonly rule: 'overlap' | 'fence' | 'order';
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
    return [...findOverlaps(holds), ...findFences(holds), ...findOrder(holds)].map((found) => ({ key, ...found }));
  });
}

/** Holders of one owner count as one. */
function related(one: Stay, other: Stay): boolean {
  return one === other || (one.owner !== undefined && one.owner === other.owner);
}

function exclusive(one: LockMode, other: LockMode): boolean {
  return one === 'write' || other === 'write';
}

function findOverlaps(holds: readonly Hold[]): Found[] {
  const found: Found[] = [];
  let open: TrustedWindow[] = [];
  for (const next of holds.flatMap(({ windows }) => windows).sort((one, other) => one.from - other.from)) {
    open = open.filter(({ until }) => until > next.from);
    for (const other of open) {
      if (!exclusive(other.mode, next.mode) || related(other.stay, next.stay)) continue;
      found.push({ rule: 'overlap', message: `${tell(other)} beside ${tell(next)}` });
    }
    if (next.until > next.from) open.push(next);
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
    const message = `${hold.id} was granted fence ${hold.grant.fence} at ${hold.grant.at}, after ${before.id} with ${before.grant.lastFence} had ended`;
    found.push({ rule: 'fence', message });
  }
  return found;
}

function higher(one: Hold | undefined, other: Hold): Hold {
  return one === undefined || other.grant.lastFence > one.grant.lastFence ? other : one;
}

function endOf({ windows }: Hold): number {
  return windows.at(-1)?.until ?? -Infinity;
}

/** From the last grant back to the first: nobody granted later may have been waiting before this one asked. */
function findOrder(holds: readonly Hold[]): Found[] {
  const found: Found[] = [];
  const writers = holds.filter(({ askedMode, owner, adopts }) => askedMode === 'write' && owner === undefined && !adopts);
  let passed: { stay: Hold; since: number } | undefined;
  for (const stay of writers.sort((one, other) => other.grant.at - one.grant.at)) {
    if (passed !== undefined && passed.since < stay.askedAt && passed.stay.grant.at > stay.grant.at) {
      const message = `${stay.id} asked at ${stay.askedAt} and was served before ${passed.stay.id}, which waited since ${passed.since}`;
      found.push({ rule: 'order', message });
    }
    if (stay.queuedAt !== undefined && stay.queuedAt < (passed?.since ?? Infinity)) passed = { stay, since: stay.queuedAt };
  }
  return found;
}
