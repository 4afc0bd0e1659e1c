/**
 * Looks at what stands in a simulated Redis after each script that may let somebody in: the records must make sense by
 * themselves, and nobody may wait whose turn it is.
 */
import { WAITER_LEASE_MS } from '../../lib/stores/memory/lock-machine.js';
import type { LuaReply } from './lua-interpreter.js';
import type { SimServer } from './sim-server.js';

/** What is looked at of a server. */
export type RecordView = Pick<SimServer, 'text' | 'hash' | 'nowMs' | 'expiryOf' | 'isHeardOn'> & { readonly name?: string };

/** What acquire.lua answers when it came too late and did nothing. */
const LATE = 5;
/** What it answers to a request that names another number of permits than those who hold the lock or wait for it. */
const OTHER_PERMITS = 8;

export interface Holder {
  readonly end: number;
  readonly id: string;
  readonly fence: number;
  readonly fences: number;
  readonly owner: string;
}

export class RecordCheck {
  readonly violations: string[] = [];
  /** Scripts were cut half way by a full server: what they left is judged by whether service goes on. */
  lenient = false;
  private readonly fences = new Map<string, number>();
  /** Whether records of holders that ended may have come back. */
  private hasForgotten = false;

  /** The server's memory is another one now. */
  forget(): void {
    this.fences.clear();
    this.hasForgotten = true;
  }

  readonly after = (server: SimServer, keys: readonly string[], reply: LuaReply): void => {
    for (let at = 0; at + 2 < keys.length; at += 3) {
      const answer = keys.length > 3 && Array.isArray(reply) ? reply[at / 3] : reply;
      // A request that is late, or names another number of permits, is refused before the script looks whose lease has ended.
      if (Array.isArray(answer) && (answer[0] === LATE || answer[0] === OTHER_PERMITS)) continue;
      const [lockKey = '', queueKey = '', fenceKey = ''] = keys.slice(at, at + 3);
      if (!lockKey.includes('}:l:') || !queueKey.includes('}:q:')) return;
      for (const what of this.lenient ? [] : this.faults(server, lockKey, queueKey, fenceKey)) {
        this.violations.push(`${what}: ${lockKey} = ${server.text(lockKey)} ${JSON.stringify([...(server.hash(queueKey) ?? [])])} at ${server.nowMs()}`);
      }
    }
  };

  *faults(server: RecordView, lockKey: string, queueKey: string, fenceKey: string): Generator<string> {
    const text = server.text(lockKey);
    const queue = server.hash(queueKey);
    const now = server.nowMs();
    const fence = parseInt(server.text(fenceKey) ?? '0', 10);
    const counter = `${server.name} ${fenceKey}`;
    if (fence < (this.fences.get(counter) ?? 0)) yield 'the fence counter went back';
    this.fences.set(counter, fence);
    const isServed = ({ end }: Waiter): boolean => end >= servedFrom(server.text(fenceKey));
    const waiting = { r: waitersOf(queue, 'r', now), w: waitersOf(queue, 'w', now) };
    if (text === undefined) {
      if (queue !== undefined && waiting.r.length + waiting.w.length > 0) yield 'a queue without its lock';
      return;
    }
    const holders = readHolders(text).filter(({ end }) => end >= now);
    const queued = text[1] === '1';
    if (!queued && queue !== undefined) yield 'the lock does not know that somebody waits';
    if (queue !== undefined && (server.expiryOf(queueKey) ?? Infinity) > (server.expiryOf(lockKey) ?? Infinity)) yield 'the queue outlives its lock';
    if (Math.max(...holders.map(({ end }) => end)) > (server.expiryOf(lockKey) ?? Infinity)) yield 'the lock expires before its holders';
    // What was told of a holder that was forgotten may be older than what was told of another.
    const known = holders.filter((holder) => holder.fences > 0);
    if (text[0] === 'w' && new Set(known.map(({ owner }, n) => (owner === '-' ? n : owner))).size > 1) yield 'two writers';
    if (text[0] === 'p') yield* this.permitFaults(holders, waiting.w.filter(isServed).length, (server.text(fenceKey) ?? '').split(' ').length > 2);
    if (known.some((holder) => holder.fence + holder.fences - 1 > fence)) yield 'a holder has a fence that the counter does not know';
    // In a recovery nobody is let in.
    if ((server.text(fenceKey) ?? '').split(' ').length > 2) return;
    if (holders.length === 0 && [...waiting.r, ...waiting.w].some(isServed)) yield 'a free lock with waiters';
    if (text[0] === 'r' && waiting.w.length === 0 && waiting.r.some((waiter) => isServed(waiter) && hears(server, lockKey, waiter))) yield 'readers wait beside readers';
  }

  /** In the owner's place each holder says how many permits there are. */
  private *permitFaults(holders: readonly Holder[], waiting: number, recovers: boolean): Generator<string> {
    if (new Set(holders.map(({ owner }) => owner)).size > 1) yield 'two numbers of permits';
    const permits = Number(holders[0]?.owner);
    if (holders.length > permits && !this.hasForgotten) yield 'more holders than permits';
    if (holders.length < permits && waiting > 0 && !recovers) yield 'a free permit with waiters';
  }
}

/** Those who stand in a lock's record, ended or not. */
export function readHolders(text: string): Holder[] {
  if (text === '') return [];
  return text
    .slice(4)
    .split('\n')
    .map((line): Holder => {
      const [end, id = '', fence, fences, , owner = '-'] = line.split(' ');
      return { end: Number(end), id, fence: Number(fence), fences: Number(fences), owner };
    });
}

/** A waiter whose place ends before this was last heard of by an earlier memory, and has to ask again before it is served (queue.lua). */
const servedFrom = (fenceRecord = ''): number => Number(fenceRecord.split(' ')[1]?.slice(17)) + WAITER_LEASE_MS;

/** A live waiter: its id, until when its place is kept for it, and what its record says of when others go first. */
export interface Waiter {
  readonly id: string;
  readonly end: number;
  readonly turn: string;
}

/** Who has as little time left was last heard of 1.2 s ago. */
const LEFT_TO_THE_SILENT_MS = 1_300;

/** Whether a script would let it in when its turn comes. */
export function hears(server: RecordView, lockKey: string, { id, end, turn }: Waiter): boolean {
  if (turn === '0') return true;
  if (end < server.nowMs() + LEFT_TO_THE_SILENT_MS) return false;
  const [, prefix] = /^\{(.*):\d+\}/.exec(lockKey) ?? [];
  return turn === '3' || server.isHeardOn(`{${prefix}}:c:${id.slice(0, id.lastIndexOf('.'))}`);
}

export function waitersOf(queue: ReadonlyMap<string, string> | undefined, mode: 'r' | 'w', now: number): Waiter[] {
  const waiters: Waiter[] = [];
  for (let id = queue?.get(`${mode}h`); id !== undefined; id = queue?.get(`>${id}`)) {
    const record = queue?.get(`@${id}`);
    if (record === undefined) continue;
    const end = Number(record.slice(0, 13));
    if (end >= now) waiters.push({ id, end, turn: record.charAt(15) });
  }
  return waiters;
}
