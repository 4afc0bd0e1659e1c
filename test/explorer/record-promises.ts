/** What one script must not do, whoever asked: looked at in the records before and after it. */
import type { LockMode } from '../../lib/core/port/lock-options.js';
import { isTicketId } from '../../lib/core/port/ticket.js';
import { hears, RecordCheck, waitersOf } from '../simulation/record-check.js';
import { KEYS } from './redis-client.js';
import { localNow, type Letter, type State } from './redis-state.js';
import { viewOf, type ServerMemory } from './small-server.js';

type Heard = (channel: string) => boolean;

interface Holder {
  readonly id: string;
  readonly end: number;
  readonly fence: string;
}

/** The promise that a script broke between these two states; it also keeps the line of those who wait. `mayGrant`: it is one that lets in whose turn it is. */
export function brokenByScript(before: State, after: State, isHeard: Heard, { what, id, call }: Letter, mayGrant: boolean): string | undefined {
  const view = viewOf(after.memory, after.now, isHeard);
  if (mayGrant) for (const fault of new RecordCheck().faults(view, KEYS.lockKey, KEYS.queueKey, KEYS.fenceKey)) return `the record: ${fault}`;
  if (lastFence(after.memory) < lastFence(before.memory)) return 'S2: the last fence went back';
  const was = sight(before.memory, after.now, isHeard);
  const is = sight(after.memory, after.now, isHeard);
  const known = before.line.filter((id) => was.waiting.has(id) || is.waiting.has(id));
  after.line = [...known.filter((id) => is.waiting.has(id)), ...[...is.waiting.keys()].filter((id) => !known.includes(id))];
  if (what === 'adopt' && is.holders.some((holder) => holder.id === id) && !was.holders.some((holder) => holder.id === id)) {
    const fault = brokenByAdoption(id, before, after, was);
    if (fault !== undefined) return fault;
  }
  if (what === 'hand off' && is.mode === 'write' && is.holders.some((holder) => holder.id === id) && is.holders.some((holder) => isTicketId(holder.id))) return `S4: ${id} holds beside its ticket`;
  const replaced = what === 'acquire' && mayGrant ? String(call?.args[0]).split(' ').at(-1) : undefined;
  const left = what === 'release' ? id : replaced;
  if (is.holders.some((holder) => holder.id === left)) return `S4: ${left} holds after its release`;
  if ((what === 'renew' || what === 'lengthen') && is.holders.some((holder) => !was.holders.some((other) => other.id === holder.id))) return `S4: a renewal of ${id} revives a lease`;
  return outOfTurn(was, what === 'adopt' ? { ...is, holders: is.holders.filter((holder) => holder.id !== id) } : is, before.line);
}

/** A ticket is good for one adoption, in its time, of a hold that is there. Notes whose it is now. */
function brokenByAdoption(id: string, { ticket }: State, after: State, was: Sight): string | undefined {
  if (ticket === undefined || !was.holders.some((holder) => holder.id === ticket.id)) return `the ticket: ${id} adopts one that is not there`;
  if (localNow(after) > ticket.until) return `the ticket: ${id} adopts it after its time`;
  if (ticket.adoptedBy !== undefined) return `the ticket: ${id} adopts it after ${ticket.adoptedBy}`;
  after.ticket = { ...ticket, adoptedBy: id };
  return undefined;
}

interface Sight {
  readonly mode: LockMode;
  readonly holders: readonly Holder[];
  /** Live waiters with their modes. */
  readonly waiting: ReadonlyMap<string, LockMode>;
}

function sight(memory: ServerMemory, now: number, isHeard: Heard): Sight {
  const view = viewOf(memory, now, isHeard);
  const text = view.text(KEYS.lockKey) ?? '';
  const queue = text[1] === '1' ? view.hash(KEYS.queueKey) : undefined;
  const waiting = new Map<string, LockMode>();
  for (const waiter of waitersOf(queue, 'w', view.nowMs())) if (hears(view, KEYS.lockKey, waiter)) waiting.set(waiter.id, 'write');
  for (const waiter of waitersOf(queue, 'r', view.nowMs())) if (hears(view, KEYS.lockKey, waiter)) waiting.set(waiter.id, 'read');
  const holders = text === '' ? [] : text.slice(4).split('\n').map(holderIn).filter(({ end }) => end >= view.nowMs());
  return { mode: text[0] === 'r' ? 'read' : 'write', holders, waiting };
}

function holderIn(line: string): Holder {
  const [end = '', id = '', fence = ''] = line.split(' ');
  return { id, end: Number(end), fence };
}

/** Writers come in order, readers after a writer before the next one, and nobody passes a writer who waits. */
function outOfTurn(was: Sight, is: Sight, line: readonly string[]): string | undefined {
  const before = new Set(was.holders.map(({ id }) => id));
  // Who shares the hold of its owner, and so its fence, passes all others.
  const shared = new Set(was.holders.map(({ fence }) => fence));
  const entered = is.holders.filter(({ id, fence }) => !before.has(id) && !id.startsWith('~') && !shared.has(fence));
  for (const { id } of entered) {
    const earlier = line.slice(0, Math.max(0, line.indexOf(id)));
    if (is.mode === 'write' && earlier.some((other) => was.waiting.get(other) === 'write' && is.waiting.has(other))) return `L1: ${id} enters before a writer that came earlier`;
    const newcomer = !was.waiting.has(id);
    const keptOut = [...is.waiting].filter(([other]) => was.waiting.has(other));
    const joinsReaders = is.mode === 'read' && was.mode === 'read' && was.holders.length > 0;
    if (joinsReaders && keptOut.some(([, mode]) => mode === 'write')) return `L1: ${id} reads beside readers while a writer waits`;
    if (newcomer && keptOut.some(([, mode]) => mode === 'write')) return `L1: ${id} passes a writer that waits`;
    if (is.mode === 'write' && was.mode === 'write' && keptOut.some(([, mode]) => mode === 'read')) return `L1: ${id} writes after a writer while readers wait`;
  }
  return undefined;
}

function lastFence({ entries }: ServerMemory): number {
  const value = entries.get(KEYS.fenceKey)?.value;
  return typeof value === 'string' ? parseInt(value, 10) : 0;
}
