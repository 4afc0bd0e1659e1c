/**
 * Formats locks as lines of text. A line is printed as soon as its lock is found, so the widths of the columns depend on the
 * terminal and not on all rows.
 */
import { type HolderRow, type LockRow, rowOf, type WaiterRow } from '../board/lock-overview.js';
import { type HolderState, type LockState, type WaiterState, type Whereabouts, whereaboutsOf } from '../core/port/lock-state.js';
import { printable } from './output.js';

/** The width of a line without a terminal. Longer text is not cut then, because another program reads it. */
const WIDTH_IN_PIPES = 130;
const NARROWEST = 60;
const MODE = 5;
const LEFT = 7;
const WAITING = 7;
const GAPS = 10;

interface Columns {
  readonly key: number;
  readonly holder: number;
  /** True if text that is wider than its column is cut. */
  readonly cut: boolean;
}

export function columnsFor(terminal: number | undefined): Columns {
  const width = Math.max(NARROWEST, terminal ?? WIDTH_IN_PIPES);
  const free = width - MODE - LEFT - WAITING - GAPS;
  const key = Math.floor(free * 0.4);
  return { key, holder: free - key, cut: terminal !== undefined };
}

export function heading(columns: Columns): string {
  return lineOf(columns, 'KEY', 'MODE', 'HELD BY', 'LEFT', 'WAITING');
}

export function summaryLine(row: LockRow, columns: Columns): string {
  const [first] = row.holders;
  const others = row.holders.length + row.moreHolders - 1;
  const freeIn = first && freeInMs(first);
  const handedOff = first?.handedOff ? 'handed off by ' : '';
  const name = first === undefined ? '-' : `${handedOff}${who(first)}${others > 0 ? ` (+${others})` : ''}`;
  const inUse = row.permits === undefined ? '' : `${others + 1} of ${row.permits} in use: `;
  const holder = freeIn === undefined ? `${inUse}${name}` : `${inUse}free in ${duration(freeIn)} unless released: ${name}`;
  const left = first === undefined || freeIn !== undefined ? '-' : duration(first.remainingMs);
  const waiting = row.waiters.length + row.moreWaiters;
  return lineOf(columns, row.key, row.mode ?? '-', holder, left, waiting === 0 ? '-' : String(waiting));
}

/** Lines with everything that is known of one lock. The age of a hold is about right: `wallNow` is compared with the store's clock. */
export function details(state: LockState, wallNow: number): string[] {
  const { key, mode, holders, waiters } = state;
  const lines = [`${printable(key)}: ${howHeld(state)}`];
  for (const holder of holders) {
    const [row] = rowOf({ key, mode, holders: [holder], waiters: [] }).holders;
    if (row !== undefined) lines.push(...holderLines(row, wallNow));
  }
  if (waiters.length > 0) lines.push(`${waiters.length === 1 ? 'waits' : 'wait'} for it, in order of service:`);
  waiters.forEach((waiter, n) => lines.push(`  ${n + 1}. ${waiter.mode}  ${who({ ...waiter, ...whereaboutsOf(waiter.id) })}`));
  return lines;
}

function howHeld({ mode, permits, holders }: LockState): string {
  if (permits !== undefined) return `${holders.length} of ${permits} permits in use`;
  return mode === null ? 'held by nobody' : `held for ${mode === 'write' ? 'writing' : 'reading'}`;
}

/** Who leads a role, and who stands for it. */
export function ledBy(role: string, holder: HolderState | null, candidates: readonly WaiterState[], wallNow: number): string[] {
  const lines = [`${printable(role)}: ${holder === null ? 'nobody leads' : 'led by'}`];
  const held = holder === null ? [] : [holder];
  const { holders, waiters } = rowOf({ key: role, mode: 'write', holders: held, waiters: candidates });
  for (const row of holders) lines.push(...holderLines(row, wallNow));
  if (candidates.length > 0) lines.push(`${candidates.length === 1 ? 'stands' : 'stand'} for election, in order of service:`);
  waiters.forEach((waiter, n) => lines.push(`  ${n + 1}. ${who(waiter)}`));
  if (waiters.length < candidates.length) lines.push(`  and ${candidates.length - waiters.length} more`);
  return lines;
}

export function who({ label, ...where }: HolderRow | WaiterRow): string {
  return printable(`${label ?? 'unnamed work'} on ${whereText(where)}`);
}

function duration(ms: number): string {
  if (ms < 1_000) return `${Math.max(0, Math.round(ms))} ms`;
  const seconds = Math.floor(ms / 1_000);
  if (seconds < 100) return `${seconds} s`;
  return seconds < 6_000 ? `${Math.floor(seconds / 60)} min` : `${Math.floor(seconds / 3_600)} h`;
}

function holderLines(holder: HolderRow, wallNow: number): string[] {
  const age = holder.since === undefined ? '' : `since about ${duration(wallNow - holder.since)}, `;
  const owner = holder.owner === undefined ? '' : `, owner ${printable(holder.owner)}`;
  return [`  ${who(holder)}`, `    ${age}${endOf(holder, wallNow)}, fence ${holder.fence}${owner}`];
}

/** When the lock of a hold becomes free whose lease has ended; undefined while the lease lasts. */
function freeInMs({ remainingMs, graceMs }: HolderRow): number | undefined {
  return remainingMs <= 0 ? graceMs : undefined;
}

function endOf(holder: HolderRow, wallNow: number): string {
  const freeIn = freeInMs(holder);
  if (freeIn !== undefined) return `lease has ended, free in ${duration(freeIn)} unless released`;
  if (holder.handedOff) return `handed off, ticket until ${new Date(wallNow + holder.remainingMs).toISOString()} (in ${duration(holder.remainingMs)})`;
  const grace = holder.graceMs === undefined ? '' : `, then taken for ${duration(holder.graceMs)} more unless released`;
  return `lease ends in ${duration(holder.remainingMs)} unless renewed${grace}`;
}

function whereText({ host, pid, process }: Whereabouts): string {
  return host === undefined ? `process ${process}` : `${host}:${pid}`;
}

function lineOf(columns: Columns, key: string, mode: string, holder: string, left: string, waiting: string): string {
  const fit = (text: string, width: number): string => {
    const clean = printable(text);
    return columns.cut && clean.length > width ? `${clean.slice(0, width - 1)}…` : clean.padEnd(width);
  };
  return `${fit(key, columns.key)}  ${mode.padEnd(MODE)}  ${fit(holder, columns.holder)}  ${left.padStart(LEFT)}  ${waiting.padStart(WAITING)}`;
}
