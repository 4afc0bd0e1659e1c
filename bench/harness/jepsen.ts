/**
 * Histories as the checkers of Jepsen read them (EDN, an operation a line), so that somebody else's judge can be asked as well:
 * `jepsen.checker/set-full` and `set` take what {@link setHistory} writes.
 */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Addition } from './elements.js';

const TYPES = { added: ':ok', refused: ':fail', unknown: ':info' } as const;

/** Additions to a set, and what was read from it in the end. */
export function setHistory(additions: readonly Addition[], read: readonly number[]): string {
  const processes = [...new Set(additions.map(({ process }) => process))];
  const numberOf = (process: string): number => processes.indexOf(process);
  const steps = additions.flatMap((addition) => [
    { at: addition.askedAt, type: ':invoke', addition },
    // What was never answered stays open, as a process that crashed.
    ...(Number.isFinite(addition.answeredAt) ? [{ at: addition.answeredAt, type: TYPES[addition.outcome], addition }] : []),
  ]);
  steps.sort((one, other) => one.at - other.at);
  const lines = steps.map(({ at, type, addition }) => operation(type, numberOf(addition.process), ':add', String(addition.element), at));
  const end = Math.max(0, ...steps.map(({ at }) => at)) + 1;
  const reader = processes.length;
  lines.push(operation(':invoke', reader, ':read', 'nil', end), operation(':ok', reader, ':read', `#{${read.join(' ')}}`, end + 1));
  return `${lines.join('\n')}\n`;
}

/** Writes a history into the folder that HOLDFAST_HISTORIES names, if it names one. */
export async function keepHistory(name: string, history: string): Promise<void> {
  const folder = process.env['HOLDFAST_HISTORIES'];
  if (folder === undefined) return;
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, `${name}.edn`), history);
}

function operation(type: string, process: number, f: string, value: string, atMs: number): string {
  return `{:type ${type}, :process ${process}, :f ${f}, :value ${value}, :time ${Math.round(atMs * 1e6)}}`;
}
