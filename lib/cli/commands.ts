/**
 * The commands of `holdfast`. Each resolves with the exit code.
 */
import { systemClock, pause } from '../core/port/clock.js';
import { checkKey, roleKey } from '../core/key/check-key.js';
import { LockStoreError } from '../core/port/errors.js';
import { type LockState, whereaboutsOf } from '../core/port/lock-state.js';
import { overviewOf, rowOf, type LockOverview } from '../board/lock-overview.js';
import type { Command } from './arguments.js';
import type { Look } from './look.js';
import type { Output } from './output.js';
import { columnsFor, details, heading, ledBy, summaryLine, who } from './table.js';

export const EXIT = { done: 0, nothing: 1, usage: 2, store: 3 } as const;
export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

export interface Terminal {
  readonly out: Output;
  /** Standard error, for lines that are meant for people and do not belong to the output. */
  readonly err: Output;
  readonly json: boolean;
  /** Aborts on SIGINT and SIGTERM. */
  readonly stop: AbortSignal;
}

type Of<Name extends Command['name']> = Extract<Command, { name: Name }>;

const MAX_WATCHED = 200;
/** How many lines of the terminal are left to what is no row of the table. */
const SCREEN_FRAME = 4;
const HOME_AND_CLEAR = '\u001b[H\u001b[J';

export function run(command: Exclude<Command, Of<'redlock init'>>, look: Look, around: Terminal): Promise<ExitCode> {
  switch (command.name) {
    case 'list':
      return list(command, look, around);
    case 'inspect':
      return inspect(command, look, around);
    case 'leader':
      return leader(command, look, around);
    case 'watch':
      return watch(command, look, around);
    case 'release':
      return release(command, look, around);
  }
}

/** Prints each lock when it is found, so that memory does not grow with the number of locks. */
async function list({ startsWith, onlyWaited }: Of<'list'>, look: Look, { out, err, json, stop }: Terminal): Promise<ExitCode> {
  const columns = columnsFor(out.columns);
  let told = 0;
  for await (const state of look.list({ startsWith })) {
    if (onlyWaited && state.waiters.length === 0) continue;
    if (told === 0 && !json) await out.line(heading(columns));
    told += 1;
    await out.line(json ? JSON.stringify(state) : summaryLine(rowOf(state), columns));
    if (out.hungUp || stop.aborted) return EXIT.done;
  }
  if (!json) await err.message(told === 0 ? 'No lock is held or waited for here. Is --prefix right?' : `${told} ${told === 1 ? 'lock' : 'locks'}`);
  return told === 0 ? EXIT.nothing : EXIT.done;
}

async function inspect({ key }: Of<'inspect'>, look: Look, { out, json }: Terminal): Promise<ExitCode> {
  const state = await look.inspect(checkKey(key));
  if (json) await out.line(JSON.stringify(state));
  else for (const line of details(state, systemClock.wallNow())) await out.line(line);
  return isIdle(state) ? EXIT.nothing : EXIT.done;
}

async function leader({ role }: Of<'leader'>, look: Look, { out, json }: Terminal): Promise<ExitCode> {
  const { holders, waiters } = await look.inspect(roleKey(role));
  const [holder = null] = holders;
  if (json) await out.line(JSON.stringify({ role, leader: holder, candidates: waiters }));
  else for (const line of ledBy(role, holder, waiters, systemClock.wallNow())) await out.line(line);
  return holder === null ? EXIT.nothing : EXIT.done;
}

async function watch({ startsWith, everyMs }: Of<'watch'>, look: Look, { out, err, json, stop }: Terminal): Promise<ExitCode> {
  const stopped = aborted(stop);
  while (!out.hungUp && !stop.aborted) {
    try {
      const overview = await overviewOf(look.list({ startsWith }), MAX_WATCHED);
      await out.write(json ? `${JSON.stringify({ at: systemClock.wallNow(), ...overview })}\n` : screen(overview, out));
    } catch (error) {
      // Whoever watches while a server restarts wants to see what comes after that.
      if (!(error instanceof LockStoreError && error.retryable)) throw error;
      await err.message(`holdfast: ${error.message}`);
    }
    await Promise.race([pause(systemClock, everyMs), stopped]);
  }
  return EXIT.done;
}

async function release({ key, fence, confirmed }: Of<'release'>, look: Look, { out, err, json }: Terminal): Promise<ExitCode> {
  checkKey(key);
  if (!confirmed) {
    const { holders } = await look.inspect(key);
    const holder = holders.find((one) => one.fence === fence);
    if (holder !== undefined) {
      const from = who({ ...holder, ...whereaboutsOf(holder.id) });
      await err.message(`This would take '${key}' away from ${from}. The signal of its method aborts, but the method may go on for a moment. Repeat with --yes to do it.`);
      return EXIT.usage;
    }
  }
  const released = confirmed && (await look.forceRelease(key, fence));
  if (json) await out.line(JSON.stringify({ key, fence, released }));
  else if (released) await out.message(`'${key}' was taken away from the holder with fence ${fence}.`);
  else await out.message(`'${key}' has no holder with fence ${fence}; nothing was changed.`);
  return released ? EXIT.done : EXIT.nothing;
}

/** The text of one look: as many rows as fit into the terminal, or without a terminal all rows of the overview. */
function screen(overview: LockOverview, { columns, rows }: Output): string {
  const widths = columnsFor(columns);
  const shown = overview.rows.slice(0, rows === undefined ? MAX_WATCHED : Math.max(1, rows - SCREEN_FRAME));
  const more = overview.more + overview.rows.length - shown.length;
  const { held, waitedFor, waiting } = overview;
  const lines = [
    `${new Date(systemClock.wallNow()).toISOString()}  ${held} held, ${waitedFor} waited for, ${waiting} waiting`,
    heading(widths),
    ...shown.map((row) => summaryLine(row, widths)),
    ...(more > 0 ? [`and ${more} more`] : []),
  ];
  return `${columns === undefined ? '' : HOME_AND_CLEAR}${lines.join('\n')}\n`;
}

function isIdle({ mode, waiters }: LockState): boolean {
  return mode === null && waiters.length === 0;
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
}
